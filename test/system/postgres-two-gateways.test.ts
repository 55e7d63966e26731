// Two gateways on one PostgreSQL: what is changed at one counts at the other within a second (D94), proxy applications and custom
// errors; also where the database tells nobody of changes, and the gateways find them by looking.

import { request } from 'node:http';
import { connect } from 'node:net';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { uuidv7 } from '../../src/base/ids.ts';
import { takeTurn } from '../../src/spool/postgres/events/written-events.ts';
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
import { spoolEntry } from '../support/spool-entry.ts';
import { requirePrograms } from './programs.ts';

vi.setConfig({ testTimeout: 120_000 });
/** D94 gives it a second; the rest is a busy machine's. */
const soon = { timeout: 5000, interval: 20 };

let server: PostgresServer;
beforeAll(async () => {
  requirePrograms('runuser', 'pg_ctlcluster');
  server = await startPostgres();
});
afterAll(() => server?.remove());

/** Starts two gateways on the same applications: the second adds 1,000 more to each port, so that both run on one machine. */
async function startTwo(served: readonly (readonly string[])[] = []): Promise<readonly [ProxyGateway, ProxyGateway]> {
  const url = await server.createSchema();
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
            credentials: [{ name: 'default', scopes: ['email:send', 'proxy:read', 'proxy:edit', 'edge:edit'] }],
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
  const second = await start(1, first.pool);
  urls.set(first, url);
  return [first, second];
}
const urls = new WeakMap<ProxyGateway, string>();

/** Has the database tell nobody of changes any more, and breaks the connections by which the gateways listen. */
async function silence(gateway: ProxyGateway): Promise<void> {
  const url = urls.get(gateway) ?? '';
  for (const table of ['proxy_revision', 'edge_custom_errors'])
    await ask(url, `DROP TRIGGER postern_changed ON ${table}`);
  const listening = "datname = current_database() AND query LIKE 'LISTEN%' AND pid <> pg_backend_pid()";
  await ask(url, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE ${listening}`);
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

async function change(gateway: ProxyGateway, method: string, path: string, body?: string): Promise<void> {
  const at = `http://127.0.0.1:${gateway.postern.ports['http']}/client/v4/zones/${'1'.repeat(32)}/${path}`;
  const headers = {
    authorization: `Bearer ${testToken}`,
    ...(body === undefined ? {} : { 'content-type': 'application/json' }),
  };
  const answer = await fetch(at, { method, headers, ...(body === undefined ? {} : { body }) });
  expect([answer.status, await answer.text()]).toEqual([200, expect.any(String)]);
}

test('what a gateway that is stuck has locked is free again before the others give up', async () => {
  const url = await server.createSchema();
  const spool = await PostgresSpool.open({ url });
  onTestFinished(() => spool.close());
  // To the server a process that was stopped between two statements is a connection that says nothing more.
  const stuck = new PostgresSession(url, 1);
  let isHeld: (rows: unknown) => void = () => undefined;
  const held = new Promise((resolve) => (isHeld = resolve));
  let goOn: () => void = () => undefined;
  const waits = new Promise<void>((resolve) => (goOn = resolve));
  const under = stuck.transaction(async (send) => {
    isHeld(await send(takeTurn, [1]));
    await waits;
  });
  const undone = expect(under).rejects.toThrow();
  await held;
  const now = Date.now();
  await spool.add(spoolEntry({ id: uuidv7(now), acceptedAt: now, expiresAt: now + 3_600_000 }), now + 60_000);
  goOn();
  await undone;
  await stuck.close();
});

test.each([
  ['where the database tells of it', false],
  ['where they have to look for it', true],
])('an application and custom errors of one gateway count at the other, %s', async (_name, isSilent) => {
  const [one, other] = await startTwo();
  if (isSilent) await silence(one);
  const [origin, next] = [await echoServer('one '), await echoServer('two ')];
  const edge = await one.create(tcpApplication('shared', 22, origin.port));
  const there = () => hears(edge.address, edge.port + 1000);
  await expect.poll(there, soon).toBe('one x');
  await one.call('PATCH', `/${edge.id}`, { origin_direct: [`tcp://127.0.0.1:${next.port}`] });
  await expect.poll(there, soon).toBe('two x');
  // The other one changes it, too.
  await other.call('DELETE', `/${edge.id}`);
  await expect.poll(() => hears(edge.address, edge.port), soon).toBe('ECONNREFUSED');
  expect(await there()).toBe('ECONNREFUSED');

  const rules = 'rulesets/phases/http_custom_errors/entrypoint';
  const rule = { expression: 'error_code in {522}', content: 'by a rule', content_type: 'text/plain' };
  await change(one, 'PUT', rules, JSON.stringify({ rules: [rule] }));
  await expect.poll(() => edgeError(other), soon).toBe('by a rule');
  await change(other, 'DELETE', rules);
  await expect.poll(() => edgeError(one), soon).toContain('"error_code":522');
  const html = '<html><body>A PAGE ::RAY_ID::</body></html>';
  await change(one, 'PUT', 'custom_pages/error_page', JSON.stringify({ html }));
  await expect.poll(() => edgeError(other), soon).toContain('A PAGE');
  await change(other, 'DELETE', 'custom_pages/error_page');
  await expect.poll(() => edgeError(one), soon).toContain('"error_code":522');
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
