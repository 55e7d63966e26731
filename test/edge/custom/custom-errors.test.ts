// Custom errors on a real database (D65): the order, what an answer says, pages, limits, files, other processes.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Database } from '../../../src/base/database/database.ts';
import { followChanges } from '../../../src/base/database/follow-changes.ts';
import { ConfigurationError } from '../../../src/base/errors.ts';
import { silentLog } from '../../../src/base/log.ts';
import type { CustomErrorOwner } from '../../../src/edge/custom/custom-error-store.ts';
import { type CustomErrors, openCustomErrors } from '../../../src/edge/custom/custom-errors.ts';
import { compilePage, pageFault } from '../../../src/edge/custom/error-page.ts';
import type { EdgeOccurrence, ErrorAnswer, ErrorRequest } from '../../../src/edge/errors/catalogue.ts';
import { negotiate } from '../../../src/edge/errors/default-answer.ts';
import type { CustomErrorRule, CustomErrorSettings, EdgeAccountSlice, EdgeZone } from '../../../src/edge/zone/zone.ts';
import { piecesOf } from '../../../src/web/http/listener/whole-response.ts';
import { openTestDatabase } from '../../support/engines.ts';
import { bodyText, errorRequest, occurrenceOf, sampleErrors } from '../../support/error-occurrence.ts';
import { logLines } from '../../support/log-lines.ts';
import fc from '../../support/properties.ts';
import { scratchFolder } from '../../support/scratch.ts';
import { manualClock } from '../../support/smtp-peers.ts';

const zoneId = '11'.repeat(16);
const accountId = 'a1'.repeat(16);
const ofZone: CustomErrorOwner = { level: 'zone', id: zoneId };
const ofAccount: CustomErrorOwner = { level: 'account', id: accountId };

interface Setup {
  readonly zone?: CustomErrorSettings;
  readonly account?: CustomErrorSettings;
  readonly plan?: EdgeAccountSlice['plan'];
  readonly file?: string;
}

function zoneOf(customErrors?: CustomErrorSettings): EdgeZone {
  return {
    id: zoneId,
    name: 'example.com',
    account: accountId,
    hostnames: ['example.com', 'www.example.com'],
    ...(customErrors ? { customErrors } : {}),
  };
}

/** Custom errors of one zone of one account; `open` makes a second process' on the same database. */
async function start({ zone, account, plan = 'enterprise', file = join(scratchFolder(), 'postern.db') }: Setup = {}) {
  const clock = manualClock();
  const { log, lines } = logLines();
  const edgeZone = zoneOf(zone);
  const cutOff: string[] = [];
  const accounts: EdgeAccountSlice[] = [{ id: accountId, plan, ...(account ? { customErrors: account } : {}) }];
  const open = async (): Promise<{ readonly customErrors: CustomErrors; readonly database: Database }> => {
    const database = await openTestDatabase(file);
    const onCutOff = (name: string): void => void cutOff.push(name);
    const parts = { database, zones: [edgeZone], accounts, clock, log, onCutOff };
    return { database, customErrors: await openCustomErrors(parts) };
  };
  const { customErrors, database } = await open();
  const choose = (
    occurrence: EdgeOccurrence = occurrenceOf(sampleErrors.timeout),
    request: ErrorRequest = errorRequest(),
    from = customErrors,
  ): ErrorAnswer | undefined => from.choose(edgeZone, occurrence, request);
  return { customErrors, database, choose, open, clock, lines, file, cutOff };
}

const rule = (content: string, more: Partial<CustomErrorRule> = {}): CustomErrorRule => ({
  expression: 'error_code gt 0',
  content,
  contentType: 'text/plain',
  ...more,
});

const page = (html: string): CustomErrorSettings => ({ errorPage: { html } });
const textOf = (answer: ErrorAnswer | undefined): string | undefined => answer && bodyText(answer);

