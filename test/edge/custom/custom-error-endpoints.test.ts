// The endpoints of custom errors by real HTTP on a real database (D65).

import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Account, Scope } from '../../../src/accounts/account.ts';
import { createAccounts } from '../../../src/accounts/accounts.ts';
import { stripRules } from '../../../src/accounts/strip-rules.ts';
import { hashToken } from '../../../src/accounts/token-store.ts';
import { systemClock } from '../../../src/base/clock.ts';
import { customErrorEndpoints } from '../../../src/edge/custom/custom-error-endpoints.ts';
import { openCustomErrors } from '../../../src/edge/custom/custom-errors.ts';
import type { EdgeZone } from '../../../src/edge/zone/zone.ts';
import { openTestDatabase } from '../../support/engines.ts';
import { bodyText, errorRequest, occurrenceOf, sampleErrors } from '../../support/error-occurrence.ts';
import { ask, type HttpAnswer, startHttpApp } from '../../support/http-app.ts';
import { logLines } from '../../support/log-lines.ts';
import { scratchFolder } from '../../support/scratch.ts';
import { manualClock } from '../../support/smtp-peers.ts';

function account(name: string, id: string, plan: Account['plan']): Account {
  const credential = (key: string, scopes: readonly Scope[]) =>
    [key, { name: key, scopes: new Set(scopes), strip: stripRules(), trustedHop: false }] as const;
  return {
    id: id.repeat(16),
    name,
    plan,
    sendingDomains: [],
    limits: {},
    showClientAddress: true,
    tlsRequiredNo: false,
    credentials: new Map([
      credential('edge', ['edge:edit']),
      credential('proxy', ['proxy:edit', 'proxy:read', 'email:send']),
      credential('boss', ['edge:edit', 'admin']),
    ]),
  };
}

const accounts = [account('dev', 'a1', 'enterprise'), account('payg', 'c1', 'payg'), account('free', 'd1', 'free')];
const accountId = (name: string): string => accounts.find((entry) => entry.name === name)?.id ?? '';

function zone(id: string, owner: string, more: Partial<EdgeZone> = {}): EdgeZone {
  const name = `${owner}.example`;
  return { id: id.repeat(16), name, account: accountId(owner), hostnames: [name], ...more };
}

const devZone = zone('1a', 'dev', {
  customErrors: {
    rules: [{ expression: 'error_code eq 522', content: 'from the file', contentType: 'text/plain' }],
    errorPage: { html: 'file page' },
  },
});
const zones = [devZone, zone('22', 'payg'), zone('33', 'free')];

const rulesPath = '/rulesets/phases/http_custom_errors/entrypoint';
const pagePath = '/custom_pages/error_page';
const zonePath = `/zones/${devZone.id}`;

interface CallOptions {
  readonly headers?: Readonly<Record<string, string>>;
  /** The bearer token: ACCOUNT-CREDENTIAL. */
  readonly as?: string;
  readonly body?: unknown;
}

