// The account endpoints by real HTTP on a real database (D51, D52, D85, D92, D93).

import { generateKeyPairSync } from 'node:crypto';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import type { Account } from '../../../src/accounts/account.ts';
import { createAccounts } from '../../../src/accounts/accounts.ts';
import { hashToken, openTokenStore } from '../../../src/accounts/token-store.ts';
import { openSuppressionStore } from '../../../src/delivery/feedback/suppression-store.ts';
import type { SigningKey } from '../../../src/pipeline/sign/sign.ts';
import { domainEndpoints } from '../../../src/web/admin/domain-endpoints.ts';
import { suppressionEndpoints } from '../../../src/web/admin/suppression-endpoints.ts';
import { tokenEndpoints } from '../../../src/web/admin/token-endpoints.ts';
import { type DnsName, startDnsServer } from '../../support/dns-server.ts';
import { openTestDatabase } from '../../support/engines.ts';
import { ask, type HttpAnswer, httpAccounts, startHttpApp } from '../../support/http-app.ts';
import { logLines } from '../../support/log-lines.ts';
import { scratchFolder } from '../../support/scratch.ts';
import { manualClock } from '../../support/smtp-peers.ts';

const accounts: readonly Account[] = httpAccounts.map((account) =>
  account.name === 'dev'
    ? {
        ...account,
        sendingDomains: [
          ...account.sendingDomains,
          { name: 'b.example', subdomains: false, returnPathDomain: 'r.b.example', dkim: [] },
        ],
      }
    : account,
);
const dev = accounts[0]?.id ?? '';

const keys = new Map<string, readonly SigningKey[]>([
  [
    'example.com',
    [{ domain: 'example.com', selector: 's1', algorithm: 'ed25519', key: generateKeyPairSync('ed25519').privateKey }],
  ],
]);

