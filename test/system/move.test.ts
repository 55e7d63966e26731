// Moving a data folder from SQLite to PostgreSQL: everything arrives, and whatever comes between, nothing is there twice.

import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  closeSync,
  cpSync,
  existsSync,
  mkdtempSync,
  openSync,
  rmSync,
  statfsSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { tableMigrations } from '../../src/app/wiring/table-versions.ts';
import { openPostgres } from '../../src/base/database/postgres-database.ts';
import { openSqliteFile } from '../../src/base/database/sqlite-file.ts';
import { DamagedRows, type MoveRequest, moveData, undoMove } from '../../src/spool/move/move-data.ts';
import { derivedTables, movedTables, moveMigrations } from '../../src/spool/move/moved-tables.ts';
import { noDamage } from '../../src/spool/move/source-file.ts';
import { EndUnknown } from '../../src/spool/move/target-database.ts';
import { PostgresSpool } from '../../src/spool/postgres/postgres-spool.ts';
import type { Spool } from '../../src/spool/spool.ts';
import { claimAny } from '../support/claim-any.ts';
import {
  entryOfNow,
  type FilledQueue,
  fillOtherTables,
  fillQueue,
  type MovedSource,
  makeSource,
  openSourceSpool,
} from '../support/moved-source.ts';
import { type PostgresServer, startPostgres } from '../support/postgres.ts';
import { scratchFolder } from '../support/scratch.ts';
import { countsOf } from '../support/spool-counts.ts';
import { requirePrograms } from './programs.ts';

let server: PostgresServer;
/** A folder with a filled queue, which the tests copy. */
const pattern = mkdtempSync(join(tmpdir(), 'postern-pattern-'));
let queue: FilledQueue;
beforeAll(async () => {
  requirePrograms('runuser', 'pg_ctlcluster');
  [server, queue] = await Promise.all([startPostgres(), fillQueue(makeSource(pattern))]);
});
afterAll(async () => {
  await server?.remove();
  rmSync(pattern, { recursive: true, force: true });
});

/** A source of the test's own with the messages of `queue`. */
function filledSource(): MovedSource {
  const folder = scratchFolder();
  cpSync(pattern, folder, { recursive: true });
  return { file: join(folder, 'postern.db'), bodiesFolder: join(folder, 'bodies') };
}

function requestOf(source: MovedSource, url: string, changes: Partial<MoveRequest> = {}): MoveRequest {
  return {
    ...{ ...source, url, shown: 'db.test/postern', migrations: tableMigrations, leaveDamaged: false },
    ...{ signal: new AbortController().signal, progress: () => undefined },
    ...changes,
  };
}

/** A question beside the move. */
async function beside(url: string): Promise<pg.Client> {
  const client = new pg.Client(url);
  // A server that is stopped breaks the connection off.
  client.on('error', () => undefined);
  await client.connect();
  onTestFinished(() => client.end().catch(() => undefined));
  return client;
}

/** Makes the tables of a gateway in a new schema. */
async function targetWithTables(): Promise<string> {
  const url = await server.createSchema();
  const database = await openPostgres({ url });
  for (const one of tableMigrations.postgres) await database.migrate(one);
  await database.close();
  return url;
}

async function rowsOf(url: string): Promise<number> {
  const client = await beside(url);
  let rows = 0;
  for (const { name } of movedTables) {
    const found = await client.query<{ rows: string }>(`SELECT count(*) AS rows FROM "${name}"`);
    rows += Number(found.rows[0]?.rows);
  }
  return rows;
}

/** Has a table of the target wait whenever something is written to it. */
async function slow(url: string, table: string, seconds: number, isAtCommit = false): Promise<void> {
  const client = await beside(url);
  const when = isAtCommit
    ? `CREATE CONSTRAINT TRIGGER waits AFTER INSERT ON ${table} DEFERRABLE INITIALLY DEFERRED FOR EACH ROW`
    : `CREATE TRIGGER waits BEFORE INSERT ON ${table} FOR EACH STATEMENT`;
  await client.query(`CREATE FUNCTION wait_here() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_sleep(${seconds}); RETURN NEW; END $$; ${when} EXECUTE FUNCTION wait_here()`);
}