async function start() {
  const file = join(scratchFolder(), 'postern.db');
  const clock = manualClock();
  const { log, lines } = logLines();
  const slices = accounts.map(({ id, plan }) => ({ id, plan }));
  const customErrors = await openCustomErrors({
    database: await openTestDatabase(file),
    zones,
    accounts: slices,
    clock,
    log,
  });
  const tokens = accounts.flatMap(({ id, name, credentials }) =>
    [...credentials.keys()].map((credential) => ({
      account: id,
      credential,
      sha256: hashToken(`${name}-${credential}`),
    })),
  );
  const { base } = await startHttpApp([customErrorEndpoints({ customErrors, clock, log })], {
    accounts: createAccounts({ accounts, tokens, clock: systemClock }),
    accountOfZone: (id) => zones.find((entry) => entry.id === id)?.account,
  });
  const call = (
    method: string,
    path: string,
    { as = 'dev-edge', body, headers }: CallOptions = {},
  ): Promise<HttpAnswer> =>
    ask(`${base}/client/v4${path}`, {
      method,
      headers: {
        Authorization: `Bearer ${as}`,
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
  const served = (): string | undefined => {
    const answer = customErrors.choose(devZone, occurrenceOf(sampleErrors.timeout), errorRequest());
    return answer && bodyText(answer);
  };
  return { base, call, clock, lines, served };
}

function result(answer: HttpAnswer): unknown {
  expect([answer.status, answer.json.errors, answer.json.messages, answer.json.success]).toEqual([200, [], [], true]);
  return answer.json.result;
}

/** Status, and each error's number, pointer and message. */
function faults(answer: HttpAnswer): unknown {
  expect([answer.json.success, answer.json.result]).toEqual([false, null]);
  return [
    answer.status,
    ...answer.json.errors.map(({ code, message, source }) => [code, source?.pointer ?? null, message]),
  ];
}

const put = { expression: 'error_code gt 0', content: 'put', contentType: 'text/plain' };
const time = new Date(1_700_000_000_000).toISOString();

describe('rules', () => {
  test('are shown, put, and taken back', async () => {
    const { call, clock, lines, served } = await start();
    const fromFile = {
      phase: 'http_custom_errors',
      source: 'file',
      version: 0,
      last_updated: null,
      rules: [{ expression: 'error_code eq 522', enabled: true, content: 'from the file', contentType: 'text/plain' }],
    };
    expect(result(await call('GET', zonePath + rulesPath))).toEqual(fromFile);
    const rules = [
      { ...put, enabled: false, statusCode: 599 },
      {
        expression: 'header["Accept"] contains "json"',
        enabled: true,
        content: '{}',
        contentType: 'application/json',
      },
    ];
    const afterPut = { phase: 'http_custom_errors', source: 'api', version: 1, last_updated: time, rules };
    expect(result(await call('PUT', zonePath + rulesPath, { body: { rules } }))).toEqual(afterPut);
    expect(result(await call('GET', zonePath + rulesPath))).toEqual(afterPut);
    expect(served()).toBe('file page');
    clock.pass(1);
    expect(result(await call('PUT', zonePath + rulesPath, { body: { rules: [put] } }))).toMatchObject({
      version: 2,
      last_updated: new Date(clock.now()).toISOString(),
      rules: [{ ...put, enabled: true }],
    });
    expect(served()).toBe('put');
    const back = { ...fromFile, version: 3, last_updated: new Date(clock.now()).toISOString() };
    expect(result(await call('DELETE', zonePath + rulesPath))).toEqual(back);
    expect(result(await call('DELETE', zonePath + rulesPath))).toEqual(back);
    expect(result(await call('GET', zonePath + rulesPath))).toEqual(back);
    expect(served()).toBe('from the file');
    expect(lines.map(({ msg, account, zone }) => [msg, account, zone])).toEqual([
      ['the Custom Error Rules put', 'dev', devZone.id],
      ['the Custom Error Rules put', 'dev', devZone.id],
      ['the Custom Error Rules taken back', 'dev', devZone.id],
      ['the Custom Error Rules taken back', 'dev', devZone.id],
    ]);
  });

  test('an empty list is no rules, whatever the file says', async () => {
    const { call, served } = await start();
    expect(result(await call('PUT', zonePath + rulesPath, { body: { rules: [] } }))).toMatchObject({
      source: 'api',
      rules: [],
    });
    expect(served()).toBe('file page');
  });

  test('of an account, by its name and by its id', async () => {
    const { call, served } = await start();
    await call('PUT', `/accounts/dev${rulesPath}`, { body: { rules: [put] } });
    expect(result(await call('GET', `/accounts/${accountId('dev')}${rulesPath}`))).toMatchObject({
      source: 'api',
      rules: [put],
    });
    expect(served()).toBe('from the file');
    await call('PUT', zonePath + rulesPath, { body: { rules: [] } });
    expect(served()).toBe('put');
    expect(result(await call('DELETE', `/accounts/dev${rulesPath}`))).toMatchObject({ source: 'none', rules: [] });
  });

  test('are read in the file’s spelling and the other, and answered in the file’s', async () => {
    const { call } = await start();
    const { contentType, ...rest } = put;
    const body = {
      rules: [
        { ...put, statusCode: 503 },
        { ...rest, content_type: contentType, status_code: 503 },
        { ...put, status_code: 503 },
      ],
    };
    const { rules } = result(await call('PUT', zonePath + rulesPath, { body })) as { rules: unknown };
    expect(rules).toEqual(body.rules.map(() => ({ ...put, enabled: true, statusCode: 503 })));
    // What is answered can be put as it stands.
    expect(result(await call('PUT', zonePath + rulesPath, { body: { rules } }))).toMatchObject({ rules });
    const twice = { rules: [{ ...put, content_type: 'text/html', statusCode: 500, status_code: 500 }, rest] };
    expect(faults(await call('PUT', zonePath + rulesPath, { body: twice }))).toEqual([
      400,
      [
        10_001,
        '/rules/0/content_type',
        'E_VALIDATION_ERROR: rules.0.content_type stands beside contentType, which means the same',
      ],
      [
        10_001,
        '/rules/0/status_code',
        'E_VALIDATION_ERROR: rules.0.status_code stands beside statusCode, which means the same',
      ],
      [10_001, '/rules/1/contentType', 'E_FIELD_MISSING: "contentType" is missing'],
    ]);
  });

  test('every fault is told at once, with its place', async () => {
    const { call } = await start();
    const body = {
      rules: [
        { expression: 'error_code == 5', content: 'x'.repeat(10_241), content_type: 'text/css', StatusCode: 500 },
        put,
        { expression: '', enabled: 'yes', content: 5, content_type: 'text/html', status_code: 200 },
        { expression: 'path eq 5' },
        7,
      ],
      more: true,
    };
    expect(faults(await call('PUT', zonePath + rulesPath, { body }))).toEqual([
      400,
      [10_001, '/more', expect.stringContaining('"more" is no field')],
      [10_001, '/rules/0/StatusCode', 'E_VALIDATION_ERROR: "StatusCode" is no field; did you mean "statusCode"?'],
      [
        10_001,
        '/rules/0/content_type',
        'E_VALIDATION_ERROR: rules.0.content_type must be one of text/html, text/plain, application/json, text/xml',
      ],
      [10_001, '/rules/2/enabled', 'E_VALIDATION_ERROR: rules.2.enabled must be true or false'],
      [10_001, '/rules/2/content', 'E_VALIDATION_ERROR: rules.2.content must be a text'],
      [10_001, '/rules/2/status_code', 'E_VALIDATION_ERROR: rules.2.status_code must be a whole number, 400 to 599'],
      [10_001, '/rules/3/content', 'E_FIELD_MISSING: "content" is missing'],
      [10_001, '/rules/4', 'E_VALIDATION_ERROR: rules.4 must be an object with expression, content and contentType'],
      [
        10_001,
        '/rules/0/expression',
        'E_VALIDATION_ERROR: rules.0.expression cannot be read: character 12 of "error_code == 5": "=" has no meaning here; for equality write eq',
      ],
      [10_001, '/rules/0/content', 'E_VALIDATION_ERROR: rules.0.content is 10241 octets, want at most 10240'],
      [
        10_001,
        '/rules/2/expression',
        'E_VALIDATION_ERROR: rules.2.expression cannot be read: character 1 of "": the expression is empty, want a comparison such as error_code eq 522',
      ],
      [
        10_001,
        '/rules/3/expression',
        'E_VALIDATION_ERROR: rules.3.expression cannot be read: character 9 of "path eq 5": path is compared with a string in double quotation marks, got 5',
      ],
      [10_001, '/rules/3/contentType', 'E_FIELD_MISSING: "contentType" is missing'],
    ]);
    expect(result(await call('GET', zonePath + rulesPath))).toMatchObject({ source: 'file', version: 0 });
  });

  test.each<[unknown, string, string]>([
    [{}, '/rules', 'E_FIELD_MISSING: "rules" is missing'],
    [[], '', 'E_VALIDATION_ERROR: The body must be an object with rules'],
    [{ rules: {} }, '/rules', 'E_VALIDATION_ERROR: rules must be a list of at most 100 rules'],
    [undefined, '', 'E_VALIDATION_ERROR: The body must be an object with rules'],
    ['{"rules":[],"rules":[]}', '/rules', 'E_VALIDATION_ERROR: This name stands twice in its object'],
    [
      '{"rules":[{"expression":"path eq \\"\\ud800\\"","content":"","content_type":"text/html"}]}',
      '/rules/0/expression',
      'E_VALIDATION_ERROR: This text has a lone surrogate, which is no character',
    ],
  ])('%j is no list of rules', async (body, pointer, message) => {
    const { call } = await start();
    expect(faults(await call('PUT', zonePath + rulesPath, { body }))).toEqual([400, [10_001, pointer, message]]);
  });

  test('text that is no JSON', async () => {
    const { call } = await start();
    expect((await call('PUT', zonePath + rulesPath, { body: '{"rules":' })).status).toBe(400);
  });

  test.each([
    [10_239, 200],
    [10_240, 200],
    [10_241, 400],
  ])('content of %i octets: %i', async (octets, status) => {
    const { call } = await start();
    const content = `\u00e4${'x'.repeat(octets - 2)}`;
    expect((await call('PUT', zonePath + rulesPath, { body: { rules: [{ ...put, content }] } })).status).toBe(status);
  });

  test.each([
    [399, 400],
    [400, 200],
    [599, 200],
    [600, 400],
    [500.5, 400],
  ])('status_code %d: %i', async (code, status) => {
    const { call } = await start();
    const body = { rules: [{ ...put, status_code: code }] };
    expect((await call('PUT', zonePath + rulesPath, { body })).status).toBe(status);
  });

  test.each([
    [99, 200],
    [100, 200],
    [101, 400],
  ])('%i rules: %i', async (count, status) => {
    const { call } = await start();
    const rules = Array.from({ length: count }, () => put);
    expect((await call('PUT', zonePath + rulesPath, { body: { rules } })).status).toBe(status);
  });

  test.each([
    [1999, 200],
    [2000, 200],
    [2001, 400],
  ])('%i comparisons in all rules together: %i', async (count, status) => {
    const { call } = await start();
    const chain = (length: number): string => Array.from({ length }, () => 'not(path eq""and status lt 1)').join('or ');
    const rules = [
      ...Array.from({ length: 9 }, () => ({ ...put, expression: chain(100) })),
      { ...put, expression: chain(99), enabled: false },
      { ...put, expression: Array.from({ length: count - 1998 }, () => 'status lt 1').join(' or ') },
    ];
    const answer = await call('PUT', zonePath + rulesPath, { body: { rules } });
    expect(answer.status).toBe(status);
    if (status === 200) return;
    const text =
      'E_VALIDATION_ERROR: rules have 2001 comparisons together, want at most 2000; a set behind in counts as one';
    expect(faults(answer)).toEqual([400, [10_001, '/rules', text]]);
    expect(result(await call('GET', zonePath + rulesPath))).toMatchObject({ version: 0 });
  });

  test('a hundred rules of the largest size, every octet escaped', async () => {
    const { call } = await start();
    const content = '\u0001'.repeat(10_240);
    const rules = Array.from({ length: 100 }, () => ({ ...put, content, enabled: true }));
    const body = JSON.stringify({ rules });
    expect(body.length).toBeGreaterThan(6_000_000);
    expect(result(await call('PUT', zonePath + rulesPath, { body }))).toMatchObject({ rules });
  });
});

describe('If-Match', () => {
  const [rules, page] = [zonePath + rulesPath, zonePath + pagePath];
  const tagOf = (answer: HttpAnswer): string => answer.headers.get('etag') ?? '';

  test.each([
    ['rules', rules, { rules: [put] }],
    ['the page', page, { html: 'put' }],
  ])('%s change only where the version that is named is the present one', async (_, path, body) => {
    const { call } = await start();
    const first = tagOf(await call('GET', path));
    expect(first).toMatch(/^"0\.[0-9a-f]{16}"$/);
    const second = tagOf(await call('PUT', path, { body, headers: { 'If-Match': `"x", ${first}` } }));
    expect(second).toBe('"1"');
    for (const wanted of [first, `W/${second}`, '"2"', '']) {
      for (const method of ['PUT', 'DELETE']) {
        const answer = await call(method, path, { body, headers: { 'If-Match': wanted } });
        expect([method, wanted, answer.status]).toEqual([method, wanted, 412]);
      }
    }
    expect(tagOf(await call('GET', path))).toBe(second);
    expect(tagOf(await call('PUT', path, { body, headers: { 'If-Match': '*' } }))).toBe('"2"');
    expect(tagOf(await call('PUT', path, { body }))).toBe('"3"');
    const back = await call('DELETE', path, { headers: { 'If-Match': '"3"' } });
    expect([back.status, tagOf(back)]).toEqual([200, expect.stringMatching(/^"4\.[0-9a-f]{16}"$/)]);
  });

  test('of changes at the same time that name one version, one is made', async () => {
    const { call } = await start();
    await call('PUT', rules, { body: { rules: [put] } });
    const answers = await Promise.all(
      [1, 2, 3, 4].map((n) =>
        call('PUT', rules, { body: { rules: [{ ...put, content: `${n}` }] }, headers: { 'If-Match': '"1"' } }),
      ),
    );
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 412)).toHaveLength(3);
    expect(tagOf(await call('GET', rules))).toBe('"2"');
  });
});

describe('the page', () => {
  test('is shown, put, and taken back', async () => {
    const { call, served } = await start();
    await call('PUT', zonePath + rulesPath, { body: { rules: [] } });
    const fromFile = { id: 'error_page', source: 'file', version: 0, last_updated: null, html: 'file page' };
    expect(result(await call('GET', zonePath + pagePath))).toEqual(fromFile);
    const html = '<p>\u00e4 \u{1f600} "::CLIENT_IP::" \u0001</p>';
    const afterPut = { id: 'error_page', source: 'api', version: 1, last_updated: time, html };
    expect(result(await call('PUT', zonePath + pagePath, { body: { html } }))).toEqual(afterPut);
    expect(result(await call('GET', zonePath + pagePath))).toEqual(afterPut);
    expect(served()).toBe('<p>\u00e4 \u{1f600} "192.0.2.1" \u0001</p>');
    expect(result(await call('DELETE', zonePath + pagePath))).toEqual({ ...fromFile, version: 2, last_updated: time });
    expect(served()).toBe('file page');
  });

  test('of an account that has none', async () => {
    const { call } = await start();
    const none = { id: 'error_page', source: 'none', version: 0, last_updated: null, html: null };
    expect(result(await call('GET', `/accounts/payg${pagePath}`, { as: 'payg-edge' }))).toEqual(none);
    expect(result(await call('DELETE', `/accounts/payg${pagePath}`, { as: 'payg-edge' }))).toEqual(none);
  });

  test.each([
    [1_499_999, 200],
    [1_500_000, 200],
  ])('%i octets, each of them escaped, are taken', async (octets, status) => {
    const { call } = await start();
    const html = '\u0001'.repeat(octets);
    const answer = await call('PUT', zonePath + pagePath, { body: { html } });
    expect(answer.status).toBe(status);
    const shown = await call('GET', zonePath + pagePath);
    expect(shown.json.result).toMatchObject({ source: 'api', html });
  });

  test('1,500,001 octets are refused by number', async () => {
    const { call } = await start();
    expect(faults(await call('PUT', zonePath + pagePath, { body: { html: 'x'.repeat(1_500_001) } }))).toEqual([
      400,
      [10_001, '/html', 'E_VALIDATION_ERROR: html is 1500001 octets, want at most 1500000'],
    ]);
  });

  test('a body that no page could need is refused before it is read', async () => {
    const { call } = await start();
    const answer = await call('PUT', zonePath + pagePath, { body: { html: 'x'.repeat(9_100_001) } });
    expect([answer.status, answer.json.errors[0]?.code]).toEqual([413, 10_200]);
  });

  test.each<[unknown, unknown[]]>([
    [{ html: '' }, [[10_001, '/html', 'E_VALIDATION_ERROR: html is empty, want an HTML document']]],
    [{ html: 5 }, [[10_001, '/html', 'E_VALIDATION_ERROR: html must be an HTML document']]],
    [{ html: null }, [[10_001, '/html', 'E_VALIDATION_ERROR: html must be an HTML document']]],
    [{}, [[10_001, '/html', 'E_FIELD_MISSING: "html" is missing']]],
    [{ html: 'x', url: 'http://x' }, [[10_001, '/url', 'E_VALIDATION_ERROR: "url" is no field; there are html']]],
    [
      { html: '::RAY_ID::'.repeat(1001) },
      [[10_001, '/html', 'E_VALIDATION_ERROR: html has 1001 tokens such as ::RAY_ID::, want at most 1000']],
    ],
  ])('page %#, which is refused', async (body, wanted) => {
    const { call } = await start();
    expect(faults(await call('PUT', zonePath + pagePath, { body }))).toEqual([400, ...wanted]);
    expect(result(await call('GET', zonePath + pagePath))).toMatchObject({ source: 'file' });
  });
});

test('the endpoints stand in the OpenAPI document, with their schemas', async () => {
  const { base } = await start();
  const document: unknown = JSON.parse((await ask(`${base}/openapi.json`)).text);
  const operations = { get: expect.anything(), put: expect.anything(), delete: expect.anything() };
  expect(document).toMatchObject({
    paths: Object.fromEntries(
      ['/zones/{zone_id}', '/accounts/{account_id}'].flatMap((place) =>
        [rulesPath, pagePath].map((path) => [`/client/v4${place}${path}`, operations]),
      ),
    ),
    components: {
      schemas: {
        ErrorRule: { required: ['expression', 'content', 'contentType'] },
        NewErrorRule: { required: ['expression', 'content'] },
        NewErrorRules: expect.anything(),
        NewErrorPage: expect.anything(),
      },
    },
  });
});

describe('who may', () => {
  const everything = ['GET', 'PUT', 'DELETE'].flatMap((method) =>
    [rulesPath, pagePath].map((path): [string, string] => [method, path]),
  );
  const bodyFor = (method: string, path: string): CallOptions =>
    method === 'PUT' ? { body: path === rulesPath ? { rules: [put] } : { html: 'x' } } : {};

  test.each(everything)('%s %s', async (method, path) => {
    const { call } = await start();
    const body = bodyFor(method, path);
    const statusOf = async (place: string, as: string) => (await call(method, place + path, { ...body, as })).status;
    expect({
      withoutScope: await statusOf(zonePath, 'dev-proxy'),
      unknownToken: await statusOf(zonePath, 'dev-none'),
      foreignZone: await statusOf(zonePath, 'payg-edge'),
      unknownZone: await statusOf(`/zones/${'99'.repeat(16)}`, 'dev-edge'),
      foreignAccount: await statusOf('/accounts/payg', 'dev-edge'),
      unknownAccount: await statusOf('/accounts/nobody', 'dev-edge'),
      zone: await statusOf(zonePath, 'dev-edge'),
      zoneInUpperCase: await statusOf(zonePath.toUpperCase().replace('/ZONES', '/zones'), 'dev-edge'),
      account: await statusOf('/accounts/payg', 'payg-edge'),
      admin: await statusOf(zonePath, 'payg-boss'),
    }).toEqual({
      withoutScope: 403,
      unknownToken: 401,
      foreignZone: 404,
      unknownZone: 404,
      foreignAccount: 404,
      unknownAccount: 404,
      zone: 200,
      zoneInUpperCase: 200,
      account: 200,
      admin: 200,
    });
  });

  test('another method is refused with those there are', async () => {
    const { call } = await start();
    const answer = await call('POST', zonePath + rulesPath, { body: { rules: [] } });
    expect([answer.status, answer.headers.get('allow')?.split(', ').sort()]).toEqual([
      405,
      expect.arrayContaining(['DELETE', 'GET', 'PUT']),
    ]);
  });

  test('plan free has no rules, whatever the body is, but a page', async () => {
    const { call } = await start();
    for (const place of [`/zones/${'33'.repeat(16)}`, '/accounts/free']) {
      for (const body of [{ rules: [put] }, { rules: 5 }]) {
        expect(faults(await call('PUT', place + rulesPath, { as: 'free-edge', body }))).toEqual([
          403,
          [10_102, null, 'E_FORBIDDEN: Plan free has no Custom Error Rules; an Error Page it may have'],
        ]);
      }
      expect(result(await call('GET', place + rulesPath, { as: 'free-edge' }))).toMatchObject({ rules: [] });
      expect(result(await call('DELETE', place + rulesPath, { as: 'free-edge' }))).toMatchObject({ rules: [] });
      const page = await call('PUT', place + pagePath, { as: 'free-edge', body: { html: 'x' } });
      expect(result(page)).toMatchObject({ source: 'api', html: 'x' });
    }
    expect((await call('PUT', '/accounts/free' + rulesPath, { as: 'dev-boss', body: { rules: [] } })).status).toBe(403);
    expect((await call('PUT', '/accounts/payg' + rulesPath, { as: 'payg-edge', body: { rules: [put] } })).status).toBe(
      200,
    );
  });
});

test('null in the optional fields of a rule is the same as leaving them out', async () => {
  const { call } = await start();
  const body = { rules: [{ ...put, enabled: null, status_code: null }] };
  const answer = await call('PUT', `/zones/${devZone.id}/rulesets/phases/http_custom_errors/entrypoint`, { body });
  expect(result(answer)).toMatchObject({ rules: [{ ...put, enabled: true }] });
});