describe('the specification’s table of configurations', () => {
  const jsonRule = rule('{"rule":true}', {
    expression: 'header["accept"] contains "json"',
    contentType: 'application/json',
  });
  const html = '<p>page</p>';
  const rows: readonly (readonly [string, CustomErrorSettings, readonly string[]])[] = [
    ['nothing configured', {}, ['json', 'markdown', 'html', 'html']],
    ['Error Page only', page(html), [html, html, html, html]],
    ['a rule that matches one', { rules: [jsonRule] }, ['{"rule":true}', 'markdown', 'html', 'html']],
    ['that rule and a page', { rules: [jsonRule], ...page(html) }, ['{"rule":true}', html, html, html]],
    ['a rule that matches all', { rules: [rule('all')], ...page(html) }, ['all', 'all', 'all', 'all']],
  ];
  const accepts = ['application/json', 'text/markdown', 'text/html', undefined];
  test.each(rows)('%s', async (_, zone, wanted) => {
    const { choose } = await start({ zone });
    const got = accepts.map((accept) => {
      const request = errorRequest(accept === undefined ? {} : { headers: { accept: [accept] } });
      return textOf(choose(occurrenceOf(sampleErrors.timeout), request)) ?? negotiate(accept);
    });
    expect(got).toEqual(wanted);
  });
});

describe('the order', () => {
  const layers = ['zone rules', 'account rules', 'zone page', 'account page'] as const;
  const subsets = Array.from({ length: 16 }, (_, bits) => layers.filter((_, index) => (bits & (1 << index)) !== 0));
  const named = subsets.map((present) => [present.join(', ') || 'none', present] as const);

  function settingsOf(level: 'zone' | 'account', present: readonly string[]): CustomErrorSettings {
    return {
      ...(present.includes(`${level} rules`) ? { rules: [rule(`${level} rules`)] } : {}),
      ...(present.includes(`${level} page`) ? page(`${level} page`) : {}),
    };
  }

  test.each(named)('in the file: %s', async (_, present) => {
    const { choose } = await start({ zone: settingsOf('zone', present), account: settingsOf('account', present) });
    expect(textOf(choose())).toBe(present[0]);
  });

  test.each(named)('put by the API: %s', async (_, present) => {
    const { choose, customErrors } = await start();
    for (const owner of [ofAccount, ofZone]) {
      const { rules, errorPage } = settingsOf(owner.level, present);
      if (rules) await customErrors.putRules(owner, rules);
      if (errorPage) await customErrors.putPage(owner, errorPage.html);
    }
    expect(textOf(choose())).toBe(present[0]);
  });

  test.each(named)('on plan free, without the rules: %s', async (_, present) => {
    const { choose } = await start({
      plan: 'free',
      zone: settingsOf('zone', present),
      account: settingsOf('account', present),
    });
    expect(textOf(choose())).toBe(present.find((layer) => layer.endsWith('page')));
  });

  test('a zone rule that does not match leaves it to the account’s, then to the pages', async () => {
    const only522 = (content: string) => rule(content, { expression: 'error_code eq 522' });
    const { choose } = await start({
      zone: { rules: [rule('zone', { expression: 'error_code eq 1' })], ...page('zone page') },
      account: { rules: [only522('account')], ...page('account page') },
    });
    expect(textOf(choose())).toBe('account');
    expect(textOf(choose(occurrenceOf(sampleErrors.limited)))).toBe('zone page');
  });

  test('the first rule that is enabled and matches', async () => {
    const { choose } = await start({
      zone: {
        rules: [
          rule('off', { enabled: false }),
          rule('other', { expression: 'error_code eq 1015' }),
          rule('on', { enabled: true }),
          rule('late'),
        ],
      },
    });
    expect(textOf(choose())).toBe('on');
    expect(textOf(choose(occurrenceOf(sampleErrors.limited)))).toBe('other');
  });

  test('another zone of the account has the account’s, a zone nobody knows has none', async () => {
    const { customErrors } = await start({ zone: { rules: [rule('zone')] }, account: { rules: [rule('account')] } });
    const other = { ...zoneOf(), id: '22'.repeat(16) };
    expect(textOf(customErrors.choose(other, occurrenceOf(sampleErrors.timeout), errorRequest()))).toBe('account');
    const foreign = { ...other, account: 'b2'.repeat(16) };
    expect(customErrors.choose(foreign, occurrenceOf(sampleErrors.timeout), errorRequest())).toBeUndefined();
  });
});

