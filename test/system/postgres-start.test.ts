// A gateway that starts while PostgreSQL is away says that it is not ready, tries on, and serves once the server is back; what the
// configuration has wrong ends it at once.

import { rmSync } from 'node:fs';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { FaultSink } from '../support/fault-sink.ts';
import { freePort } from '../support/free-port.ts';
import { relaySettings, Senders } from '../support/gateway-load.ts';
import { type PosternProcess, startPostern } from '../support/postern-process.ts';
import { type PostgresServer, startPostgres, urlOfAll } from '../support/postgres.ts';
import { servingPids } from '../support/server-processes.ts';
import { requirePrograms } from './programs.ts';

vi.setConfig({ testTimeout: 120_000 });

let server: PostgresServer;
let sink: FaultSink;
beforeAll(async () => {
  requirePrograms('runuser', 'pg_ctlcluster');
  server = await startPostgres();
  sink = await FaultSink.start();
});
afterAll(async () => {
  await sink?.close();
  await server?.remove();
});

interface Starting {
  readonly port: number;
  readonly postern: Promise<PosternProcess>;
  /** The status of a path; undefined where nobody answers. */
  readonly statusOf: (path: string) => Promise<number | undefined>;
}

/** Starts a gateway whose HTTP port is known before it listens. */
async function begin(url: string, env: Readonly<Record<string, string>> = {}): Promise<Starting> {
  const port = await freePort();
  const settings = relaySettings(sink, url);
  const postern = startPostern({
    config: { ...settings.config, http: { listen: `127.0.0.1:${port}` } },
    env: { ...settings.env, ...env },
    startSeconds: 60,
  });
  postern.catch(() => undefined);
  onTestFinished(async () => {
    const started = await postern.catch(() => undefined);
    await started?.end('SIGKILL');
    if (started) rmSync(started.folder, { recursive: true, force: true });
  });
  const statusOf = async (path: string): Promise<number | undefined> =>
    await fetch(`http://127.0.0.1:${port}${path}`).then(
      ({ status }) => status,
      () => undefined,
    );
  return { port, postern, statusOf };
}

const soon = { timeout: 30_000, interval: 50 };

async function takesMail(postern: PosternProcess): Promise<void> {
  const senders = new Senders('new');
  const sending = senders.run(() => postern.ports['devices']);
  await postern.until(() => senders.marks((code) => code === 250).length > 5);
  senders.stop();
  await sending;
}

test.for(['1', '2'])('with %s processes: 503 until the server is there, and then it serves', async (processes) => {
  const url = await server.createSchema();
  await server.stop('fast');
  let started: Starting;
  try {
    started = await begin(url, { POSTERN_PROCESSES: processes });
    await vi.waitFor(async () => expect(await started.statusOf('/readyz')).toBe(503), soon);
    expect(await started.statusOf('/livez')).toBe(200);
    expect(await started.statusOf('/client/v4/accounts/dev/email/sending/send')).toBe(503);
  } finally {
    await server.start();
  }
  const postern = await started.postern;
  expect(postern.log().filter(({ msg }) => msg === 'the start waits for the database')).toHaveLength(1);
  await vi.waitFor(async () => expect(await started.statusOf('/readyz')).toBe(200), soon);
  expect(processes === '1' || servingPids(postern).size === 2).toBe(true);
  await takesMail(postern);
  expect(await postern.end('SIGTERM')).toBe(0);
});

test('a signal while it waits ends it, and its port is free', async () => {
  const url = (await server.createSchema()).replace(/host=[^&]*/, 'host=%2Fnowhere');
  const port = await freePort();
  const settings = relaySettings(sink, url);
  let pid = 0;
  const config = { ...settings.config, http: { listen: `127.0.0.1:${port}` } };
  const postern = startPostern({ config, env: settings.env ?? {}, onSpawn: (given) => (pid = given) });
  const ended = postern.then(
    () => 'it listens',
    (error: unknown) => String(error),
  );
  await vi.waitFor(async () => expect((await fetch(`http://127.0.0.1:${port}/readyz`)).status).toBe(503), soon);
  process.kill(pid, 'SIGTERM');
  expect(await ended).toContain('ended with 0');
});

test.for([
  ['a database that is not there', (url: string) => url.replace('/postgres?', '/none?')],
  ['a user that is refused', (url: string) => url.replace('postgres@', 'nobody@')],
  ['an authority whose file is missing', (url: string) => `${url}&sslmode=verify-full&sslrootcert=/nowhere/ca.pem`],
  ['TLS that the server does not speak', (url: string) => `${url}&sslmode=require`],
] as const)('%s ends it at once with 78', async ([, wrong]) => {
  const url = server.url('postgres');
  const ends = [url, urlOfAll(url, [server, server])].map(async (one) => {
    const { postern } = await begin(wrong(one));
    const words = await postern.then(
      () => 'it listens',
      (error: unknown) => String(error),
    );
    expect(words).toContain('ended with 78');
    expect(words).toContain('database.url');
  });
  await Promise.all(ends);
});
