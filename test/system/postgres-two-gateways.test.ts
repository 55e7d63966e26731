// Two gateways on one PostgreSQL: what is changed at one counts at the other (D94): tokens, suppressions, holds,
// proxy applications and custom errors; also where the database tells nobody of changes, and the gateways find them by looking.

import { request } from 'node:http';
import { connect } from 'node:net';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { uuidv7 } from '../../src/base/ids.ts';
import { PostgresSpool } from '../../src/spool/postgres/postgres-spool.ts';
import { PostgresSession } from '../../src/spool/postgres/server/postgres-session.ts';
import { ask } from '../support/gateway-load.ts';
import { testToken } from '../support/postern-process.ts';
import { type PostgresServer, startPostgres } from '../support/postgres.ts';
import {
  type ProxyGateway,
  type ShownApplication,
  startProxyGateway,
  tcpApplication,
} from '../support/proxy-gateway.ts';
import { echoServer, readToEnd, testOffset } from '../support/proxy-plane.ts';
import { countsOf } from '../support/spool-counts.ts';
import { spoolEntry } from '../support/spool-entry.ts';
import { expectToCount } from '../support/times-of-changes.ts';
import { requirePrograms } from './programs.ts';

vi.setConfig({ testTimeout: 120_000 });
const soon = { timeout: 5000, interval: 20 };

let server: PostgresServer;
beforeAll(async () => {
  requirePrograms('runuser', 'pg_ctlcluster');
  server = await startPostgres();
});
afterAll(() => server?.remove());

/** Starts two gateways on the same applications: the second adds 1,000 more to each port, so that both run on one machine. */
async function startTwo(
  served: readonly (readonly string[])[] = [],
  given?: string,
): Promise<readonly [ProxyGateway, ProxyGateway]> {
  const url = given ?? (await server.createSchema());
  const start = async (index: number, pool?: string): Promise<ProxyGateway> => {
    const portOffset = testOffset + index * 1000;
    const ipv4Pool = pool ?? `127.${100 + Math.floor(Math.random() * 150)}.${1 + Math.floor(Math.random() * 250)}`;
    const servedAddresses = served[index]?.map((last) => `${ipv4Pool}.${last}`);
    const gateway = await startProxyGateway({
      pool: ipv4Pool,
      more: {
        database: { url: 'postgres://nobody@127.0.0.1:1/none' },
        proxy: { ipv4Pool: `${ipv4Pool}.0/24`, portOffset, ...(servedAddresses ? { servedAddresses } : {}) },
        accounts: [
          {
            name: 'dev',
            id: 'a1'.repeat(16),
            plan: 'enterprise',
            sendingDomains: [{ name: 'example.com' }],
            credentials: [
              { name: 'default', scopes: ['email:send', 'proxy:read', 'proxy:edit', 'edge:edit', 'admin'] },
            ],
          },
        ],
        zones: [
          { name: 'example.com', id: '1'.repeat(32), account: 'dev', ipv4Quota: 200, hostnames: ['www.example.com'] },
        ],
      },
      env: { POSTERN_DATABASE_URL: url },
    });
    onTestFinished(() => gateway.postern.cleanUp());
    return gateway;
  };
  const first = await start(0);
  return [first, await start(1, first.pool)];
}

/** The URL of a schema in which NOTIFY tells nobody anything. */
async function silentSchema(): Promise<string> {
  const url = await server.createSchema();
  await ask(url, 'CREATE FUNCTION pg_notify(text, text) RETURNS void LANGUAGE sql AS $$ SELECT $$');
  // A schema before pg_catalog has its functions found first.
  return url.replace(/$/, ',pg_catalog');
}

/** What a port says when it is spoken to, or the code of the error. */
async function hears(address: string, port: number): Promise<string> {
  const socket = connect({ host: address, port, allowHalfOpen: true });
  socket.end('x');
  return await readToEnd(socket).then(
    (heard) => heard.toString(),
    (error: NodeJS.ErrnoException) => error.code ?? error.message,
  );
}

/** The error page of a gateway's edge, as JSON or the text of a rule. */
function edgeError(gateway: ProxyGateway): Promise<string> {
  return new Promise((resolve, reject) => {
    const headers = { host: 'www.example.com', accept: 'application/json' };
    const at = { host: '127.0.0.1', port: gateway.postern.ports['http'], path: '/cdn-cgi/error/522', agent: false };
    const asked = request({ ...at, headers }, (answer) => {
      let text = '';
      answer.setEncoding('utf8').on('data', (part: string) => (text += part));
      answer.once('end', () => resolve(text));
    });
    asked.once('error', reject).end();
  });
}

