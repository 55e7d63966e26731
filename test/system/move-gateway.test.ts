// A gateway whose data folder is moved to PostgreSQL, as real processes: each message arrives once, whenever the move is killed.

import { type ChildProcess, spawn } from 'node:child_process';
import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { tableMigrations } from '../../src/app/wiring/table-versions.ts';
import { openPostgres } from '../../src/base/database/postgres-database.ts';
import { moveData } from '../../src/spool/move/move-data.ts';
import { moveMigrations } from '../../src/spool/move/moved-tables.ts';
import { PostgresSpool } from '../../src/spool/postgres/postgres-spool.ts';
import { deviceConfiguration } from '../support/device-config.ts';
import { FaultSink } from '../support/fault-sink.ts';
import { fillQueue, type MovedSource, makeSource, openSourceSpool } from '../support/moved-source.ts';
import { type PosternProcess, projectRoot, startPostern, testToken } from '../support/postern-process.ts';
import { type PostgresServer, startPostgres } from '../support/postgres.ts';
import { connectSmtp } from '../support/raw-smtp-client.ts';
import { type CliResult, runCli } from '../support/run-cli.ts';
import { scratchFolder } from '../support/scratch.ts';
import { countsOf } from '../support/spool-counts.ts';
import { requirePrograms } from './programs.ts';

let server: PostgresServer;
beforeAll(async () => {
  requirePrograms('runuser', 'pg_ctlcluster');
  server = await startPostgres();
});
afterAll(() => server?.remove());

const retry = { firstDelaySeconds: 1, maxDelaySeconds: 1, expireAfterSeconds: 3600 };

function configuration(sinkPort: number): object {
  const route = { name: 'sink', type: 'smarthost', url: `smtp://127.0.0.1:${sinkPort}`, tls: 'none', connections: 4 };
  return deviceConfiguration({ routes: [route], delivery: { retry } });
}

/** Sends a message to `MARK@one.test`. */
async function send(port: number, mark: string, octets = 100): Promise<void> {
  const client = await connectSmtp(port);
  await client.reply();
  await client.command('EHLO load.example.com');
  await client.command('MAIL FROM:<a@example.com>');
  await client.command(`RCPT TO:<${mark}@one.test>`);
  await client.command('DATA');
  const body = `${'x'.repeat(70)}\r\n`.repeat(Math.ceil(octets / 72));
  client.write(`From: a@example.com\r\nTo: b@partner.test\r\nSubject: moved\r\n\r\n${body}\r\n.\r\n`);
  expect((await client.reply()).code).toBe(250);
  client.close();
}

async function sendByRest(postern: PosternProcess, to: string): Promise<Response> {
  return await fetch(`http://127.0.0.1:${postern.ports['http']}/client/v4/accounts/dev/email/sending/send`, {
    method: 'POST',
    headers: { authorization: `Bearer ${testToken}`, 'content-type': 'application/json', 'idempotency-key': 'once' },
    body: JSON.stringify({ from: 'a@example.com', to, subject: 'by REST', text: 'Hello.' }),
  });
}

function sourceOf({ dataDir }: Pick<PosternProcess, 'dataDir'>): MovedSource {
  return { file: join(dataDir, 'postern.db'), bodiesFolder: join(dataDir, 'bodies') };
}

/** A gateway on SQLite, with messages that wait for a next hop that is down: some, a large one, one that is held. */
async function filledFolder(
  sinkPort: number,
): Promise<{ readonly postern: PosternProcess; readonly answer: string; readonly heldId: string }> {
  const postern = await startPostern({ config: configuration(sinkPort) });
  onTestFinished(() => rmSync(postern.folder, { recursive: true, force: true }));
  const port = postern.ports['devices'] ?? 0;
  for (let at = 0; at < 8; at += 1) await send(port, `m${at}`);
  await send(port, 'large', 700_000);
  await send(port, 'held');
  const answer = await (await sendByRest(postern, 'rest@one.test')).text();
  expect(await postern.end('SIGTERM')).toBe(0);
  expect(readdirSync(join(postern.dataDir, 'bodies'))).toHaveLength(1);
  const spool = await openSourceSpool(sourceOf(postern));
  const [item] = (await spool.list({ search: 'held@one.test', limit: 1 })).items;
  const heldId = item?.entry.id ?? '';
  await spool.addHold({ kind: 'message', value: heldId, at: Date.now(), by: 'ops', why: 'test' });
  await spool.close();
  return { postern, answer, heldId };
}