describe('what an answer says', () => {
  test.each([
    ['text/html', 'text/html; charset=utf-8'],
    ['text/plain', 'text/plain; charset=utf-8'],
    ['application/json', 'application/json; charset=utf-8'],
    ['text/xml', 'text/xml; charset=utf-8'],
  ] as const)('a rule of %s', async (contentType, wanted) => {
    const { choose } = await start({ zone: { rules: [rule('\u00e4 ::RAY_ID::', { contentType })] } });
    expect(choose()).toEqual({
      status: 522,
      headers: { 'Content-Type': wanted, 'Cache-Control': 'private, no-store', 'Retry-After': '120' },
      body: Buffer.from('\u00e4 ::RAY_ID::'),
    });
  });

  test.each([400, 503, 599])('a rule’s status %i', async (statusCode) => {
    const { choose } = await start({ zone: { rules: [rule('x', { statusCode })] } });
    const answer = choose();
    expect([answer?.status, answer?.headers['Retry-After']]).toEqual([statusCode, '120']);
  });

  test('a rate limiter’s own Retry-After, and none for an error that is not retryable', async () => {
    for (const zone of [{ rules: [rule('x')] }, page('x')]) {
      const { choose } = await start({ zone });
      const limited = choose(occurrenceOf(sampleErrors.limited, { retryAfterSeconds: 17 }));
      expect([limited?.status, limited?.headers['Retry-After']]).toEqual([429, '17']);
      expect(choose(occurrenceOf(sampleErrors.limited, { retryAfterSeconds: 0 }))?.headers['Retry-After']).toBe('0');
      const blocked = choose(occurrenceOf(sampleErrors.blocked));
      expect(blocked?.status).toBe(403);
      expect(Object.keys(blocked?.headers ?? {}).sort()).toEqual(['Cache-Control', 'Content-Type']);
    }
  });

  test('a page is HTML with the error’s status whatever is asked for', async () => {
    const { choose } = await start({ account: page('<p>\u00e4</p>') });
    expect(choose(undefined, errorRequest({ headers: { accept: ['application/json'] } }))).toEqual({
      status: 522,
      headers: {
        'Content-Type': 'text/html; charset=utf-8',
        'Cache-Control': 'private, no-store',
        'Retry-After': '120',
      },
      body: [Buffer.from('<p>\u00e4</p>')],
    });
  });
});