/** Calls the API below `/client/v4` of a gateway. @returns its status, and its result where it has one */
async function call(
  gateway: ProxyGateway,
  [method, path, body]: readonly [method: string, path: string, body?: object],
  token = testToken,
): Promise<{ readonly status: number; readonly result: Readonly<Record<string, unknown>> }> {
  const answer = await fetch(`http://127.0.0.1:${gateway.postern.ports['http']}/client/v4/${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, ...(body ? { 'content-type': 'application/json' } : {}) },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
  const { result } = JSON.parse(await answer.text()) as { readonly result: Readonly<Record<string, unknown>> | null };
  return { status: answer.status, result: result ?? {} };
}

/** The same, of a call that must be answered 200. */
async function change(...given: Parameters<typeof call>): Promise<Readonly<Record<string, unknown>>> {
  const { status, result } = await call(...given);
  expect(status).toBe(200);
  return result;
}

/** Hands a message to a gateway. @returns the answer's status */
async function send(gateway: ProxyGateway, to: string, token?: string): Promise<number> {
  const mail = { from: 'a@example.com', to, subject: 'A change', text: 'Hello.' };
  return (await call(gateway, ['POST', 'accounts/dev/email/sending/send', mail], token)).status;
}

test('what a gateway that is stuck has locked is free again before the others give up', async () => {
  const url = await server.createSchema();
  const spool = await PostgresSpool.open({ url });
  onTestFinished(() => spool.close());
  const now = Date.now();
  const message = spoolEntry({ id: uuidv7(now), acceptedAt: now, expiresAt: now + 3_600_000 });
  await spool.add(message, now + 60_000);
  // To the server a process that was stopped between two statements is a connection that says nothing more.
  const stuck = new PostgresSession({ url, connections: 1 });
  let isHeld: (rows: unknown) => void = () => undefined;
  const held = new Promise((resolve) => (isHeld = resolve));
  let goOn: () => void = () => undefined;
  const waits = new Promise<void>((resolve) => (goOn = resolve));
  const under = stuck.transaction(async (send) => {
    isHeld(await send('SELECT 1 FROM spool_messages FOR UPDATE'));
    await waits;
  });
  const undone = expect(under).rejects.toThrow();
  await held;
  expect(await spool.drop(message.id)).toBe(true);
  goOn();
  await undone;
  await stuck.close();
});

const zone = `zones/${'1'.repeat(32)}`;
const account = 'accounts/dev';

async function tokensCount(one: ProxyGateway, other: ProxyGateway): Promise<void> {
  let made: Readonly<Record<string, unknown>> = {};
  const answer = () => send(other, 'tokens@example.org', String(made['token']));
  await expectToCount('tokens', [
    {
      make: async () => (made = await change(one, ['POST', `${account}/tokens`, { credential: 'default' }])),
      counts: async () => (await answer()) === 200,
    },
    {
      make: () => change(one, ['DELETE', `${account}/tokens/${String(made['id'])}`]),
      counts: async () => (await answer()) === 401,
    },
  ]);
}

async function suppressionsCount(one: ProxyGateway, other: ProxyGateway): Promise<void> {
  const list = `${account}/email/sending/suppressions`;
  let id = '';
  await expectToCount('suppressions', [
    {
      make: async () => (id = String((await change(one, ['POST', list, { address: 'never@example.org' }]))['id'])),
      counts: async () => (await send(other, 'never@example.org')) === 400,
    },
    {
      make: () => change(one, ['DELETE', `${list}/${id}`]),
      counts: async () => (await send(other, 'never@example.org')) === 200,
    },
  ]);
}

/** Holds are made and lifted as the commands do it, by a process beside both gateways. */
async function holdsCount(other: ProxyGateway, url: string): Promise<void> {
  const spool = await PostgresSpool.open({ url });
  onTestFinished(() => spool.close());
  const rule = { kind: 'account', value: 'dev', at: Date.now(), by: 'a test', why: '' } as const;
  let serial = 0;
  /** Whether a message that is handed over now is kept waiting. */
  const isKept = async (): Promise<boolean> => {
    const to = `held-${(serial += 1)}@example.org`;
    expect(await send(other, to)).toBe(200);
    for (;;) {
      const [row] = await ask(url, `SELECT claimed_by FROM spool_recipients WHERE address = '${to}'`);
      if (!row) return false;
      if (row['claimed_by'] === null) return true;
    }
  };
  await expectToCount('holds', [
    { make: () => spool.addHold(rule), counts: isKept },
    { make: () => spool.liftHold(rule), counts: async () => (await countsOf(spool)).queued === 0 },
  ]);
}

async function applicationsCount(one: ProxyGateway, other: ProxyGateway): Promise<void> {
  const [origin, next] = [await echoServer('one '), await echoServer('two ')];
  let edge = { id: '', address: '', port: 0 };
  const there = () => hears(edge.address, edge.port + 1000);
  await expectToCount('proxy applications', [
    {
      make: async () => (edge = await one.create(tcpApplication('shared', 22, origin.port))),
      counts: async () => (await there()) === 'one x',
    },
    {
      make: () => one.call('PATCH', `/${edge.id}`, { origin_direct: [`tcp://127.0.0.1:${next.port}`] }),
      counts: async () => (await there()) === 'two x',
    },
    {
      // The other one changes it, too.
      make: () => other.call('DELETE', `/${edge.id}`),
      counts: async () => (await hears(edge.address, edge.port)) === 'ECONNREFUSED',
    },
  ]);
  expect(await there()).toBe('ECONNREFUSED');
}

