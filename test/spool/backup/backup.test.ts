// Backups of a spool that goes on working, and what becomes of them when they are damaged, in the way, or restored.

import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, onTestFinished, test } from 'vitest';
import { tableVersions } from '../../../src/app/wiring/table-versions.ts';
import { type Progress, restoreBackup } from '../../../src/spool/backup/backup-file.ts';
import { takeBackup } from '../../../src/spool/backup/take-backup.ts';
import type { SpoolEntry } from '../../../src/spool/spool.ts';
import { SqliteSpool } from '../../../src/spool/sqlite/sqlite-spool.ts';
import { scratchFolder } from '../../support/scratch.ts';
import { someTime, spoolEntry } from '../../support/spool-entry.ts';

const lease = someTime + 3_600_000;
const quiet: Progress = () => undefined;

interface DataFolder {
  readonly folder: string;
  readonly database: string;
  readonly bodiesFolder: string;
}

function dataFolder(): DataFolder {
  const folder = scratchFolder();
  return { folder, database: join(folder, 'postern.db'), bodiesFolder: join(folder, 'bodies') };
}

async function spoolIn({ database }: DataFolder): Promise<SqliteSpool> {
  const spool = await SqliteSpool.open({ file: database });
  onTestFinished(() => spool.close());
  return spool;
}

/** A message whose body is a file: over 256 KiB, and of several parts in a backup. */
function large(at: number): SpoolEntry {
  return spoolEntry({ body: Buffer.alloc(1_300_000 + at, `${at} `) });
}

const backUp = (data: DataFolder, target: string, more: { force?: boolean; progress?: Progress } = {}) =>
  takeBackup({ ...data, target, force: more.force ?? false, now: someTime, progress: more.progress ?? quiet });

const putBack = (file: string, data: DataFolder, force = false) =>
  restoreBackup({ ...data, file, force, versions: tableVersions, progress: quiet });

/** What a spool has, octets and all, by id. */
async function contents(spool: SqliteSpool): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for (const { entry } of (await spool.list({ limit: 10_000 })).items) {
    const octets = await spool.load(entry.id);
    if (octets) found.set(entry.id, Buffer.concat([octets.head, octets.body]).toString('latin1'));
  }
  return found;
}

const textOf = ({ head, body }: SpoolEntry): string => Buffer.concat([head, body]).toString('latin1');

/** A backup of one small and two large messages, and the messages. */
async function smallBackup(): Promise<{ data: DataFolder; file: string; entries: readonly SpoolEntry[] }> {
  const data = dataFolder();
  const spool = await SqliteSpool.open({ file: data.database });
  const entries = [spoolEntry(), large(1), large(2)];
  for (const entry of entries) await spool.add(entry, lease);
  await spool.close();
  const file = join(scratchFolder(), 'backup.db');
  await backUp(data, file);
  return { data, file, entries };
}

test('what was there when it began is restored whole, though messages come and go meanwhile', async () => {
  const data = dataFolder();
  const spool = await spoolIn(data);
  const before = [
    ...Array.from({ length: 40 }, (_, at) => large(at)),
    ...Array.from({ length: 40 }, () => spoolEntry()),
  ];
  for (const entry of before) await spool.add(entry, lease);

  const flowing = new AbortController();
  const dropped = new Set<string>();
  const flow = (async () => {
    for (let at = 0; !flowing.signal.aborted; at += 1) {
      await spool.add(at % 3 === 0 ? large(at) : spoolEntry(), lease);
      // From the end: those whose bodies are copied last are gone by then.
      const gone = before.at(at % 2 === 0 ? 39 - at : 79 - at);
      if (at < 20 && gone && (await spool.drop(gone.id))) dropped.add(gone.id);
    }
  })();
  const file = join(scratchFolder(), 'backup.db');
  const made = await backUp(data, file);
  flowing.abort();
  await flow;
  expect(made.damaged).toEqual([]);
  expect(statSync(file)).toMatchObject({ size: made.octets });
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(readdirSync(join(file, '..'))).toEqual(['backup.db']);

  const elsewhere = dataFolder();
  expect(putBack(file, elsewhere)).toEqual({ messages: made.messages, bodies: made.bodies });
  const restored = await spoolIn(elsewhere);
  await restored.recover();
  const found = await contents(restored);
  expect(found.size).toBe(made.messages);
  for (const entry of before.filter(({ id }) => !dropped.has(id))) expect(found.get(entry.id)).toBe(textOf(entry));
  const { messages } = (await restored.tallies())[0] ?? {};
  expect(messages).toEqual({ queued: made.messages, failed: 0 });
  expect(readdirSync(elsewhere.bodiesFolder)).toHaveLength(made.bodies);
}, 60_000);