/** Waits until a move waits in the trigger of `slow`. */
async function untilSlow(url: string): Promise<void> {
  const client = await beside(url);
  const asked = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'postern migrate' AND wait_event = 'PgSleep'";
  await expect.poll(async () => (await client.query(asked)).rowCount, { timeout: 20_000 }).toBe(1);
}

/** What both engines tell of a queue. */
async function told(spool: Spool) {
  const { items } = await spool.list({ limit: 100 });
  const { events } = await spool.events.read({ after: 0, limit: 1000 });
  const loaded = await Promise.all(items.map(({ entry }) => spool.load(entry.id)));
  const [key, threads] = [await spool.usedKey('dev', 'key-1'), await spool.replacedIds('dev', ['<mine@client.test>'])];
  const reports = await spool.reportsDue({ now: Date.now() + 86_400_000, limit: 10 });
  const search = await spool.events.search({ account: 'dev', order: 'oldest', limit: 50, recipient: 'd@example.org' });
  return {
    ...{ items, events, key, threads: [...threads], holds: await spool.holds(), tallies: await spool.tallies() },
    ...{ octets: loaded.map((one) => one && [one.head.toString('hex'), one.body.toString('hex')]), reports },
    found: search.events,
  };
}

test('everything arrives: the queue with its holds, bodies, events, reports, keys and threads', async () => {
  const source = makeSource(scratchFolder());
  // The clock of the machine was set some time ago, so that stored times are not wall times.
  const database = new DatabaseSync(source.file);
  database.exec('INSERT OR REPLACE INTO spool_clock VALUES (1, 5000000, 0)');
  database.close();
  const { fresh, large, partly, held } = await fillQueue(source);
  const before = await openSourceSpool(source);
  const wanted = await told(before);
  await before.close();
  const url = await server.createSchema();
  const moved = await moveData(requestOf(source, url));
  expect(moved).toMatchObject({ left: noDamage, wasDone: false });
  expect(moved.rows.get('spool_messages')).toBe(6);

  const spool = await PostgresSpool.open({ url });
  onTestFinished(() => spool.close());
  expect(await told(spool)).toEqual(wanted);
  expect(wanted.items.map(({ recipients }) => recipients.map(({ state }) => state))).toHaveLength(6);
  // What waits is claimed in its line, what is held is not; a new event has the next id.
  const now = Date.now() + 1000;
  const claim = { now, limit: 10, transport: 'out#1', claimUntil: now + 60_000 };
  const due = (await claimAny(spool, claim)).map(({ entry }) => entry.id);
  expect(due.toSorted()).toEqual([fresh.id, large.id, partly.id].toSorted());
  const newest = await spool.events.newest();
  await spool.add(entryOfNow(), now);
  expect(await spool.events.newest()).toBe(newest + 1);
  // The numbers that the server gives go on behind those of before.
  await spool.addHold({ kind: 'account', value: 'third', at: now, by: 'ops', why: '' });
  expect((await spool.holds()).map(({ id }) => id)).toEqual([1, 2, 3]);
  expect(await spool.liftHold({ kind: 'message', value: held.id })).toBe(true);
});