async function customErrorsCount(one: ProxyGateway, other: ProxyGateway): Promise<void> {
  const rules = `${zone}/rulesets/phases/http_custom_errors/entrypoint`;
  const rule = { expression: 'error_code in {522}', content: 'by a rule', content_type: 'text/plain' };
  const html = '<html><body>A PAGE ::RAY_ID::</body></html>';
  const shows = async (gateway: ProxyGateway, text: string) => (await edgeError(gateway)).includes(text);
  await expectToCount('custom errors', [
    { make: () => change(one, ['PUT', rules, { rules: [rule] }]), counts: () => shows(other, 'by a rule') },
    { make: () => change(other, ['DELETE', rules]), counts: () => shows(one, '"error_code":522') },
    {
      make: () => change(one, ['PUT', `${zone}/custom_pages/error_page`, { html }]),
      counts: () => shows(other, 'A PAGE'),
    },
    {
      make: () => change(other, ['DELETE', `${zone}/custom_pages/error_page`]),
      counts: () => shows(one, '"error_code":522'),
    },
  ]);
}

test.each([
  ['where the database tells of it', false],
  ['where they have to look for it', true],
])('what one gateway changes counts at the other, %s', async (_name, isSilent) => {
  const url = isSilent ? await silentSchema() : await server.createSchema();
  const [one, other] = await startTwo([], url);
  await tokensCount(one, other);
  await suppressionsCount(one, other);
  await holdsCount(other, url);
  await applicationsCount(one, other);
  await customErrorsCount(one, other);
});

test('an edge address that is pinned to a machine is served there alone, whoever is asked', async () => {
  // The pool gives its first address to the first hostname.
  const [one, other] = await startTwo([['1/32'], ['2/32']]);
  const origin = await echoServer('echo ');
  const first = await one.create(tcpApplication('first', 22, origin.port));
  const reason = `another machine serves ${one.pool}.2 (proxy.servedAddresses)`;
  const { id, status } = await one.call<ShownApplication>('POST', '', tcpApplication('second', 22, origin.port));
  expect(status).toEqual({ state: 'pending', reason });
  expect((await one.traffic(id)).listening).toEqual([]);
  const at = (last: number, gateway: 0 | 1): Promise<string> =>
    hears(`${one.pool}.${last}`, first.port + gateway * 1000);
  await expect.poll(() => at(2, 1), soon).toBe('echo x');
  expect([await at(1, 0), await at(2, 0), await at(1, 1)]).toEqual(['echo x', 'ECONNREFUSED', 'ECONNREFUSED']);
  const shown = (gateway: ProxyGateway, which: string) => gateway.call<ShownApplication>('GET', `/${which}`);
  expect((await shown(other, id)).status).toEqual({ state: 'active', reason: '' });
  expect((await shown(other, first.id)).status).toEqual({
    state: 'pending',
    reason: `another machine serves ${one.pool}.1 (proxy.servedAddresses)`,
  });
});

test('requests with one Idempotency-Key at both at once make one message: the others repeat its answer, or are 422', async () => {
  const gateways = await startTwo();
  const key = (name: string, text: string) => async (gateway: ProxyGateway) => {
    const response = await fetch(
      `http://127.0.0.1:${gateway.postern.ports['http']}/client/v4/accounts/dev/email/sending/send`,
      {
        method: 'POST',
        headers: {
          authorization: `Bearer ${testToken}`,
          'content-type': 'application/json',
          'idempotency-key': name,
        },
        body: JSON.stringify({ from: 'a@example.com', to: 'b@one.test', subject: 'once', text }),
      },
    );
    return { status: response.status, text: await response.text() };
  };
  for (let round = 0; round < 20; round += 1) {
    const same = await Promise.all(gateways.map(key(`same-${round}`, 'Hello.')));
    expect(same.map(({ status }) => status)).toEqual([200, 200]);
    expect(same[0]?.text).toBe(same[1]?.text);
    const other = await Promise.all(
      gateways.map((gateway, index) => key(`other-${round}`, `Hello ${index}.`)(gateway)),
    );
    expect(other.map(({ status }) => status).toSorted((one, two) => one - two)).toEqual([200, 422]);
  }
});
