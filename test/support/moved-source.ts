// A SQLite database with something in every table, for tests that move it.

import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { tableMigrations } from '../../src/app/wiring/table-versions.ts';
import { migrateSqlite, openSqliteFile } from '../../src/base/database/sqlite-file.ts';
import { uuidv7 } from '../../src/base/ids.ts';
import type { SpoolEntry } from '../../src/spool/spool.ts';
import { SqliteSpool } from '../../src/spool/sqlite/sqlite-spool.ts';
import { attemptOf, spoolEntry } from './spool-entry.ts';

/** Where a source is. */
export interface MovedSource {
  readonly file: string;
  readonly bodiesFolder: string;
}

/** Opens the spool of a source. */
export function openSourceSpool({ file, bodiesFolder }: MovedSource): Promise<SqliteSpool> {
  return SqliteSpool.open({ file, bodiesFolder });
}

/** Makes an empty source with all tables. */
export function makeSource(folder: string): MovedSource {
  const file = join(folder, 'postern.db');
  const database = openSqliteFile(file);
  for (const one of tableMigrations.sqlite) migrateSqlite(database, one);
  database.close();
  return { file, bodiesFolder: join(folder, 'bodies') };
}

/** A message of now. */
export function entryOfNow(changes: Partial<SpoolEntry> = {}): SpoolEntry {
  const now = Date.now();
  return spoolEntry({
    id: uuidv7(now),
    acceptedAt: now,
    expiresAt: now + 3_600_000,
    transports: ['out#1'],
    ...changes,
  });
}

/** Messages in every state. */
export interface FilledQueue {
  readonly fresh: SpoolEntry;
  readonly large: SpoolEntry;
  readonly deferred: SpoolEntry;
  readonly failed: SpoolEntry;
  readonly held: SpoolEntry;
  readonly partly: SpoolEntry;
}

/** Fills the queue: new, large, deferred, failed, held and partly delivered messages. */
export async function fillQueue(source: MovedSource): Promise<FilledQueue> {
  const spool = await openSourceSpool(source);
  const queue: FilledQueue = {
    fresh: entryOfNow({
      ...{ idempotency: { key: 'key-1', digest: 'd1' }, clientMessageId: '<mine@client.test>', keepsClientId: true },
      ...{ reports: { success: false, failure: true, delay: true }, senderPath: 'alice@example.com' },
      dsn: { ret: 'FULL', envid: 'envelope-1', recipients: new Map([['bob@example.org', { notify: 'SUCCESS' }]]) },
    }),
    large: entryOfNow({ body: Buffer.alloc(3 * 1024 * 1024 + 17, 'large\r\n'), recipients: ['l@example.org'] }),
    deferred: entryOfNow({ recipients: ['d@example.org'] }),
    failed: entryOfNow({ recipients: ['f@example.org'], reports: { success: false, failure: true, delay: true } }),
    held: entryOfNow({ recipients: ['h@example.org'] }),
    partly: entryOfNow({ recipients: ['p1@example.org', 'p2@example.org'], transports: ['out#1', 'out#1'] }),
  };
  for (const entry of Object.values(queue)) await spool.add(entry, 0);
  await spool.answered('dev', 'key-1', '{"ok":true}');
  const [code, text, host] = [451, 'later', 'out (hop:25)'];
  await spool.record([
    attemptOf(
      queue.deferred,
      { kind: 'deferred', reply: { code, text }, host },
      { nextAttemptAt: Date.now() + 60_000 },
    ),
    attemptOf(queue.failed, { kind: 'failed', reply: { code: 550, enhanced: '5.1.1', text: 'nobody' }, host }),
    attemptOf(queue.partly, { kind: 'delivered', reply: { code: 250, text: 'ok' }, host }),
  ]);
  await spool.addHold({ kind: 'message', value: queue.held.id, at: Date.now(), by: 'ops', why: 'looked at' });
  await spool.addHold({ kind: 'account', value: 'other', at: Date.now(), by: 'ops', why: 'asked' });
  await spool.close();
  return queue;
}

const proxy = `
  INSERT INTO proxy_hostnames VALUES ('a.zone.test', 'z1'), ('b.zone.test', 'z1');
  INSERT INTO proxy_addresses VALUES ('192.0.2.1', 'z1', 3221225985), ('2001:db8::1', 'z1', NULL);
  INSERT INTO proxy_applications (id, zone, account, hostname, sole_protocol, transport, first_port, last_port, edge, fields,
    created_at, modified_at, is_ftp)
    VALUES ('app1', 'z1', 'acc', 'a.zone.test', NULL, 'tcp', 22, 23, 'ipv4', '{"name":"ä"}', 1, 2, 0),
      ('app2', 'z1', 'acc', 'b.zone.test', 'udp/53', 'udp', 53, 53, 'ipv6', '{}', 3, 4, 1);
  INSERT INTO proxy_allocations VALUES ('z1', 1, 10, 'a.zone.test', '192.0.2.1');
  INSERT INTO proxy_bindings VALUES ('192.0.2.1', 'tcp', 22, 23, 'app1', 0, 'z1', 0), ('::', 'udp', 53, 53, 'app2', 0, NULL, 1);
  UPDATE proxy_revision SET revision = 41;`;

/** Puts two rows into every table that has none, with a value for each column that tells where it comes from. */
export function fillOtherTables({ file }: MovedSource): void {
  const database = new DatabaseSync(file);
  database.exec('PRAGMA foreign_keys = OFF');
  database.exec(proxy);
  const tables = database
    .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
    .all();
  for (const { name } of tables) {
    const table = String(name);
    if (database.prepare(`SELECT 1 FROM "${table}" LIMIT 1`).get() !== undefined || /^(?:spool_|journal)/.test(table))
      continue;
    const columns = database.prepare('SELECT name, type FROM pragma_table_info(?)').all(table);
    for (const row of columns.some((column) => column['name'] === 'one') ? [1] : [1, 2]) {
      const values = columns.map(({ name: column, type }) =>
        column === 'one'
          ? 1
          : type === 'TEXT'
            ? `${String(column)} ${row} \u{1f600}`
            : type === 'BLOB'
              ? Buffer.from([row])
              : row,
      );
      database.prepare(`INSERT INTO "${table}" VALUES (${values.map(() => '?').join(', ')})`).run(...values);
    }
  }
  // A key is a hash of 64 bits, which no number of JavaScript holds.
  database.prepare('INSERT INTO mail_event_keys VALUES (?, 7)').run(-9_223_372_036_854_775_807n);
  // Counts and keys are as a server leaves them.
  database.exec('UPDATE mail_event_state SET indexed = 1000, built = 1000');
  database.close();
}
