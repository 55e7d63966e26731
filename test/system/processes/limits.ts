// The limits by HTTP of a server of several processes: as much passes as one process would let pass, whichever process is asked.

import { once } from 'node:events';
import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import { type AddressInfo, createServer } from 'node:net';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { captureRoute, deviceConfiguration } from '../../support/device-config.ts';
import { type PosternProcess, startPostern, testToken } from '../../support/postern-process.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

/** Takes connections and says nothing. */
const origin = createServer((socket) => socket.on('error', () => undefined));
/** Requests that were begun. Those that have no answer at the end would hold up the server's drain. */
const begun: ClientRequest[] = [];
let one: PosternProcess;
beforeAll(async () => {
  await once(origin.listen(0, '127.0.0.1'), 'listening');
  one = await startPostern({ config: configuration(), startSeconds: 90 });
});
afterAll(async () => {
  for (const { socket } of begun) socket?.resetAndDestroy();
  await one?.cleanUp();
  origin.close();
});

/** Two zones that take 7 requests an hour of a client, and one whose origin never answers. */
function configuration(): object {
  const { port } = origin.address() as AddressInfo;
  const zone = { account: 'dev', origin: `http://127.0.0.1:${port}` };
  const few = { id: 'b1'.repeat(16), name: 'few.example', hostnames: ['few.example'], origin: 'http://127.0.0.1:9' };
  const others = { ...few, id: 'b3'.repeat(16), name: 'others.example', hostnames: ['others.example'] };
  const slow = { id: 'b2'.repeat(16), name: 'slow.example', hostnames: ['slow.example'] };
  const zones = [
    ...[few, others].map((one) => ({ ...zone, ...one, rateLimit: { requests: 7, perSeconds: 3600 } })),
    { ...zone, ...slow },
  ];
  const scopes = ['console:read', 'email:send'];
  const credential = { scopes, tokenEnv: 'POSTERN_TOKEN' };
  const edge = { limits: { requestsPerZone: 19 } };
  return { ...deviceConfiguration({ routes: [captureRoute], processes: 2, zones, credential }), edge };
}

/** Asks by a connection of its own. @returns the answer once its head has come, and what ends the connection */
async function ask(
  path: string,
  {
    host = '127.0.0.1',
    from = '127.0.0.1',
    ...options
  }: { host?: string; from?: string; method?: string; headers?: Record<string, string>; body?: string } = {},
): Promise<{ status: number; end: () => void }> {
  const { method = 'GET', headers = {}, body } = options;
  const at = { host: '127.0.0.1', port: one.ports['http'], localAddress: from, agent: false };
  const asked = request({ ...at, path, method, headers: { host, ...headers } });
  begun.push(asked);
  asked.on('error', () => undefined);
  asked.end(body);
  const [answer] = (await once(asked, 'response')) as [IncomingMessage];
  answer.on('error', () => undefined).resume();
  return { status: answer.statusCode ?? 0, end: () => asked.destroy() };
}

/** Asks so many times at once, and counts the answers by their status. */
async function statuses(times: number, asking: () => ReturnType<typeof ask>): Promise<Record<number, number>> {
  const answers = await Promise.all(Array.from({ length: times }, asking));
  for (const { end } of answers) end();
  const counts: Record<number, number> = {};
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}

/** Waits until no process has a request under way. */
async function untilNoneIsOpen(): Promise<void> {
  const text = async () => await (await fetch(`http://127.0.0.1:${one.ports['http']}/metrics`)).text();
  await expect.poll(text).toMatch(/^postern_edge_requests_open 0$/m);
}

test('the rate limit of a zone', async () => {
  const fromOne = () => ask('/', { host: 'few.example' });
  // The origin refuses connections (521); what is beyond the limit is 429.
  // No more at once than may be open to a zone.
  expect(await statuses(8, () => ask('/', { host: 'few.example', from: '127.0.0.2' }))).toEqual({ 521: 7, 429: 1 });
  await untilNoneIsOpen();
  expect(await statuses(11, fromOne)).toEqual({ 521: 7, 429: 4 });
  await untilNoneIsOpen();
  expect(await statuses(5, fromOne)).toEqual({ 429: 5 });
  expect(await statuses(7, () => ask('/', { host: 'others.example' }))).toEqual({ 521: 7 });
  await untilNoneIsOpen();
});

test('open requests to a zone, and their places come back', async () => {
  const open = Array.from({ length: 34 }, () => {
    const asked = request({
      host: '127.0.0.1',
      port: one.ports['http'],
      agent: false,
      headers: { host: 'slow.example' },
    });
    asked.on('error', () => undefined).end();
    return asked;
  });
  let refused = 0;
  for (const asked of open)
    asked.once('response', (answer) => {
      if (answer.statusCode === 503) refused += 1;
      answer.resume();
    });
  // Both processes together let as many through as the limit says.
  await vi.waitFor(() => expect(refused).toBe(15), { timeout: 30_000 });
  await new Promise((resolve) => setTimeout(resolve, 500));
  expect(refused).toBe(15);
  // One that only ends its side still waits for its answer (RFC 9112 §9.6).
  for (const { socket } of open) socket?.resetAndDestroy();
  // The same again: of the places of clients that have gone none is taken.
  await vi.waitFor(async () => {
    const more = await Promise.race([
      ask('/', { host: 'slow.example' }),
      new Promise<undefined>((resolve) => setTimeout(resolve, 1000, undefined)),
    ]);
    more?.end();
    expect(more).toBe(undefined);
  }, 30_000);
});

test('sign-ins, live streams, and the answers to wrong tokens that wait', async () => {
  // Answers of the first wrong tokens wait for less than those of later ones, so they are let pass first.
  const wrong = () =>
    ask('/client/v4/accounts/dev/tokens', { from: '127.0.0.3', headers: { authorization: 'Bearer x' } });
  const first = statuses(20, wrong);
  const page = { 'x-postern-console': '1', origin: `http://127.0.0.1:${one.ports['http']}` };
  const body = JSON.stringify({ token: testToken });
  const host = `127.0.0.1:${one.ports['http']}`;
  const headers = { ...page, 'content-type': 'application/json', 'content-length': String(body.length) };
  const signIn = () => ask('/console/session', { host, method: 'POST', headers, body });
  const signedIn = [await statuses(40, signIn), await statuses(30, signIn)];
  expect(signedIn).toEqual([{ 200: 40 }, { 200: 20, 429: 10 }]);
  const authorization = `Bearer ${testToken}`;
  const live = () => ask('/client/v4/accounts/dev/email/sending/live', { headers: { authorization } });
  expect(await statuses(30, live)).toEqual({ 200: 20, 429: 10 });
  await vi.waitFor(async () => expect(await statuses(1, live)).toEqual({ 200: 1 }), 20_000);
  await first;
  // Each answer waits for 8 seconds now: 8 do at the same time.
  expect(await statuses(20, wrong)).toEqual({ 401: 8, 429: 12 });
});
