// The endpoints of webhooks by real HTTP on a real database and spool (D54).

import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { readSecretOctets } from '../../../src/delivery/webhooks/secret.ts';
import { openWebhookStore } from '../../../src/delivery/webhooks/webhook-store.ts';
import { createAddressGuard, urlFault } from '../../../src/delivery/webhooks/webhook-url.ts';
import { defaultEventLimits } from '../../../src/spool/events/event-store.ts';
import { SqliteSpool } from '../../../src/spool/sqlite/sqlite-spool.ts';
import { webhookEndpoints } from '../../../src/web/admin/webhooks/webhook-endpoints.ts';
import { openTestDatabase } from '../../support/engines.ts';
import { ask, httpAccounts, startHttpApp } from '../../support/http-app.ts';
import { logLines } from '../../support/log-lines.ts';
import { scratchFolder } from '../../support/scratch.ts';
import { manualClock } from '../../support/smtp-peers.ts';
import { spoolEntry } from '../../support/spool-entry.ts';

const dev = httpAccounts[0]?.id ?? '';
const url = 'https://hooks.example.com/in?key=hunter2';

interface Shown {
  readonly id: string;
  readonly secret?: string;
  readonly [member: string]: unknown;
}

async function start() {
  const file = join(scratchFolder(), 'postern.db');
  const clock = manualClock();
  const { log, lines } = logLines();
  // What happens here happened long ago, and a look at old events comes each second.
  const eventLimits = { ...defaultEventLimits, ageMilliseconds: 1e15 };
  const spool = await SqliteSpool.open({ file, eventLimits });
  onTestFinished(() => spool.close());
  const store = await openWebhookStore(await openTestDatabase(file), clock);
  const refuse = createAddressGuard({ allowNetworks: [] });
  let refreshed = 0;
  const { base } = await startHttpApp([
    webhookEndpoints({
      ...{ store, events: spool.events, clock, log },
      urlFault: (text) => urlFault(text, { allowHttp: false, refuse }),
      refresh: async () => void (refreshed += 1),
    }),
  ]);
  const call = async (method: string, path: string, { as = 'dev-watcher', account = 'dev', body = {} } = {}) => {
    const hasBody = method === 'POST' || method === 'PATCH';
    const answer = await ask(`${base}/client/v4/accounts/${account}/email/sending/webhooks${path}`, {
      method,
      headers: { Authorization: `Bearer ${as}`, ...(hasBody ? { 'Content-Type': 'application/json' } : {}) },
      ...(hasBody ? { body: JSON.stringify(body) } : {}),
    });
    return { ...answer, result: answer.json.result as Shown };
  };
  return { call, clock, lines, spool, store, refreshes: () => refreshed };
}

test('one is made, shown without its secret, changed, given another secret, and removed', async () => {
  const { call, clock, lines, refreshes } = await start();
  const { result } = await call('POST', '', { body: { url, kinds: ['failed', 'failed', 'delivered'], note: 'shop' } });
  const { secret = '', ...made } = result;
  expect(readSecretOctets(secret)).toHaveLength(32);
  expect(made).toEqual({
    id: expect.stringMatching(/^[0-9a-f]{32}$/),
    url,
    kinds: ['failed', 'delivered'],
    note: 'shop',
    source: 'api',
    enabled: true,
    disabled_reason: null,
    failures: 0,
    created_at: new Date(clock.now()).toISOString(),
    replaying: false,
  });
  expect((await call('GET', '')).result).toEqual([made]);
  expect((await call('GET', `/${made.id}`)).result).toEqual(made);
  const changed = { ...made, kinds: [], enabled: false, note: '' };
  const body = { kinds: [], enabled: false, note: '' };
  expect((await call('PATCH', `/${made.id}`, { body })).result).toEqual(changed);
  const rotated = (await call('POST', `/${made.id}/rotate`)).result;
  expect(rotated.secret).not.toBe(secret);
  expect((await call('DELETE', `/${made.id}`)).result).toEqual({ id: made.id });
  expect((await call('GET', '')).result).toEqual([]);
  expect((await call('PATCH', `/${made.id}`, { body })).status).toBe(404);
  expect(refreshes()).toBe(4);
  const told = JSON.stringify(lines);
  for (const hidden of [secret, rotated.secret ?? '', 'hunter2']) expect(told).not.toContain(hidden);
});