describe('the tokens of a page', () => {
  const served = (html: string, occurrence = occurrenceOf(sampleErrors.timeout), request = errorRequest()) =>
    bodyText(compilePage(html).answer(occurrence, request));

  test('each as often as it stands there', () => {
    expect(served('::RAY_ID::|::CLIENT_IP::|::RAY_ID::')).toBe('0123456789abcdef|192.0.2.1|0123456789abcdef');
    expect(served('::RAY_ID::::CLIENT_IP::')).toBe('0123456789abcdef192.0.2.1');
    expect(served('::RAY_ID::CLIENT_IP::')).toBe('0123456789abcdefCLIENT_IP::');
  });

  test('answers share the text of the page, and have their own values', () => {
    const compiled = compilePage(`${'a'.repeat(700_000)}::RAY_ID::${'b'.repeat(700_000)}::RAY_ID::`);
    const [one, two] = ['1'.repeat(16), '2'.repeat(16)].map((rayId) =>
      compiled.answer(occurrenceOf(sampleErrors.timeout, { rayId }), errorRequest()),
    );
    const [[before, ray, between, again] = [], others = []] = [one, two].map(
      (answer) => piecesOf(answer?.body ?? []).pieces,
    );
    expect([before?.length, ray?.toString(), between?.length]).toEqual([700_000, '1'.repeat(16), 700_000]);
    expect(again).toBe(ray);
    expect(others).toHaveLength(4);
    expect(others[0]).toBe(before);
    expect(others[2]).toBe(between);
    expect(others[1]?.toString()).toBe('2'.repeat(16));
  });

  test('the error box', () => {
    const box = served('<body>::ERROR_BOX::</body>', occurrenceOf(sampleErrors.blocked));
    expect(box).toBe(
      '<body><div class="error-box" role="alert" style="border:1px solid;border-radius:.5em;padding:1em">' +
        '<p><strong>Error 1006: Access &quot;denied&quot; &lt;here&gt; &amp; there</strong></p>' +
        '<p>The owner said &quot;no&quot; &amp; &lt;b&gt;means&lt;/b&gt; it; it\u2019s final.</p>' +
        '<p>Ray ID: <code>0123456789abcdef</code></p></div></body>',
    );
  });

  test.each(['::ray_id::', '::RAY_ID:', ':RAY_ID::', '::RAY ID::', '::OTHER::', '$&', '$1', '%s', '::toString::'])(
    '%s is none',
    (text) => {
      expect(served(text)).toBe(text);
    },
  );

  test('a hostile host, ray and client are text, and never looked through for tokens', () => {
    const hostile = `"><script>alert('x')</script>&::ERROR_BOX::::CLIENT_IP::$&`;
    const written = '&quot;&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;::ERROR_BOX::::CLIENT_IP::$&amp;';
    const occurrence = occurrenceOf(sampleErrors.timeout, { rayId: hostile, zone: hostile });
    const request = errorRequest({ clientAddress: hostile, host: hostile, path: hostile });
    expect(served('<i title="::CLIENT_IP::">::RAY_ID::</i>', occurrence, request)).toBe(
      `<i title="${written}">${written}</i>`,
    );
    const box = served('::ERROR_BOX::', occurrence, request);
    expect(box).toContain(`<code>${written}</code>`);
    expect(box).not.toContain('<script>');
  });

  test('any page and any values: one pass, and the document is given back', () => {
    const pieces = fc.constantFrom('::RAY_ID::', '::CLIENT_IP::', '::', 'RAY_ID', ':', '<', '&', '\u00e4', '\u{1f600}');
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 12 }), fc.array(pieces, { maxLength: 3 }), (parts, value) => {
        const html = parts.join('');
        const text = value.join('');
        const compiled = compilePage(html);
        expect(compiled.html()).toBe(html);
        const wanted = html
          .split(/(::RAY_ID::|::CLIENT_IP::)/)
          .map((part) =>
            /^::(?:RAY_ID|CLIENT_IP)::$/.test(part) ? text.replaceAll('&', '&amp;').replaceAll('<', '&lt;') : part,
          )
          .join('');
        const occurrence = occurrenceOf(sampleErrors.timeout, { rayId: text });
        expect(bodyText(compiled.answer(occurrence, errorRequest({ clientAddress: text })))).toBe(wanted);
      }),
      { numRuns: 1000 },
    );
  });

  test.each([
    [1, undefined],
    [1_499_999, undefined],
    [1_500_000, undefined],
    [1_500_001, 'is 1500001 octets, want at most 1500000'],
  ])('a page of %i octets', (octets, fault) => {
    expect(pageFault('x'.repeat(octets))).toBe(fault);
  });

  test('octets are counted, not characters', () => {
    expect(pageFault('\u00e4'.repeat(750_000))).toBeUndefined();
    expect(pageFault(`${'\u00e4'.repeat(750_000)}x`)).toBe('is 1500001 octets, want at most 1500000');
  });

  test.each([
    [999, undefined],
    [1000, undefined],
    [1001, 'has 1001 tokens such as ::RAY_ID::, want at most 1000'],
  ])('%i tokens', (count, fault) => {
    expect(pageFault('::ERROR_BOX::'.repeat(count))).toBe(fault);
  });

  test('an empty page is refused', () => {
    expect(pageFault('')).toBe('is empty, want an HTML document');
  });
});