test('every column of every other table arrives as it was', async () => {
  const source = makeSource(scratchFolder());
  fillOtherTables(source);
  const database = new DatabaseSync(source.file, { readOnly: true });
  const plain = movedTables.filter((table) => Object.keys(table).length === 1).map(({ name }) => name);
  const shown = (value: null | number | bigint | string | Uint8Array): string =>
    typeof value === 'bigint'
      ? value.toString()
      : value instanceof Uint8Array
        ? Buffer.from(value).toString('hex')
        : String(value);
  const read = new Map<string, string[]>();
  for (const name of [...plain, 'webhooks']) {
    const statement = database.prepare(`SELECT * FROM "${name}"`);
    statement.setReadBigInts(true);
    const rows = statement
      .all()
      .map((row) => ({ ...row, ...(name === 'webhooks' ? { lease_holder: null, lease_until: 0 } : {}) }));
    read.set(
      name,
      rows
        .map((row) =>
          Object.entries(row)
            .map(([column, value]) => `${column}=${shown(value)}`)
            .toSorted()
            .join(),
        )
        .toSorted(),
    );
    if (!name.startsWith('spool_')) expect(rows, name).not.toEqual([]);
  }
  database.close();
  const url = await server.createSchema();
  await moveData(requestOf(source, url));
  const client = await beside(url);
  for (const [name, wanted] of read) {
    const { rows } = await client.query<Record<string, null | number | string>>(`SELECT * FROM "${name}"`);
    const got = rows.map((row) =>
      Object.entries(row)
        .map(([column, value]) => `${column}=${shown(value)}`)
        .toSorted()
        .join(),
    );
    expect(got.toSorted(), name).toEqual(wanted);
  }
  expect((await client.query('SELECT revision FROM proxy_revision')).rows).toEqual([{ revision: '41' }]);
  const next =
    "INSERT INTO webhook_deliveries (webhook, event, kind, attempt, at, duration_ms, result) VALUES ('w', 1, 'k', 1, 1, 1, 'r') RETURNING id";
  expect((await client.query(next)).rows).toEqual([{ id: '3' }]);
  expect(derivedTables.length).toBeGreaterThan(0);
});

test('a file that was moved opens nowhere, until the move is taken back', async () => {
  const source = filledSource();
  const url = await server.createSchema();
  await moveData(requestOf(source, url));
  await expect(openSourceSpool(source)).rejects.toThrow(/was moved to db\.test\/postern.*database\.url.*--undo/);
  await expect(moveData(requestOf(source, await server.createSchema()))).rejects.toThrow(
    'was moved to db.test/postern already: name that in database.url',
  );
  // A release that knows nothing of moves takes the tables for those of a later release.
  const database = new DatabaseSync(source.file);
  const version = database.prepare("SELECT version FROM migrations WHERE owner = 'spool'").get();
  expect(Number(version?.['version'])).toBeGreaterThan(1000);
  database.close();
  expect(undoMove(source.file)).toMatchObject({ target: 'db.test/postern', isDone: true });
  const spool = await openSourceSpool(source);
  expect(await countsOf(spool)).toEqual({ queued: 5, failed: 1 });
  await spool.close();
});