test('a message whose body is gone because it was delivered meanwhile is left out; one that lost it is told', async () => {
  const data = dataFolder();
  const spool = await spoolIn(data);
  const [kept, delivered, damaged] = [large(1), large(2), large(3)];
  for (const entry of [kept, delivered, damaged]) await spool.add(entry, lease);
  // Before all others by its id, as the first one is by its number.
  const others = spoolEntry({ account: 'other', id: '00000000-0000-7000-8000-000000000001' });
  await spool.add(others, lease);
  // All are due again, so that their recipients have rows.
  await spool.turns({ transport: 'none', now: lease + 1, limit: 1 });
  const second = new DatabaseSync(data.database);
  onTestFinished(() => second.close());
  let isDelivered = false;
  const deliver: Progress = (step) => {
    if (step !== 'Copying bodies' || isDelivered) return;
    isDelivered = true;
    second.exec(
      `DELETE FROM spool_recipients WHERE message = (SELECT seq FROM spool_messages WHERE id = '${delivered.id}')`,
    );
    second.exec(`DELETE FROM spool_messages WHERE id = '${delivered.id}'`);
    rmSync(join(data.bodiesFolder, delivered.id));
    truncateSync(join(data.bodiesFolder, damaged.id), 1000);
  };
  const file = join(scratchFolder(), 'backup.db');
  const made = await backUp(data, file, { progress: deliver });
  expect(made).toMatchObject({ messages: 2, bodies: 1, damaged: [damaged.id] });

  const elsewhere = dataFolder();
  putBack(file, elsewhere);
  const restored = await spoolIn(elsewhere);
  await restored.recover();
  expect([...(await contents(restored)).keys()]).toContain(kept.id);
  for (const { id, recipients } of [kept, others]) {
    const there = (await restored.show(id))?.recipients.map(({ address }) => address);
    expect(there).toEqual(recipients);
  }
  expect((await restored.tallies()).map(({ account, messages }) => [account, messages.queued])).toEqual([
    ['dev', 1],
    ['other', 1],
  ]);
});

test('it overwrites nothing without force, never what it is made of, and leaves nothing behind when it fails', async () => {
  const { data, file } = await smallBackup();
  const first = readFileSync(file);
  await expect(backUp(data, file)).rejects.toThrow(`There is a file already: "${file}"; --force replaces it`);
  expect(readFileSync(file).equals(first)).toBe(true);
  await backUp(data, file, { force: true });
  expect(readdirSync(join(file, '..'))).toEqual(['backup.db']);

  // Another one that is taken meanwhile.
  const late = join(scratchFolder(), 'late.db');
  const taken = backUp(data, late, { progress: () => writeFileSync(late, 'another') });
  await expect(taken).rejects.toThrow(`There is a file already: "${late}"`);
  expect(readFileSync(late, 'utf8')).toBe('another');

  for (const own of [data.database, `${data.database}-spool.lock`, join(data.bodiesFolder, 'x')])
    await expect(backUp(data, own, { force: true })).rejects.toThrow('is one of the files that a backup is made of');
  await expect(backUp(data, join(data.folder, 'no/such/folder.db'))).rejects.toThrow('Cannot write the backup');
  const empty = dataFolder();
  await expect(backUp(empty, file, { force: true })).rejects.toThrow(`There is no database "${empty.database}"`);
});

test('it names the database where that is damaged, and leaves nothing behind', async () => {
  const { data } = await smallBackup();
  writeFileSync(data.database, readFileSync(data.database).fill(0xa5, 8192));
  const folder = scratchFolder();
  const failing = backUp(data, join(folder, 'backup.db'));
  await expect(failing).rejects.toThrow(`"${data.database}": database disk image is malformed: stop Postern, look at`);
  expect(readdirSync(folder)).toEqual([]);
});

test('it never takes the place of what is no file, and a restore waits for no pipe', async () => {
  const { data } = await smallBackup();
  const folder = scratchFolder();
  const [pipe, link, plain] = [join(folder, 'pipe'), join(folder, 'link'), join(folder, 'plain')];
  expect(spawnSync('mkfifo', [pipe]).status).toBe(0);
  for (const place of [pipe, folder])
    await expect(backUp(data, place, { force: true })).rejects.toThrow(`"${place}" is neither a file nor free`);
  expect(lstatSync(pipe).isFIFO()).toBe(true);
  const absent = join(folder, 'absent.db');
  expect(() => putBack(absent, dataFolder())).toThrow(`"${absent}" does not exist`);
  for (const place of [pipe, folder]) expect(() => putBack(place, dataFolder())).toThrow(`"${place}" is no file`);

  // Of a link the name is replaced, not what it leads to; one that leads nowhere is there, too.
  symlinkSync(plain, link);
  await expect(backUp(data, link)).rejects.toThrow(`There is a file already: "${link}"; --force replaces it`);
  await backUp(data, link, { force: true });
  expect(lstatSync(link).isFile()).toBe(true);
  expect(existsSync(plain)).toBe(false);
});