describe('file and API', () => {
  const zone = { rules: [rule('file rules')], ...page('file page') };

  test('what the API puts wins for its kind alone, and what is taken back leaves the file’s', async () => {
    const { choose, customErrors, clock } = await start({ zone });
    expect(await customErrors.rules(ofZone)).toEqual({ source: 'file', version: 0, value: zone.rules });
    expect(await customErrors.page(ofZone)).toEqual({ source: 'file', version: 0, value: 'file page' });
    await customErrors.putRules(ofZone, [rule('put', { statusCode: 503 })]);
    const updatedAt = clock.now();
    expect(textOf(choose())).toBe('put');
    expect(await customErrors.rules(ofZone)).toEqual({
      source: 'api',
      version: 1,
      updatedAt,
      value: [rule('put', { statusCode: 503 })],
    });
    expect((await customErrors.page(ofZone)).source).toBe('file');
    clock.pass(60);
    await customErrors.putRules(ofZone, []);
    expect(textOf(choose())).toBe('file page');
    expect(await customErrors.rules(ofZone)).toEqual({ source: 'api', version: 2, updatedAt: clock.now(), value: [] });
    await customErrors.putPage(ofZone, 'put page');
    expect(textOf(choose())).toBe('put page');
    await customErrors.putRules(ofZone, undefined);
    expect(textOf(choose())).toBe('file rules');
    expect(await customErrors.rules(ofZone)).toEqual({
      source: 'file',
      version: 3,
      updatedAt: clock.now(),
      value: zone.rules,
    });
    await customErrors.putPage(ofZone, undefined);
    expect(await customErrors.page(ofZone)).toMatchObject({ source: 'file', version: 2, value: 'file page' });
  });

  test('taking back what was never put changes nothing', async () => {
    const { customErrors } = await start();
    await customErrors.putRules(ofAccount, undefined);
    await customErrors.putPage(ofAccount, undefined);
    expect(await customErrors.rules(ofAccount)).toEqual({ source: 'none', version: 0, value: [] });
    expect(await customErrors.page(ofAccount)).toEqual({ source: 'none', version: 0, value: undefined });
    await customErrors.putPage(ofAccount, 'x');
    await customErrors.putPage(ofAccount, undefined);
    await customErrors.putPage(ofAccount, undefined);
    expect(await customErrors.page(ofAccount)).toMatchObject({ source: 'none', version: 2 });
  });

  test('after a restart it is still there', async () => {
    const first = await start({ zone });
    await first.customErrors.putRules(ofZone, [rule('put')]);
    await first.customErrors.putPage(ofAccount, 'account page');
    await first.customErrors.putPage(ofAccount, undefined);
    await first.database.close();
    const second = await start({ zone, file: first.file });
    expect(textOf(second.choose())).toBe('put');
    expect(await second.customErrors.rules(ofZone)).toMatchObject({ source: 'api', version: 1 });
    expect(await second.customErrors.page(ofAccount)).toMatchObject({ source: 'none', version: 2 });
  });

  test('what another process puts counts within a second, and at once where it is shown', async () => {
    const { choose, customErrors, open } = await start({ zone });
    const other = await open();
    expect(textOf(choose())).toBe('file rules');
    await other.customErrors.putRules(ofZone, [rule('theirs')]);
    expect(await customErrors.rules(ofZone)).toMatchObject({ source: 'api', version: 1 });
    expect(textOf(choose())).toBe('theirs');
    await other.customErrors.putRules(ofZone, undefined);
    await other.customErrors.putPage(ofAccount, 'their page');
    await customErrors.refresh();
    expect(textOf(choose())).toBe('file rules');
    // Each continues from what the other put.
    await other.customErrors.putRules(ofZone, [rule('theirs again')]);
    await customErrors.putRules(ofZone, undefined);
    expect(await customErrors.rules(ofZone)).toMatchObject({ source: 'file', version: 4 });
    await other.customErrors.refresh();
    expect(textOf(choose(undefined, undefined, other.customErrors))).toBe('file rules');
    expect(await other.customErrors.page(ofAccount)).toMatchObject({ source: 'api', version: 1, value: 'their page' });
  });

  test('what another process puts is found by itself, until the following is stopped', async () => {
    const { choose, customErrors, open } = await start();
    const other = await open();
    const stop = followChanges(other.database.changes, 'edge_custom_errors', () => customErrors.refresh());
    await other.customErrors.putPage(ofZone, 'theirs');
    expect(choose()).toBeUndefined();
    await expect.poll(() => textOf(choose()), { timeout: 5000 }).toBe('theirs');
    await stop();
  });

  test('of two looks at the same time the one that knows less takes nothing back', async () => {
    const { choose, customErrors, open } = await start();
    const other = await open();
    const puts = ['a', 'b', 'c', 'd'].map((html) => other.customErrors.putPage(ofZone, html));
    await Promise.all([...puts, ...Array.from({ length: 20 }, () => customErrors.refresh())]);
    await Promise.all(Array.from({ length: 5 }, () => customErrors.refresh()));
    const { value } = await other.customErrors.page(ofZone);
    expect(textOf(choose())).toBe(value);
  });

  test('rules that take long to read do not come behind newer ones', async () => {
    const { choose, customErrors, database, open } = await start();
    const other = await open();
    await other.customErrors.putRules(
      ofZone,
      Array.from({ length: 20_000 }, () => rule('older')),
    );
    const first = customErrors.refresh();
    // By then the first look has asked its two questions, and is at its rules.
    for (let count = 0; count < 2; count += 1) await database.query('SELECT 1 AS one');
    const update = 'UPDATE edge_custom_errors SET body = $1, revision = revision + 1, version = version + 1';
    await database.run(update, [JSON.stringify([rule('newer')])]);
    await Promise.all([first, customErrors.refresh()]);
    expect(textOf(choose())).toBe('newer');
  });

  test('an owner that is configured no more is passed over; its rows stay', async () => {
    const { customErrors, file } = await start();
    await customErrors.putPage(ofZone, 'kept');
    const database = await openTestDatabase(file);
    const without = await openCustomErrors({
      database,
      zones: [],
      accounts: [],
      clock: manualClock(),
      log: silentLog,
    });
    await expect(without.page(ofZone)).rejects.toThrow(/There is no zone/);
    expect((await customErrors.page(ofZone)).value).toBe('kept');
  });

  test('without its database it goes on with what it knows, and says so', async () => {
    const { choose, customErrors, database, lines } = await start({ zone });
    await customErrors.putRules(ofZone, [rule('put')]);
    await database.close();
    await customErrors.refresh();
    expect(textOf(choose())).toBe('put');
    expect(lines.map(({ msg }) => msg)).toEqual([expect.stringContaining('custom errors cannot be read')]);
  });

  test('stored rules that another hand has written are left out and told', async () => {
    const { choose, customErrors, database, lines } = await start({ zone });
    await customErrors.putRules(ofZone, [rule('put')]);
    const write = async (body: string): Promise<void> => {
      const update = 'UPDATE edge_custom_errors SET body = $1, revision = revision + 1, version = version + 1';
      await database.run(update, [body]);
      await customErrors.refresh();
    };
    await write(JSON.stringify([rule('bad', { expression: 'what' }), rule('good')]));
    expect(textOf(choose())).toBe('good');
    expect(lines.map(({ text }) => text)).toEqual([expect.stringContaining('unknown field "what"')]);
    for (const body of ['{', '{}', '[null]']) {
      await write(body);
      expect(textOf(choose())).toBe('good');
      expect(lines.at(-1)).toMatchObject({ msg: 'stored rule left out', zone: zoneId });
    }
  });

  test('rules put before a downgrade to plan free count no more, and are not shown', async () => {
    const first = await start({ account: page('account page') });
    await first.customErrors.putRules(ofZone, [rule('put')]);
    const second = await start({ account: page('account page'), plan: 'free', file: first.file });
    expect(textOf(second.choose())).toBe('account page');
    expect(await second.customErrors.rules(ofZone)).toMatchObject({ source: 'none', value: [], version: 1 });
    expect(await second.customErrors.rules(ofAccount)).toMatchObject({ source: 'none', value: [], version: 0 });
  });
});