describe('nothing is moved, and both sides stay as they were,', () => {
  async function refused(source: MovedSource, url: string, changes: Partial<MoveRequest> = {}): Promise<Error> {
    const error = await moveData(requestOf(source, url, changes)).then(
      () => new Error('it was moved'),
      (thrown: unknown) => (thrown instanceof Error ? thrown : new Error(String(thrown))),
    );
    const database = openSqliteFile(source.file);
    database.close();
    return error;
  }

  test('while a gateway or a command works on the file', async () => {
    const [source, other] = [makeSource(scratchFolder()), makeSource(scratchFolder())];
    const spool = await openSourceSpool(source);
    await spool.recover();
    await spool.add(entryOfNow(), 0);
    const command = openSqliteFile(other.file);
    // Each waits some seconds for the other program's end.
    const url = await server.createSchema();
    const errors = await Promise.all([refused(source, url), refused(other, url)]);
    expect(errors.map(({ message }) => message)).toEqual([
      expect.stringContaining('A gateway works on'),
      expect.stringContaining('Another command has'),
    ]);
    await spool.close();
    command.close();
  });

  test('where the target has something, is of another program, or of a later release', async () => {
    const source = filledSource();
    const used = await targetWithTables();
    await (await beside(used)).query("INSERT INTO suppressions VALUES ('a', 'i', 'x@y.test', 'manual', NULL, 1, NULL)");
    expect((await refused(source, used)).message).toMatch(/not empty.*suppressions/);
    const foreign = await server.createSchema();
    await (await beside(foreign)).query(
      'CREATE TABLE migrations (id INT, name TEXT); CREATE TABLE "my ""users" (id INT)',
    );
    expect((await refused(source, foreign)).message).toMatch(/tables of another program \(migrations, my "users\)/);
    const later = await targetWithTables();
    await (await beside(later)).query("UPDATE migrations SET version = 99 WHERE owner = 'spool'");
    expect((await refused(source, later)).message).toContain('"spool" tables are of version 99');
    expect(await rowsOf(later)).toBe(0);
    const gone = 'postgres://nobody@127.0.0.1:1/none';
    expect((await refused(source, gone)).message).toContain('ECONNREFUSED');
  });

  test('where the source is of a later release, or has tables that nobody knows', async () => {
    const source = makeSource(scratchFolder());
    const url = await targetWithTables();
    const database = new DatabaseSync(source.file);
    database.exec('CREATE TABLE from_elsewhere (x)');
    database.close();
    expect((await refused(source, url)).message).toContain('from_elsewhere');
    const again = new DatabaseSync(source.file);
    again.exec("DROP TABLE from_elsewhere; UPDATE migrations SET version = 98 WHERE owner = 'webhooks'");
    again.close();
    expect((await refused(source, url)).message).toContain('"webhooks" tables are of version 98');
  });

  test('where a body is missing or cut, unless the message may be left behind', async () => {
    const source = filledSource();
    const { large, fresh } = queue;
    const other = await openSourceSpool(source);
    const cut = entryOfNow({ body: Buffer.alloc(300_000, 'x') });
    await other.add(cut, 0);
    await other.close();
    rmSync(join(source.bodiesFolder, large.id));
    truncateSync(join(source.bodiesFolder, cut.id), 5);
    const url = await targetWithTables();
    const error = await refused(source, url);
    expect(error).toBeInstanceOf(DamagedRows);
    expect(error instanceof DamagedRows && [...error.damaged.messages.keys()].toSorted()).toEqual(
      [large.id, cut.id].toSorted(),
    );
    expect(await rowsOf(url)).toBe(0);
    const moved = await moveData(requestOf(source, url, { leaveDamaged: true }));
    expect([...moved.left.messages.keys()].toSorted()).toEqual([large.id, cut.id].toSorted());
    const spool = await PostgresSpool.open({ url });
    onTestFinished(() => spool.close());
    expect(await spool.show(large.id)).toBeUndefined();
    expect((await spool.load(fresh.id))?.body).toEqual(fresh.body);
    expect(await countsOf(spool)).toEqual({ queued: 4, failed: 1 });
  });

  test('where pages of the file are damaged', async () => {
    const source = makeSource(scratchFolder());
    const spool = await openSourceSpool(source);
    await Promise.all(Array.from({ length: 300 }, () => spool.add(entryOfNow({ body: Buffer.alloc(4000, 'x') }), 0)));
    await spool.close();
    const handle = openSync(source.file, 'r+');
    const page = Buffer.alloc(4096, 0xff);
    for (let at = Math.floor(statSync(source.file).size / 8192) * 4096; at < statSync(source.file).size; at += 4096)
      writeSync(handle, page, 0, 4096, at);
    closeSync(handle);
    const url = await targetWithTables();
    const error = await moveData(requestOf(source, url)).catch((thrown: unknown) => thrown);
    expect(String(error)).toMatch(/damaged|malformed/);
    expect(await rowsOf(url)).toBe(0);
  });

  test('where the command is interrupted, or the target goes away, in the middle', async () => {
    const source = filledSource();
    const url = await targetWithTables();
    await slow(url, 'mail_events', 60);
    const interrupt = new AbortController();
    const interrupted = refused(source, url, { signal: interrupt.signal });
    await untilSlow(url);
    expect((await refused(filledSource(), url)).message).toContain('wait for its end, and run this again');
    interrupt.abort();
    expect(await interrupted).toBeInstanceOf(Error);
    const lost = refused(source, url);
    await untilSlow(url);
    const client = new pg.Client(url);
    await client.connect();
    await client.query(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'postern migrate'",
    );
    expect((await lost).message).toContain('The database cannot be used now');
    await client.query('DROP TRIGGER waits ON mail_events');
    await client.end();
    expect(await rowsOf(url)).toBe(0);
    expect((await moveData(requestOf(source, url))).rows.get('spool_messages')).toBe(6);
    expect(existsSync(source.file)).toBe(true);
  });
});

test('a full disk of the target leaves both sides as they were', async () => {
  const source = makeSource(scratchFolder());
  const spool = await openSourceSpool(source);
  await Promise.all(Array.from({ length: 12 }, () => spool.add(entryOfNow({ body: randomBytes(1024 * 1024) }), 0)));
  await spool.close();
  const small = mkdtempSync(join(tmpdir(), 'postern-small-'));
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=10m', 'tmpfs', small]);
  execFileSync('chown', ['postgres:postgres', small]);
  const database = await server.createDatabase();
  const client = new pg.Client(database);
  await client.connect();
  try {
    await client.query(`CREATE TABLESPACE small LOCATION '${small}'`);
    await client.query('CREATE SCHEMA moved');
    const url = `${database}&options=${encodeURIComponent('-c default_tablespace=small -c search_path=moved')}`;
    await expect(moveData(requestOf(source, url))).rejects.toThrow(/No space left on device/);
    expect((await client.query('SELECT count(*) AS rows FROM moved.spool_messages')).rows).toEqual([{ rows: '0' }]);
    const again = await openSourceSpool(source);
    expect(await countsOf(again)).toEqual({ queued: 12, failed: 0 });
    await again.close();
  } finally {
    await client.query('DROP SCHEMA IF EXISTS moved CASCADE');
    await client.query('DROP TABLESPACE IF EXISTS small');
    await client.end();
    execFileSync('umount', ['--lazy', small]);
    rmSync(small, { recursive: true, force: true });
  }
});

test('a full disk of the source: nothing is moved, or at the very end the next run finds out', {
  timeout: 60_000,
}, async () => {
  const small = mkdtempSync(join(tmpdir(), 'postern-small-'));
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=20m', 'tmpfs', small]);
  const fill = (): void => {
    const room = statfsSync(small);
    writeFileSync(join(small, 'other'), Buffer.alloc(room.bavail * room.bsize));
  };
  try {
    cpSync(pattern, small, { recursive: true });
    const source = { file: join(small, 'postern.db'), bodiesFolder: join(small, 'bodies') };
    const url = await targetWithTables();
    const progress = ({ step }: { readonly step: string }): void => {
      if (step === 'Keeping everything') fill();
    };
    await expect(moveData(requestOf(source, url, { progress }))).rejects.toThrow('database or disk is full');
    expect(await rowsOf(url)).toBe(0);
    rmSync(join(small, 'other'));
    const spool = await openSourceSpool(source);
    expect(await countsOf(spool)).toEqual({ queued: 5, failed: 1 });
    await spool.close();

    const database = await openPostgres({ url });
    await database.migrate(moveMigrations);
    await database.close();
    await slow(url, 'moved_here', 3, true);
    const ended = moveData(requestOf(source, url)).catch((thrown: unknown) => thrown);
    await untilSlow(url);
    fill();
    expect(await ended).toBeInstanceOf(EndUnknown);
    rmSync(join(small, 'other'));
    await expect(openSourceSpool(source)).rejects.toThrow('its end is not known');
    expect((await moveData(requestOf(source, url))).wasDone).toBe(true);
  } finally {
    execFileSync('umount', ['--lazy', small]);
    rmSync(small, { recursive: true, force: true });
  }
});

describe('a target that goes away at the very end', () => {
  test('has kept everything, or nothing, and the move knows which', { timeout: 60_000 }, async () => {
    const source = filledSource();
    const url = await targetWithTables();
    const database = await openPostgres({ url });
    await database.migrate(moveMigrations);
    await database.close();
    await slow(url, 'moved_here', 60, true);
    const lost = expect(moveData(requestOf(source, url))).rejects.toThrow(EndUnknown);
    await untilSlow(url);
    await server.stop('immediate');
    await lost;
    await expect(openSourceSpool(source)).rejects.toThrow('its end is not known');
    await server.start();
    expect(await rowsOf(url)).toBe(0);
    await (await beside(url)).query('DROP TRIGGER waits ON moved_here');
    expect((await moveData(requestOf(source, url))).wasDone).toBe(false);
  });
});