/** The app with the account endpoints on a database of its own; tokens are `ACCOUNT-CREDENTIAL`. */
async function start(names: Readonly<Record<string, DnsName>> = {}, mostSuppressed?: number) {
  const file = join(scratchFolder(), 'postern.db');
  const store = await openTokenStore(await openTestDatabase(file));
  const beside = await openTokenStore(await openTestDatabase(file));
  const clock = manualClock();
  const { log, lines } = logLines();
  const tokens = accounts.flatMap(({ id, name, credentials }) =>
    [...credentials.keys()].map((credential) => ({
      account: id,
      credential,
      sha256: hashToken(`${name}-${credential}`),
    })),
  );
  const dns = await startDnsServer(names);
  const seen = { authenticated: 0, placesAsked: 0, resolvers: 0 };
  const counting =
    <A extends unknown[], R>(name: keyof typeof seen, work: (...args: A) => R) =>
    (...args: A): R => {
      seen[name] += 1;
      return work(...args);
    };
  const { newResolver, withinMs } = dns.settings();
  const all = createAccounts({ accounts, tokens, store, clock });
  const authenticate = counting('authenticated', (token: string) => all.authenticate(token));
  const suppressions = await openSuppressionStore(await openTestDatabase(file), clock, mostSuppressed);
  const hasRoom = counting('placesAsked', (account: string) => suppressions.hasRoom(account));
  const { base } = await startHttpApp(
    [
      suppressionEndpoints({ suppressions: { ...suppressions, hasRoom }, clock, log }),
      tokenEndpoints({ store, clock, log }),
      domainEndpoints({
        now: () => clock.now(),
        domainKeys: (domain) => keys.get(domain) ?? [],
        facts: {
          bounceDomain: 'bounces.platform.example',
          mailHost: 'mx.platform.example',
          takesBounces: true,
          senders: ['a:mx.platform.example'],
        },
        dns: { withinMs, newResolver: counting('resolvers', newResolver) },
      }),
    ],
    { accounts: { ...all, authenticate } },
  );
  const call = (method: string, path: string, { as = 'dev-boss', body, account = 'dev' }: CallOptions = {}) =>
    ask(`${base}/client/v4/accounts/${account}${path}`, {
      method,
      headers: {
        Authorization: `Bearer ${as}`,
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
  return { call, clock, lines, beside, dns, seen, suppressions, authenticate };
}

interface CallOptions {
  /** The bearer token. */
  readonly as?: string;
  readonly account?: string;
  readonly body?: unknown;
}

const list = '/email/sending/suppressions';

interface Success {
  readonly result: unknown;
  readonly result_info?: { readonly count: number; readonly per_page: number; readonly cursor: string | null };
}

/** The envelope of a success. */
function success(answer: HttpAnswer): Success {
  expect([answer.status, answer.json.errors, answer.json.messages, answer.json.success]).toEqual([200, [], [], true]);
  expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8');
  return JSON.parse(answer.text) as Success;
}

/** A failure as [status, [code, token, pointer], ...]. */
function failure({ status, json }: HttpAnswer): unknown[] {
  expect(json).toMatchObject({ success: false, messages: [], result: null });
  return [
    status,
    ...json.errors.map(({ code, message, source }) => {
      const token = /^(E_[A-Z_]+): \S/.exec(message)?.[1];
      return source ? [code, token, source.pointer] : [code, token];
    }),
  ];
}

function addresses({ result }: Success): string[] {
  return (result as { address: string }[]).map(({ address }) => address);
}

describe('suppressions', () => {
  test('take an account’s own up to a number, and what is there is changed beyond it', async () => {
    const { call, seen } = await start({}, 2);
    const add = (address: string, note = '') => call('POST', list, { body: { address, note } });
    success(await add('one@example.net'));
    success(await add('two@example.net'));
    expect(failure(await add('three@example.net'))).toEqual([400, [10001, 'E_VALIDATION_ERROR']]);
    expect(success(await add('two@example.net', 'known')).result).toMatchObject({ note: 'known' });
    // What is there took no place, for which the list may be counted.
    expect(seen.placesAsked).toBe(3);
  });

  test('one is added, listed, changed, removed', async () => {
    const { call, clock, lines } = await start();
    const body = {
      address: 'Gone@Bücher.Example',
      reason: 'hard_bounce',
      note: '550 no such user',
      expires_at: '2100-01-31T12:00:00+01:00',
    };
    const { result } = success(await call('POST', list, { body }));
    const entry = {
      id: expect.stringMatching(/^[0-9a-f]{32}$/),
      address: 'gone@xn--bcher-kva.example',
      reason: 'hard_bounce',
      note: '550 no such user',
      created_at: new Date(clock.now()).toISOString(),
      expires_at: '2100-01-31T11:00:00.000Z',
    };
    expect(result).toEqual(entry);
    const { id } = result as { id: string };
    expect(success(await call('GET', list))).toMatchObject({
      result: [entry],
      result_info: { count: 1, per_page: 100, cursor: null },
    });
    clock.pass(60);
    const again = success(await call('POST', list, { body: { address: 'gone@bücher.example', expires_at: null } }));
    expect(again.result).toEqual({ ...entry, id, reason: 'manual', note: null, expires_at: null });
    expect(success(await call('DELETE', `${list}/${id}`)).result).toEqual({ id });
    expect(success(await call('GET', list)).result).toEqual([]);
    expect(failure(await call('DELETE', `${list}/${id}`))).toEqual([404, [10000, 'E_NOT_FOUND']]);
    expect(lines.map(({ msg, recipient }) => [msg, recipient])).toEqual([
      ['suppression added', 'gone@xn--bcher-kva.example'],
      ['suppression added', 'gone@xn--bcher-kva.example'],
      ['suppression removed', 'gone@xn--bcher-kva.example'],
    ]);
  });

  test('each account has a list of its own, admin reaches all', async () => {
    const { call } = await start();
    const { id } = success(await call('POST', list, { as: 'dev-default', body: { address: 'a@example.net' } }))
      .result as { id: string };
    expect(success(await call('GET', list, { as: 'other-default', account: 'other' })).result).toEqual([]);
    expect(failure(await call('DELETE', `${list}/${id}`, { as: 'other-default', account: 'other' }))).toEqual([
      404,
      [10000, 'E_NOT_FOUND'],
    ]);
    expect(failure(await call('GET', list, { as: 'other-default' }))).toEqual([404, [10000, 'E_NOT_FOUND']]);
    expect(addresses(success(await call('GET', list, { as: 'other-boss' })))).toEqual(['a@example.net']);
    expect(addresses(success(await call('GET', list, { account: dev })))).toEqual(['a@example.net']);
  });

  test('expiry', async () => {
    const { call, clock } = await start();
    const expires = (seconds: number) => new Date(clock.now() + seconds * 1000).toISOString();
    const body = { address: 'a@example.net', expires_at: expires(0.001) };
    expect(success(await call('POST', list, { body })).result).toMatchObject({ expires_at: body.expires_at });
    clock.pass(0.001);
    expect(success(await call('GET', list)).result).toEqual([]);
    expect(failure(await call('POST', list, { body }))).toEqual([400, [10001, 'E_VALIDATION_ERROR', '/expires_at']]);
  });

  test('pages by cursor and search', async () => {
    const { call, clock, suppressions } = await start();
    for (let index = 0; index < 5; index += 1) {
      await suppressions.add({
        account: dev,
        address: `u${index}@${index % 2 ? 'odd' : 'even'}.example`,
        reason: 'manual',
      });
      clock.pass(1);
    }
    const pages: string[][] = [];
    for (let cursor: string | null = ''; cursor !== null; ) {
      const page = success(await call('GET', `${list}?per_page=2${cursor === '' ? '' : `&cursor=${cursor}`}`));
      pages.push(addresses(page));
      expect(page.result_info).toMatchObject({ count: pages.at(-1)?.length, per_page: 2 });
      cursor = page.result_info?.cursor ?? null;
    }
    expect(pages).toEqual([
      ['u4@even.example', 'u3@odd.example'],
      ['u2@even.example', 'u1@odd.example'],
      ['u0@even.example'],
    ]);
    const odd = success(await call('GET', `${list}?search=ODD&per_page=1000`));
    expect(addresses(odd)).toEqual(['u3@odd.example', 'u1@odd.example']);
    expect(odd.result_info).toEqual({ count: 2, per_page: 1000, cursor: null });
  });

  test.each([
    ['per_page=0', 'per_page must be a whole number, 1 to 1000'],
    ['per_page=1001', 'per_page must be a whole number, 1 to 1000'],
    ['per_page=1e2', 'per_page must be a whole number, 1 to 1000'],
    ['per_page=1&per_page=2', 'per_page must be a whole number, 1 to 1000'],
    ['cursor=x', 'cursor must be the cursor of an earlier answer'],
    ['page=2', '"page" is no query parameter; there are cursor, per_page, search'],
    [`search=${'x'.repeat(255)}`, 'search must be a text of at most 254 characters'],
  ])('a list with ?%s is refused', async (query, message) => {
    const { call } = await start();
    const answer = await call('GET', `${list}?${query}`);
    expect(failure(answer)).toEqual([400, [10001, 'E_VALIDATION_ERROR']]);
    expect(answer.json.errors[0]?.message).toBe(`E_VALIDATION_ERROR: ${message}`);
  });

  test('null in optional fields is the same as leaving them out', async () => {
    const { call } = await start();
    const body = { address: 'a@example.net', reason: null, note: null, expires_at: null };
    const answer = await call('POST', list, { body });
    expect([answer.status, answer.json.result]).toMatchObject([200, { reason: 'manual', note: null }]);
  });

  const invalid = (pointer: string) => [400, [10001, 'E_VALIDATION_ERROR', pointer]];
  test.each([
    [{}, [400, [10001, 'E_FIELD_MISSING', '/address']]],
    [{ address: 7 }, invalid('/address')],
    [{ address: '' }, invalid('/address')],
    [{ address: 'nobody' }, invalid('/address')],
    [{ address: 'A <a@example.net>' }, invalid('/address')],
    [{ address: 'a@example.net\r\nb@example.net' }, invalid('/address')],
    [{ address: 'a\ud800@example.net' }, invalid('/address')],
    [{ address: `${'a'.repeat(400)}@example.net` }, invalid('/address')],
    [{ address: 'a@example.net', reason: 'other' }, invalid('/reason')],
    [{ address: 'a@example.net', note: 'x'.repeat(501) }, invalid('/note')],
    [{ address: 'a@example.net', note: 'two\nlines' }, invalid('/note')],
    [
      { address: null, note: 5 },
      [400, [10001, 'E_VALIDATION_ERROR', '/address'], [10001, 'E_VALIDATION_ERROR', '/note']],
    ],
    [{ address: 'a@example.net', expires_at: 'tomorrow' }, invalid('/expires_at')],
    [{ address: 'a@example.net', expires_at: 4102444800 }, invalid('/expires_at')],
    [{ address: 'a@example.net', expires_at: '2100-02-30T00:00:00Z' }, invalid('/expires_at')],
    [{ address: 'a@example.net', expires_at: '2100-01-31T24:01:00Z' }, invalid('/expires_at')],
    [{ address: 'a@example.net', expires_at: '2100-01-31' }, invalid('/expires_at')],
    [{ address: 'a@example.net', expires_at: '2000-01-31T00:00:00Z' }, invalid('/expires_at')],
    [{ address: 'a@example.net', expiresAt: '2100-01-31T00:00:00Z' }, invalid('/expiresAt')],
    [
      { address: 'x', expires_at: 'y' },
      [400, [10001, 'E_VALIDATION_ERROR', '/address'], [10001, 'E_VALIDATION_ERROR', '/expires_at']],
    ],
    ['{"address":"a@example.net","address":"b@example.net"}', invalid('/address')],
    ['{"address":', [400, [10001, 'E_VALIDATION_ERROR']]],
    ['[]', invalid('')],
  ])('%j is refused, and nothing is kept', async (body, wanted) => {
    const { call, suppressions } = await start();
    expect(failure(await call('POST', list, { body }))).toEqual(wanted);
    expect(await suppressions.list(dev, { limit: 10 })).toEqual({ entries: [] });
  });

  test.each([
    ['nobody', 'dev', 401, 10101, 'E_UNAUTHORIZED'],
    ['dev-reader', 'dev', 403, 10102, 'E_FORBIDDEN'],
    ['dev-default', 'nobody', 404, 10000, 'E_NOT_FOUND'],
  ])('token %s on account %s is %i', async (as, account, status, code, token) => {
    const { call } = await start();
    expect(failure(await call('GET', list, { as, account }))).toEqual([status, [code, token]]);
    expect(failure(await call('POST', list, { as, account, body: {} }))).toEqual([status, [code, token]]);
    expect(failure(await call('DELETE', `${list}/x`, { as, account }))).toEqual([status, [code, token]]);
  });

  test('another method is 405', async () => {
    const { call } = await start();
    const answer = await call('PUT', list, { body: {} });
    expect(failure(answer)).toEqual([405, [10000, 'E_METHOD_NOT_ALLOWED']]);
    expect(answer.headers.get('allow')).toMatch(/GET.*POST/);
  });
});

describe('tokens', () => {
  test('the list comes page by page, the oldest first', async () => {
    const { call } = await start();
    const made: string[] = [];
    for (let count = 0; count < 3; count += 1) {
      const { result } = success(await call('POST', '/tokens', { body: { credential: 'default' } }));
      made.push((result as { id: string }).id);
    }
    const listed: unknown[] = [];
    for (let cursor: string | null = ''; cursor !== null; ) {
      const page = success(await call('GET', `/tokens?per_page=2${cursor === '' ? '' : `&cursor=${cursor}`}`));
      listed.push((page.result as { id: string }[]).map(({ id }) => id));
      expect(page.result_info).toMatchObject({ per_page: 2 });
      cursor = page.result_info?.cursor ?? null;
    }
    const ids = made.toSorted();
    expect(listed).toEqual([ids.slice(0, 2), ids.slice(2)]);
    for (const query of ['per_page=0', 'per_page=1001', 'cursor=x', 'cursor=1-2'])
      expect(failure(await call('GET', `/tokens?${query}`))).toEqual([400, [10001, 'E_VALIDATION_ERROR']]);
  });

  test('one is made, works at once, is listed without itself, and revoked works no more', async () => {
    const { call, clock, lines, authenticate } = await start();
    const body = { credential: 'boss', label: 'nightly job', scopes: ['email:suppressions'] };
    const answer = await call('POST', '/tokens', { body });
    const { token, ...record } = success(answer).result as { token: string; id: string };
    expect(answer.headers.get('cache-control')).toBe('no-store');
    expect(token).toMatch(/^pt_[A-Za-z0-9_-]{43}$/);
    expect(record).toEqual({
      id: expect.stringMatching(/^[0-9a-f]{16}$/),
      credential: 'boss',
      last_four: token.slice(-4),
      label: 'nightly job',
      scopes: ['email:suppressions'],
      created_at: new Date(clock.now()).toISOString(),
      expires_at: null,
      revoked_at: null,
      live: true,
    });
    // It may what it is narrowed to, and nothing else.
    expect(success(await call('GET', list, { as: token })).result).toEqual([]);
    expect(failure(await call('GET', '/tokens', { as: token }))).toEqual([403, [10102, 'E_FORBIDDEN']]);
    const listed = await call('GET', '/tokens');
    expect(success(listed).result).toEqual([record]);
    expect(listed.text).not.toContain(token);
    expect(JSON.stringify(lines)).not.toContain(token);

    clock.pass(1);
    expect(success(await call('DELETE', `/tokens/${record.id}`)).result).toEqual({ id: record.id });
    expect(await authenticate(token)).toBeUndefined();
    expect(failure(await call('GET', list, { as: token }))).toEqual([401, [10101, 'E_UNAUTHORIZED']]);
    expect(success(await call('GET', '/tokens')).result).toEqual([]);
    const revoked = { ...record, revoked_at: new Date(clock.now()).toISOString(), live: false };
    expect(success(await call('GET', '/tokens?all=1')).result).toEqual([revoked]);
    clock.pass(1);
    // Again is no failure, and changes nothing.
    expect(success(await call('DELETE', `/tokens/${record.id}`)).result).toEqual({ id: record.id });
    expect(success(await call('GET', '/tokens?all=true')).result).toEqual([revoked]);
    expect(lines.map(({ msg, tokenId, account }) => [msg, tokenId, account])).toEqual([
      ['token made', record.id, 'dev'],
      ['token revoked', record.id, 'dev'],
      ['token revoked', record.id, 'dev'],
    ]);
  });

  test('without scopes it has those of its credential, and it expires', async () => {
    const { call, clock } = await start();
    const expires = new Date(clock.now() + 5000).toISOString();
    const { token } = success(await call('POST', '/tokens', { body: { credential: 'default', expires_at: expires } }))
      .result as { token: string };
    expect(success(await call('GET', '/tokens')).result).toMatchObject([
      { credential: 'default', label: '', scopes: ['email:send', 'email:suppressions'], expires_at: expires },
    ]);
    success(await call('GET', list, { as: token }));
    clock.pass(5);
    expect(failure(await call('GET', list, { as: token }))).toEqual([401, [10101, 'E_UNAUTHORIZED']]);
    expect(success(await call('GET', '/tokens')).result).toEqual([]);
    expect(success(await call('GET', '/tokens?all=1')).result).toMatchObject([{ live: false, revoked_at: null }]);
  });

  test('each is told with the scopes of its own credential', async () => {
    const { call } = await start();
    const made = success(await call('POST', '/tokens', { body: { credential: 'watcher' } })).result;
    expect(made).toMatchObject({ credential: 'watcher', scopes: ['email:events', 'email:webhooks'] });
    const narrowed = { credential: 'watcher', scopes: ['email:events'] };
    expect(success(await call('POST', '/tokens', { body: narrowed })).result).toMatchObject(narrowed);
  });

  test('an account has at most 1,000 that are valid', async () => {
    const { call, beside, clock } = await start();
    const createdAt = clock.now();
    const record = await beside.transaction(async (tokens) => {
      const make = async (more = {}) =>
        (await tokens.create({ account: dev, credential: 'default', createdAt, ...more })).record;
      await tokens.revoke({ id: (await make()).id, now: createdAt });
      await make({ expiresAt: createdAt + 1 });
      for (let made = 0; made < 998; made += 1) await make();
      return await make();
    });
    clock.pass(1);
    const more = (account?: string) =>
      call('POST', '/tokens', { body: { credential: 'default' }, ...(account === undefined ? {} : { account }) });
    success(await more());
    expect(failure(await more())).toEqual([400, [10001, 'E_VALIDATION_ERROR']]);
    expect((await more()).text).toContain('1000 valid tokens, and may not have more');
    success(await more('other'));
    success(await call('DELETE', `/tokens/${record.id}`));
    success(await more());
    expect(failure(await more())).toEqual([400, [10001, 'E_VALIDATION_ERROR']]);
  });

  test('those made by the command line are listed too, and each account has its own', async () => {
    const { call, beside, clock } = await start();
    const { record } = await beside.create({
      account: dev,
      credential: 'reader',
      createdAt: clock.now(),
      label: 'cli',
    });
    expect(success(await call('GET', '/tokens')).result).toMatchObject([{ id: record.id, label: 'cli' }]);
    expect(success(await call('GET', '/tokens', { account: 'other' })).result).toEqual([]);
    expect(failure(await call('DELETE', `/tokens/${record.id}`, { account: 'other' }))).toEqual([
      404,
      [10000, 'E_NOT_FOUND'],
    ]);
    const made = success(await call('POST', '/tokens', { account: 'other', body: { credential: 'default' } }));
    expect(
      success(await call('GET', list, { as: (made.result as { token: string }).token, account: 'other' })).result,
    ).toEqual([]);
  });

  const invalid = (...pointers: string[]) => [400, ...pointers.map((at) => [10001, 'E_VALIDATION_ERROR', at])];
  test.each([
    [{}, [400, [10001, 'E_FIELD_MISSING', '/credential']]],
    [{ credential: 'nobody' }, invalid('/credential')],
    [{ credential: 'constructor' }, invalid('/credential')],
    [{ credential: null }, invalid('/credential')],
    [{ credential: 'default', scopes: [] }, invalid('/scopes')],
    [{ credential: 'default', scopes: ['email:send', 'email:send'] }, invalid('/scopes')],
    [{ credential: 'default', scopes: ['everything'] }, invalid('/scopes/0')],
    [{ credential: 'default', scopes: ['email:send', 'admin', 'proxy:edit'] }, invalid('/scopes/1', '/scopes/2')],
    [{ credential: 'default', label: 'a\u0000b' }, invalid('/label')],
    [{ credential: 'default', label: '\udfff' }, invalid('/label')],
    [{ credential: 'default', expires_at: '2001-01-01T00:00:00Z' }, invalid('/expires_at')],
    [{ credential: 'nobody', expires_at: 'never' }, invalid('/credential', '/expires_at')],
    [{ credential: 'default', token: 'mine' }, invalid('/token')],
  ])('%j is refused, and none is made', async (body, wanted) => {
    const { call } = await start();
    expect(failure(await call('POST', '/tokens', { body }))).toEqual(wanted);
    expect(success(await call('GET', '/tokens?all=1')).result).toEqual([]);
  });

  test.each([
    ['nobody', 'dev', 401, 10101, 'E_UNAUTHORIZED'],
    ['dev-default', 'dev', 403, 10102, 'E_FORBIDDEN'],
    ['dev-boss', 'nobody', 404, 10000, 'E_NOT_FOUND'],
  ])('token %s on account %s is %i', async (as, account, status, code, token) => {
    const { call } = await start();
    expect(failure(await call('GET', '/tokens', { as, account }))).toEqual([status, [code, token]]);
    expect(failure(await call('POST', '/tokens', { as, account, body: {} }))).toEqual([status, [code, token]]);
    expect(failure(await call('DELETE', '/tokens/x', { as, account }))).toEqual([status, [code, token]]);
  });

  test('what is not there is 404, a flag that is none 400', async () => {
    const { call } = await start();
    expect(failure(await call('DELETE', '/tokens/0123456789abcdef'))).toEqual([404, [10000, 'E_NOT_FOUND']]);
    expect(failure(await call('GET', '/tokens?all=yes'))).toEqual([400, [10001, 'E_VALIDATION_ERROR']]);
  });
});

describe('sending domains', () => {
  const path = '/email/sending/domains';

  test('tell what to publish, and ask nobody', async () => {
    const { call, dns } = await start();
    const { result } = success(await call('GET', path, { as: 'dev-default' }));
    expect(result).toMatchObject([
      {
        name: 'example.com',
        subdomains: true,
        return_path_domain: 'bounces.platform.example',
        records: [
          { purpose: 'dkim', type: 'TXT', name: 's1._domainkey.example.com', published_by: 'domain' },
          { purpose: 'dmarc', name: '_dmarc.example.com', value: 'v=DMARC1; p=none' },
          { purpose: 'spf', name: 'bounces.platform.example', published_by: 'platform' },
          { purpose: 'mx', type: 'MX', value: '10 mx.platform.example' },
        ],
      },
      {
        name: 'b.example',
        subdomains: false,
        return_path_domain: 'r.b.example',
        records: [
          { purpose: 'dmarc' },
          { purpose: 'spf', name: 'r.b.example' },
          { purpose: 'mx', published_by: 'domain' },
        ],
      },
    ]);
    expect(JSON.stringify(result)).not.toContain('PRIVATE');
    expect(JSON.stringify(result)).not.toContain('"check"');
    expect(dns.asked).toEqual([]);
    expect(success(await call('GET', `${path}?check=0`)).result).toEqual(result);
    expect(dns.asked).toEqual([]);
  });

  test('with check=1 tell what DNS answers now', async () => {
    const { call, dns } = await start({
      '_dmarc.example.com': { txt: ['v=DMARC1; p=reject'] },
      's1._domainkey.example.com': { fails: 'SERVFAIL' },
      'bounces.platform.example': { mx: ['10 mx.elsewhere.example'] },
    });
    const checks = async () => {
      const { result } = success(await call('GET', `${path}?check=1`));
      return (result as { records: { check: unknown }[] }[]).map(({ records }) => records.map(({ check }) => check));
    };
    const missing = { state: 'missing', found: [] };
    expect(await checks()).toEqual([
      [
        { state: 'error', found: [], detail: 'the name server answered SERVFAIL' },
        { state: 'ok', found: ['v=DMARC1; p=reject'] },
        missing,
        {
          state: 'different',
          found: ['10 mx.elsewhere.example'],
          detail: 'mx.platform.example is not among the hosts',
        },
      ],
      [missing, missing, missing],
    ]);
    dns.names.set('bounces.platform.example', { mx: ['10 mx.platform.example'] });
    expect((await checks())[0]?.[3]).toEqual({ state: 'ok', found: ['10 mx.platform.example'] });
  });

  test('what the last check found is told until the next one, without asking again', async () => {
    const { call, dns } = await start({ '_dmarc.example.com': { txt: ['v=DMARC1; p=reject'] } });
    const listed = async () => success(await call('GET', path)).result as { checked_at?: string; records: object[] }[];
    expect((await listed())[0]?.checked_at).toBeUndefined();
    success(await call('GET', `${path}?check=1`));
    dns.names.clear();
    const asked = dns.asked.length;
    const [domain] = await listed();
    expect(Date.parse(domain?.checked_at ?? '')).toBeGreaterThan(0);
    expect(domain?.records[1]).toMatchObject({ check: { state: 'ok', found: ['v=DMARC1; p=reject'] } });
    expect(dns.asked).toHaveLength(asked);
  });

  test('checks of an account that are asked for at once share one look', async () => {
    const { call, dns, seen } = await start();
    const open = dns.hold();
    const answers = Array.from({ length: 5 }, () => call('GET', `${path}?check=1`));
    while (seen.authenticated < 5) await nextTurn();
    // From there to the handler it is a turn or two.
    for (let turn = 0; turn < 20; turn += 1) await nextTurn();
    open();
    for (const answer of await Promise.all(answers)) success(answer);
    expect(seen.resolvers).toBe(1);
    success(await call('GET', `${path}?check=1`));
    expect(seen.resolvers).toBe(2);
  });

  test('what is asked and found for one account is told to no other', async () => {
    const { call, dns } = await start();
    const listed = async (account: string, query = '') => {
      const { result } = success(await call('GET', `${path}${query}`, { account }));
      return (result as { checked_at?: string; records: { check?: object }[] }[])[0];
    };
    await listed('dev', '?check=1');
    expect((await listed('other'))?.checked_at).toBeUndefined();
    // Two accounts ask at once.
    const open = dns.hold();
    const answers = ['dev', 'other'].map((account) => listed(account, '?check=1'));
    await expect.poll(() => dns.asked.filter((name) => name.includes('other.example')).length).toBeGreaterThan(0);
    open();
    for (const domain of await Promise.all(answers))
      expect(domain?.records.map(({ check }) => check !== undefined)).not.toContain(false);
  });

  test.each([
    ['nobody', 'dev', 401, 10101, 'E_UNAUTHORIZED'],
    ['dev-reader', 'dev', 403, 10102, 'E_FORBIDDEN'],
    ['dev-default', 'other', 404, 10000, 'E_NOT_FOUND'],
  ])('token %s on account %s is %i', async (as, account, status, code, token) => {
    const { call } = await start();
    expect(failure(await call('GET', path, { as, account }))).toEqual([status, [code, token]]);
  });

  test('a flag that is none is 400', async () => {
    const { call } = await start();
    expect(failure(await call('GET', `${path}?check=maybe`))).toEqual([400, [10001, 'E_VALIDATION_ERROR']]);
  });
});