describe('rules that ask too much of a request', () => {
  const contains = (from: number, count: number): string =>
    Array.from({ length: count }, (_, index) => `header["x"] contains "n${from + index}"`).join(' or ');
  const searching = (rules: number): CustomErrorRule[] =>
    Array.from({ length: rules }, (_, index) => rule('found', { expression: contains(index * 100, 100) }));
  const asked = (...x: readonly string[]): ErrorRequest => errorRequest({ headers: { x } });
  const hostile = Array.from({ length: 454 }, () => 'x');
  /** A list with 220 comparisons, each of which is asked of each value. */
  const comparing = (last: string): CustomErrorSettings => {
    const expression = Array.from({ length: 220 }, () => 'header["x"]eq""').join('or ');
    return { rules: [rule('never', { expression }), rule(last)] };
  };

  test('two thousand searches of a field take a step for eight characters of it each', async () => {
    const { choose, cutOff } = await start({ zone: { rules: [...searching(20), rule('last')] } });
    expect(textOf(choose(undefined, asked('n'.repeat(376))))).toBe('last');
    expect(textOf(choose(undefined, asked(`${'n'.repeat(371)}n1999`)))).toBe('found');
    expect(cutOff).toEqual([]);
    expect(choose(undefined, asked('n'.repeat(385)))).toBeUndefined();
    expect(cutOff).toEqual(['example.com']);
  });

  test('are cut off: the answer is the default one, it is counted, and told once a minute', async () => {
    const { choose, cutOff, clock, lines } = await start({ zone: { ...comparing('last'), ...page('page') } });
    expect(textOf(choose(undefined, asked(...hostile.slice(1))))).toBe('last');
    expect(choose(undefined, asked(...hostile))).toBeUndefined();
    expect(choose(undefined, asked(...hostile))).toBeUndefined();
    clock.pass(59.999);
    expect(choose(undefined, asked(...hostile))).toBeUndefined();
    expect(lines).toHaveLength(1);
    clock.pass(0.001);
    expect(choose(undefined, asked(...hostile))).toBeUndefined();
    expect(cutOff).toEqual(Array.from({ length: 4 }, () => 'example.com'));
    const told = { level: 'warn', zone: 'example.com', ray: '0123456789abcdef' };
    expect(lines).toEqual([expect.objectContaining(told), expect.objectContaining(told)]);
    expect(textOf(choose(undefined, asked()))).toBe('last');
  });

  test('the rules of zone and account are one question', async () => {
    const half = asked(...hostile.slice(154));
    const alone = await start({ account: comparing('account') });
    expect(textOf(alone.choose(undefined, half))).toBe('account');
    const both = await start({
      zone: { rules: comparing('').rules?.slice(0, 1) ?? [] },
      account: comparing('account'),
    });
    expect(both.choose(undefined, half)).toBeUndefined();
    expect(both.cutOff).toEqual(['example.com']);
  });

  test.each([
    ['a search that is too long', 'header["x"] contains "no"', ['x'.repeat(800_000)]],
    ['a negation of it', 'not header["x"] contains "no"', ['x'.repeat(800_000)]],
    ['a long text that is searched', `header["x"] contains "${'a'.repeat(251)}"`, ['a'.repeat(4000)]],
    ['beginnings that are long', `not header["x"] starts_with "${'a'.repeat(4000)}"`, Array(30).fill('a'.repeat(4000))],
  ])('%s', async (_, expression, values) => {
    const { choose, cutOff } = await start({ zone: { rules: [rule('never', { expression })] } });
    expect(choose(undefined, asked(...values))).toBeUndefined();
    expect(cutOff).toEqual(['example.com']);
  });
});

