// Proxy applications of a server of several processes: one of them carries all, and whichever is asked tells how they are.

import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { captureRoute, deviceConfiguration } from '../../support/device-config.ts';
import { ask } from '../../support/http-app.ts';
import { type PosternProcess, startPostern, testToken } from '../../support/postern-process.ts';
import { servingPids } from '../../support/server-processes.ts';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const zone = 'd4'.repeat(16);
const configured = 'e5'.repeat(16);
const network = `127.${60 + (process.pid % 40)}.${(process.pid >> 6) % 256}`;
const offset = 10_000 + (process.pid % 20_000);
const origin = createServer((socket) => socket.on('error', () => undefined).end('origin\n'));
let one: PosternProcess;
beforeAll(async () => {
  await once(origin.listen(0, '127.0.0.1'), 'listening');
  const scopes = ['email:send', 'proxy:read', 'proxy:edit'];
  const config = deviceConfiguration({
    routes: [captureRoute],
    processes: 2,
    zones: [{ id: zone, name: 'example.com', account: 'dev', applications: [{ id: configured, ...written(99) }] }],
    proxy: { ipv4Pool: `${network}.0/24`, portOffset: offset },
    credential: { scopes, tokenEnv: 'POSTERN_TOKEN' },
  });
  one = await startPostern({ config, startSeconds: 90 });
});
afterAll(async () => {
  await one?.cleanUp();
  origin.close();
});

/** The body of an application at this port. */
function written(port: number): object {
  const dns = { type: 'CNAME', name: 'a.example.com' };
  return { protocol: `tcp/${port}`, dns, origin_direct: [`tcp://127.0.0.1:${(origin.address() as AddressInfo).port}`] };
}

/** Asks by a connection of its own, so that any process may answer. */
async function call(path: string, method = 'GET', body?: object): Promise<unknown> {
  const type = body === undefined ? {} : { 'Content-Type': 'application/json' };
  const answer = await ask(`http://127.0.0.1:${one.ports['http']}/client/v4${path}`, {
    method,
    headers: { Authorization: `Bearer ${testToken}`, Connection: 'close', ...type },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  expect([answer.status, answer.text]).toEqual([200, expect.any(String)]);
  return answer.json.result;
}

const apps = `/zones/${zone}/proxy/apps`;

/** The processes that have written lines of the log with this message. */
function processesOf(message: string): ReadonlySet<unknown> {
  return new Set(one.log().flatMap(({ msg, process: number }) => (msg === message ? [number] : [])));
}

interface Shown {
  readonly id: string;
  readonly dns: { readonly name: string };
  readonly status: { readonly state: string; readonly reason: string };
}

/** Asks so many times at once. */
async function many(times: number, path: string): Promise<readonly (readonly Shown[])[]> {
  return (await Promise.all(Array.from({ length: times }, () => call(path)))) as Shown[][];
}

function states(shown: readonly Shown[]): ReadonlySet<string> {
  return new Set(shown.map(({ status }) => status.state));
}

/** What the origin says to a client of the application at this port; why not, where it cannot be reached. */
async function connectTo(port: number): Promise<string> {
  const socket = connect(port + offset, `${network}.1`);
  let read = '';
  socket.setEncoding('utf8').on('data', (part: string) => (read += part));
  return await new Promise((resolve) => {
    socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? ''));
    socket.once('close', () => resolve(read));
  });
}

test('an application is active and its traffic the same, whichever process is asked', async () => {
  expect(states((await many(40, apps)).flat())).toEqual(new Set(['active']));
  expect((await many(20, `${apps}?status=active`)).map(({ length }) => length)).toEqual(Array(20).fill(1));
  expect((await many(20, `${apps}?status=pending`)).flat()).toEqual([]);
  for (let client = 0; client < 6; client += 1) expect(await connectTo(99)).toBe('origin\n');
  const carried = { counters: { connections: 6 }, listening: [`${network}.1:${99 + offset}`] };
  for (const told of await many(20, `${apps}/${configured}/traffic`))
    expect(told).toMatchObject({ ...carried, events: { length: 12 }, origins: [{ healthy: true }] });
  for (const told of await many(20, '/accounts/dev/proxy/traffic'))
    expect(told).toMatchObject([{ ...carried, state: 'active' }]);
});

test('what any process writes is carried by one alone when the answer comes', async () => {
  const made: Shown[] = [];
  for (let port = 100; port < 200 && processesOf('proxy application created').size < 2; port += 8) {
    const written8 = Array.from({ length: 8 }, (_, index) => call(apps, 'POST', written(port + index)));
    made.push(...((await Promise.all(written8)) as Shown[]));
  }
  expect(processesOf('proxy application created').size).toBe(2);
  expect(states(made)).toEqual(new Set(['active']));
  expect(processesOf('proxy application is active').size).toBe(1);
  await Promise.all(made.map(({ id }) => call(`${apps}/${id}`, 'DELETE')));
  expect(await Promise.all(made.map((_, index) => connectTo(100 + index)))).toEqual(made.map(() => 'ECONNREFUSED'));
});

test('while the process that carries them gives no answer they are pending, and active again when another has them', async () => {
  const [carrier] = processesOf('proxy application is active');
  const pid = servingPids(one).get(Number(carrier)) ?? 0;
  process.kill(pid, 'SIGSTOP');
  const [shown] = await many(1, apps);
  expect(shown).toMatchObject([
    { status: { state: 'pending', reason: 'the process that carries it has given no answer' } },
  ]);
  process.kill(pid, 'SIGKILL');
  await expect
    .poll(async () => states((await many(10, apps)).flat()), { timeout: 20_000 })
    .toEqual(new Set(['active']));
  expect(await connectTo(99)).toBe('origin\n');
});