test('what is wrong is told by its place, and nothing is made', async () => {
  const { call } = await start();
  const wrong: readonly (readonly [object, string])[] = [
    [{}, '/url'],
    [{ url: 'http://hooks.example.com/' }, '/url'],
    [{ url: 'https://127.0.0.1/' }, '/url'],
    [{ url: 'https://[::ffff:7f00:1]/' }, '/url'],
    [{ url: 'https://me:hunter2@hooks.example.com/' }, '/url'],
    [{ url, kinds: ['opened'] }, '/kinds/0'],
    [{ url, kinds: 'failed' }, '/kinds'],
    [{ url, secret: 'whsec_mine' }, '/secret'],
    [{ url, note: 'a\nb' }, '/note'],
  ];
  for (const [body, pointer] of wrong) {
    const { status, json } = await call('POST', '', { body });
    expect([status, json.errors[0]?.source?.pointer], JSON.stringify(body)).toEqual([400, pointer]);
    expect(JSON.stringify(json)).not.toContain('hunter2');
  }
  expect((await call('GET', '')).result).toEqual([]);
});

test('an account has at most twenty, also where many are made at once', async () => {
  const { call } = await start();
  const made = await Promise.all(Array.from({ length: 30 }, () => call('POST', '', { body: { url } })));
  expect(made.filter(({ status }) => status === 200)).toHaveLength(20);
  expect(made.find(({ status }) => status !== 200)?.json.errors).toMatchObject([{ code: 10001 }]);
  expect((await call('POST', '', { as: 'other-watcher', account: 'other', body: { url } })).status).toBe(200);
});

test('another account’s is not found, whatever is asked; the scope is needed', async () => {
  const { call } = await start();
  const { id } = (await call('POST', '', { body: { url } })).result;
  const other = { as: 'other-watcher', account: 'other', body: {} };
  for (const [method, path, body] of [
    ...[
      ['GET', '', {}],
      ['PATCH', '', { enabled: false }],
      ['DELETE', '', {}],
      ['POST', '/rotate', {}],
    ],
    ...[
      ['GET', '/deliveries', {}],
      ['POST', '/replay', { event: '1' }],
    ],
  ] as const) {
    expect((await call(method, `/${id}${path}`, { ...other, body })).status, `${method} ${path}`).toBe(404);
    expect((await call(method, `/${id}${path}`, { as: 'dev-default', body })).status, `${method} ${path}`).toBe(403);
  }
  expect((await call('GET', `/${id}`)).result).toMatchObject({ enabled: true });
  expect((await call('GET', `/${id}`, { as: 'other-boss' })).status).toBe(200);
});

test('those of the file are shown, replayed, and not changed', async () => {
  const { call, store, spool } = await start();
  const id = 'f'.repeat(32);
  const webhook = { id, account: dev, url, kinds: undefined, note: 'shop', secrets: () => [] };
  await store.configure([webhook], 0);
  expect((await call('GET', '')).result).toMatchObject([{ id, source: 'file', note: 'shop' }]);
  for (const [method, path] of [
    ['PATCH', ''],
    ['DELETE', ''],
    ['POST', '/rotate'],
  ] as const)
    expect((await call(method, `/${id}${path}`)).status, method).toBe(403);
  await spool.add(spoolEntry(), 0);
  expect((await call('POST', `/${id}/replay`, { body: { event: '1' } })).result).toEqual({ after: '0', until: '1' });
  await store.configure([], 0);
  expect((await call('GET', '')).result).toEqual([]);
});

test('a replay is of one event or of a time, of events of the account', async () => {
  const { call, spool } = await start();
  const { id } = (await call('POST', '', { body: { url } })).result;
  const at = Date.parse('2026-01-01T00:00:00Z');
  for (let hours = 0; hours < 3; hours += 1) await spool.add(spoolEntry({ acceptedAt: at + hours * 3_600_000 }), 0);
  await spool.add(spoolEntry({ account: 'other', acceptedAt: at + 3 * 3_600_000 }), 0);
  const replay = async (body: object) => await call('POST', `/${id}/replay`, { body });
  expect((await replay({ since: '2026-01-01T00:30:00Z' })).result).toEqual({ after: '1', until: '3' });
  expect((await replay({ since: '2026-01-01T00:00:00Z', until: '2026-01-01T01:00:00Z' })).result).toEqual({
    ...{ after: '0', until: '1' },
  });
  expect((await call('GET', `/${id}`)).result).toMatchObject({ replaying: true });
  for (const body of [{ event: '4' }, { event: '99' }, { since: '2027-01-01T00:00:00Z' }])
    expect((await replay(body)).status, JSON.stringify(body)).toBe(404);
  for (const body of [
    {},
    { event: '1', since: '2026-01-01T00:00:00Z' },
    { since: 'now' },
    { event: '0' },
    { event: "1' OR" },
  ])
    expect((await replay(body)).status, JSON.stringify(body)).toBe(400);
});