describe('a page’s file', () => {
  function written(name: string, octets: string | Buffer): string {
    const file = join(scratchFolder(), name);
    writeFileSync(file, octets);
    return file;
  }
  const started = (file: string) => start({ zone: { errorPage: { file } } });

  test('is served as it is', async () => {
    const { choose, customErrors } = await started(written('error.html', '<p>\u00e4 ::CLIENT_IP::</p>'));
    expect(textOf(choose())).toBe('<p>\u00e4 192.0.2.1</p>');
    expect(await customErrors.page(ofZone)).toEqual({
      source: 'file',
      version: 0,
      value: '<p>\u00e4 ::CLIENT_IP::</p>',
    });
  });

  test.each([1_499_999, 1_500_000])('of %i octets is taken', async (octets) => {
    expect(textOf((await started(written('error.html', 'x'.repeat(octets)))).choose())).toHaveLength(octets);
  });

  test.each<[string, () => string, RegExp]>([
    ['too large', () => written('e.html', 'x'.repeat(1_500_001)), /e\.html" is 1500001 octets, want at most 1500000$/],
    ['empty', () => written('e.html', ''), /e\.html" is empty, want an HTML document$/],
    ['no UTF-8', () => written('e.html', Buffer.from([0x3c, 0xe4, 0x3e])), /e\.html" is not UTF-8$/],
    [
      'missing',
      () => join(scratchFolder(), 'none.html'),
      /^zone example\.com: customErrors\.errorPage\.file: cannot read "[^"]*none\.html": there is no such file$/,
    ],
    [
      'a folder',
      () => {
        const folder = join(scratchFolder(), 'folder');
        mkdirSync(folder);
        return folder;
      },
      /folder" is no file$/,
    ],
    ['a device', () => '/dev/null', /"\/dev\/null" is no file$/],
    ['full of tokens', () => written('e.html', '::RAY_ID::'.repeat(1001)), /has 1001 tokens/],
  ])('that is %s is a configuration error', async (_, make, message) => {
    const file = make();
    await expect(started(file)).rejects.toThrow(ConfigurationError);
    await expect(started(file)).rejects.toThrow(message);
  });

  test('every file that is wrong is told', async () => {
    const file = join(scratchFolder(), 'none.html');
    const both = { errorPage: { file } };
    await expect(start({ zone: both, account: both })).rejects.toThrow(
      `zone example.com: customErrors.errorPage.file: cannot read "${file}": there is no such file\n` +
        `account ${accountId}: customErrors.errorPage.file: cannot read "${file}": there is no such file`,
    );
  });
});