test('what is restored is private, though the backup was made readable; a database out of reach is not told as none', async () => {
  const { file, data } = await smallBackup();
  chmodSync(file, 0o644);
  const elsewhere = dataFolder();
  putBack(file, elsewhere);
  expect(statSync(elsewhere.database).mode & 0o777).toBe(0o600);

  // The superuser may read everything, so a link that leads to itself stands for a folder that may not be read.
  const folder = scratchFolder();
  symlinkSync('loop', join(folder, 'loop'));
  const unreachable = { ...data, database: join(folder, 'loop', 'postern.db') };
  await expect(backUp(unreachable, join(folder, 'b.db'))).rejects.toThrow(/ELOOP/);
});

test('a restore refuses what is no backup, and every backup that is cut short or changed', async () => {
  const { file, data } = await smallBackup();
  const whole = readFileSync(file);
  const elsewhere = dataFolder();
  const restoring = (octets: Uint8Array): (() => unknown) => {
    const changed = join(scratchFolder(), 'changed.db');
    writeFileSync(changed, octets);
    return () => putBack(changed, elsewhere);
  };
  expect(restoring(Buffer.from('From: a@example.com\r\n\r\n'))).toThrow('is no backup of Postern');
  expect(restoring(Buffer.alloc(0))).toThrow('is a database, but no backup of Postern');
  for (const part of [0.001, 0.25, 0.5, 0.75, 0.999, 1 - 1 / whole.length])
    expect(restoring(whole.subarray(0, Math.floor(whole.length * part)))).toThrow(
      /is no backup of Postern, or not whole: (database disk image is malformed|file is not a database)|is cut short: it has/,
    );
  expect(() => putBack(data.database, elsewhere)).toThrow('is a database, but no backup of Postern');
  const flipped = Buffer.from(whole);
  const inBody = whole.indexOf('1 1 1 1 1 1 1 1 ', Math.floor(whole.length / 3));
  flipped[inBody] = 0x32;
  expect(restoring(flipped)).toThrow(/is damaged: the body of message .* is not as it was written/);
  const torn = Buffer.from(whole);
  torn.fill(0xff, 4096, 8192);
  expect(restoring(torn)).toThrow(/is damaged|is no backup of Postern, or not whole/);
  expect(existsSync(elsewhere.database)).toBe(false);
});

test('a restore refuses a backup of a later release, whichever tables are newer, and leaves the folder as it is', async () => {
  for (const change of [
    "UPDATE migrations SET version = version + 1 WHERE owner = 'spool'",
    "UPDATE migrations SET version = version + 1 WHERE owner = 'events'",
    "INSERT INTO migrations VALUES ('something-to-come', 1)",
  ]) {
    const { file } = await smallBackup();
    const backup = new DatabaseSync(file);
    backup.exec(change);
    backup.close();
    const elsewhere = dataFolder();
    expect(() => putBack(file, elsewhere, true)).toThrow(
      /is of a release after this program's: its "[a-z-]+" tables are/,
    );
    expect(existsSync(elsewhere.database)).toBe(false);
  }
});

test('a restore refuses a folder that a server holds, or that has something, and with force replaces it', async () => {
  const { file, entries } = await smallBackup();
  const elsewhere = dataFolder();
  const spool = await SqliteSpool.open({ file: elsewhere.database });
  await spool.recover();
  expect(() => putBack(file, elsewhere, true)).toThrow(`A server works on "${elsewhere.folder}": stop it first`);
  const own = large(7);
  await spool.add(own, lease);
  await spool.close();
  expect(() => putBack(file, elsewhere)).toThrow(`"${elsewhere.database}" has 1 message; --force replaces it`);

  expect(putBack(file, elsewhere, true)).toEqual({ messages: 3, bodies: 2 });
  const restored = await spoolIn(elsewhere);
  await restored.recover();
  expect([...(await contents(restored)).keys()].toSorted()).toEqual(entries.map(({ id }) => id).toSorted());
  // The next start has removed the body of the message that was replaced.
  expect(readdirSync(elsewhere.bodiesFolder)).toHaveLength(2);

  const used = dataFolder();
  const database = new DatabaseSync(used.database);
  database.exec('CREATE TABLE tokens (id TEXT); INSERT INTO tokens VALUES (1)');
  database.close();
  expect(() => putBack(file, used)).toThrow('has no mail, but rows in tokens; --force');
  const broken = dataFolder();
  mkdirSync(broken.folder, { recursive: true });
  writeFileSync(broken.database, 'x'.repeat(5000));
  expect(() => putBack(file, broken)).toThrow('has a database that cannot be read');
  expect(putBack(file, broken, true)).toEqual({ messages: 3, bodies: 2 });
});