function cliOf({ env, folder }: Pick<PosternProcess, 'env' | 'folder'>): (...args: string[]) => Promise<CliResult> {
  return (...args) => runCli(args, { env, cwd: folder });
}

/** How often each mark has arrived. */
function arrivals({ messages }: FaultSink): Record<string, number> {
  const seen: Record<string, number> = {};
  for (const recipient of messages.flatMap(({ recipients }) => recipients)) {
    const mark = recipient.split('@', 1)[0] ?? '';
    seen[mark] = (seen[mark] ?? 0) + 1;
  }
  return seen;
}

const everyone = Object.fromEntries(
  ['m0', 'm1', 'm2', 'm3', 'm4', 'm5', 'm6', 'm7', 'large', 'rest'].map((mark) => [mark, 1]),
);

/** A target whose tables wait for so long when something is written to one of them. */
async function slowTarget(table: string, isAtCommit = false): Promise<string> {
  const url = await server.createSchema();
  const database = await openPostgres({ url });
  for (const one of [...tableMigrations.postgres, moveMigrations]) await database.migrate(one);
  const when = isAtCommit
    ? `CONSTRAINT TRIGGER waits AFTER INSERT ON ${table} DEFERRABLE INITIALLY DEFERRED`
    : `TRIGGER waits BEFORE INSERT ON ${table}`;
  await database.run(
    `CREATE FUNCTION wait_here() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(1); RETURN NEW; END $$`,
  );
  await database.run(`CREATE ${when} FOR EACH ROW EXECUTE FUNCTION wait_here()`);
  await database.close();
  return url;
}

async function ask(url: string, sql: string): Promise<readonly Record<string, unknown>[]> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(sql)).rows;
  } finally {
    await client.end();
  }
}

const isWaiting =
  "SELECT pid FROM pg_stat_activity WHERE application_name = 'postern migrate' AND wait_event = 'PgSleep'";
const isThere = "SELECT pid FROM pg_stat_activity WHERE application_name = 'postern migrate'";
const polling = { timeout: 20_000, interval: 50 };

/** Begins a move, and kills it where the target waits. */
async function killed({ env, folder }: Pick<PosternProcess, 'env' | 'folder'>, url: string): Promise<void> {
  const child: ChildProcess = spawn(process.execPath, [join(projectRoot, 'src/main.ts'), 'migrate', '--to', url], {
    ...{ env, cwd: folder, stdio: 'ignore' },
  });
  const ended = new Promise((done) => child.once('close', done));
  await expect.poll(async () => (await ask(url, isWaiting)).length, polling).toBe(1);
  child.kill('SIGKILL');
  await ended;
}

/** Starts a gateway on the target, and waits until everything but what is held has arrived once. */
async function deliverAll(moved: PosternProcess, url: string, sink: FaultSink): Promise<PosternProcess> {
  const postern = await startPostern({
    ...{ folder: moved.folder, config: configuration(sink.port), env: { POSTERN_DATABASE_URL: url } },
  });
  onTestFinished(async () => void (await postern.end('SIGKILL')));
  await postern.until(() => Object.keys(arrivals(sink)).length >= Object.keys(everyone).length);
  return postern;
}

/** A port where nobody listens until a sink is started there. */
async function freePort(): Promise<number> {
  const sink = await FaultSink.start();
  const { port } = sink;
  await sink.close();
  return port;
}

async function sinkAt(port: number): Promise<FaultSink> {
  const sink = await FaultSink.start({ port });
  onTestFinished(() => sink.close());
  return sink;
}

test('a move that is killed and run again: everything is sent once, from PostgreSQL alone', {
  timeout: 120_000,
}, async () => {
  const port = await freePort();
  const { postern: old, answer, heldId } = await filledFolder(port);
  const cli = cliOf(old);
  // The journal comes last: everything else is written by then.
  const url = await slowTarget('journal');
  const looked = await cli('migrate', '--to', url, '--dry-run');
  expect([looked.exitCode, looked.stdout.split('\n')[0]]).toEqual([
    0,
    expect.stringContaining('Would move 11 messages'),
  ]);
  await killed(old, url);
  await expect.poll(async () => (await ask(url, isThere)).length, polling).toBe(0);
  for (const table of ['spool_messages', 'journal'])
    expect(await ask(url, `SELECT count(*) AS rows FROM ${table}`)).toEqual([{ rows: '0' }]);
  await ask(url, 'DROP TRIGGER waits ON journal');
  // The old folder is as it was: a gateway could start there, and a move can be made again.
  const untouched = await openSourceSpool(sourceOf(old));
  expect(await countsOf(untouched)).toEqual({ queued: 11, failed: 0 });
  await untouched.close();
  const done = await cli('migrate', '--to', url);
  expect([done.exitCode, done.stderr]).toEqual([0, '']);
  expect(done.stdout).toContain('Moved 11 messages');
  expect(await ask(url, 'SELECT count(*) AS rows FROM journal')).toEqual([{ rows: '11' }]);

  const refused = await startPostern({ folder: old.folder, config: configuration(port) }).catch(String);
  expect(refused).toContain('was moved to');

  const sink = await sinkAt(port);
  const postern = await deliverAll(old, url, sink);
  // The held one leaves when it is released; an Idempotency-Key of before is still known.
  expect(await (await sendByRest(postern, 'rest@one.test')).text()).toBe(answer);
  const onTarget = await PostgresSpool.open({ url });
  expect(await onTarget.liftHold({ kind: 'message', value: heldId })).toBe(true);
  await onTarget.close();
  await postern.until(() => arrivals(sink)['held'] !== undefined);
  expect(arrivals(sink)).toEqual({ ...everyone, held: 1 });
  expect(await postern.end('SIGTERM')).toBe(0);
});

test('a move that is killed while the target commits: nothing starts on the old file, and the next run finds out', {
  timeout: 60_000,
}, async () => {
  const folder = scratchFolder();
  const source = makeSource(folder);
  const queue = Object.values(await fillQueue(source));
  const env = { POSTERN_CONFIG: join(projectRoot, 'config/postern.yaml'), POSTERN_DATA_DIR: folder };
  const cli = cliOf({ env, folder });
  const url = await slowTarget('moved_here', true);
  await killed({ env, folder }, url);
  // The server does not notice that its client is gone, and keeps everything.
  await expect(openSourceSpool(source)).rejects.toThrow('its end is not known');
  const elsewhere = { ...source, url: 'postgres://postgres@127.0.0.1:1/other', shown: '127.0.0.1:1/other' };
  const { signal } = new AbortController();
  const told = { migrations: tableMigrations, leaveDamaged: false, signal, progress: () => undefined };
  await expect(moveData({ ...elsewhere, ...told })).rejects.toThrow('name that target again');
  const done = await cli('migrate', '--to', url);
  expect([done.exitCode, done.stderr]).toEqual([0, '']);
  expect(done.stdout).toContain('complete already');
  await expect(openSourceSpool(source)).rejects.toThrow('was moved to');
  expect(await ask(url, 'SELECT count(*) AS rows FROM spool_messages')).toEqual([{ rows: `${queue.length}` }]);
});
