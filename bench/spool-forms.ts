// What keeping a message costs in three forms, on one thread: the spool's SQLite as it is, SQLite with as few rows as a commit
// can have, and an append-only file that is settled into rows later. It is what docs/adr/spool.md was decided by.
// `node bench/spool-forms.ts --messages 20000 --group 10,50`; each group adds so many messages and ends as many older ones.

import { hash } from 'node:crypto';
import { closeSync, fdatasyncSync, mkdtempSync, openSync, readFileSync, rmSync, writevSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { parseArgs } from 'node:util';
import { crc32 } from 'node:zlib';
import { openSqliteFile } from '../src/base/database/sqlite-file.ts';
import { uuidv7 } from '../src/base/ids.ts';
import { encodeEvent } from '../src/spool/encoded-event.ts';
import type { OutcomeEvent } from '../src/spool/events/mail-event.ts';
import { acceptedRow } from '../src/spool/journal/writer/journal-of-event.ts';
import type { SpoolEntry } from '../src/spool/spool.ts';
import { acceptedEvent } from '../src/spool/spool-events.ts';
import { SpoolLock } from '../src/spool/sqlite/file/sqlite-lock.ts';
import { SqliteStore, type WriteOperation } from '../src/spool/sqlite/sqlite-store.ts';
import { attemptOf, spoolEntry } from '../test/support/spool-entry.ts';

const { values } = parseArgs({
  options: {
    messages: { type: 'string', default: '20000' },
    group: { type: 'string', default: '10,50' },
    rounds: { type: 'string', default: '3' },
    behind: { type: 'string', default: '500' },
    forms: { type: 'string', default: 'today,rows,file' },
  },
});
/** Events that a follower takes at once. */
const behindAtOnce = Number(values.behind);

/** A message on its way, made before the clock runs. */
interface Made {
  readonly entry: SpoolEntry;
  readonly outcome: OutcomeEvent;
}

const head = Buffer.from(
  `Received: from box (box [192.0.2.1]) by mx.example (Postern)\r\n${'X-Filler: some value of a field that is there\r\n'.repeat(12)}\r\n`,
);
const body = Buffer.alloc(4096 - head.length, 'A line of text that has some length and then ends.\r\n');
const dialogue = Array.from({ length: 8 }, (_, at) => `C ${at} MAIL FROM:<alice@example.com> SIZE=4096\n`).join('');
const details = {
  content: 'none',
  maxBodyOctets: 262_144,
  fields: Array.from({ length: 12 }, (_, at) => ({ name: `X-Filler-${at}`, rawBytes: Buffer.from('value') })),
  verdicts: 'kkkkkkkkkkkk',
  subject: 'A subject line of some length',
  mailer: 'X-Mailer: something 1.2',
  timings: { check: 0.2, compose: 0.3, sign: 0.4 },
  transcript: { text: () => dialogue, tls: () => undefined, readMs: 1 },
} as const;

function make(number: number, now: number): Made {
  const id = uuidv7(now);
  const entry = spoolEntry({
    id,
    acceptedAt: now,
    expiresAt: now + 432_000_000,
    transports: ['out#1'],
    recipients: [`user${number % 5000}@example${number % 50}.org`],
    clientMessageId: `<${number}.${id}@box.example>`,
    origin: { via: 'smtp', clientAddress: '192.0.2.1', helo: 'box.example' },
    received: { size: 4096, stripped: [] },
    journal: details,
    head,
    body,
  });
  const reply = { code: 250, enhanced: '2.0.0', text: 'Ok: queued as 4F1T2x3Yz5' };
  return { entry, outcome: attemptOf(entry, { kind: 'delivered', reply, host: 'out (mx.example.org:25)' }) };
}

/** One way to keep mail. `group` commits new messages and outcomes of older ones; `behind` does what readers need later. */
interface Form {
  group(added: readonly Made[], ended: readonly Made[], now: number): void;
  behind(): void;
  close(): void;
}

function today(folder: string): Form {
  const database = openSqliteFile(join(folder, 'spool.db'));
  database.exec('PRAGMA wal_autocheckpoint = 4000');
  const lock = new SpoolLock(join(folder, 'lock'));
  const store = new SqliteStore({ database, lock, bodies: join(folder, 'bodies') });
  return {
    group(added, ended, now) {
      const operations: WriteOperation[] = added.map(({ entry }) => {
        const { head: _, body: __, received: ___, journal, ...meta } = entry;
        const event = acceptedEvent(entry);
        const { row, isSameBody } = acceptedRow(event, { details: journal ?? details, sent: entry });
        const none = { receivedHead: undefined, receivedBody: undefined, sentHead: undefined, sentBody: undefined };
        const size = head.length + body.length;
        const written = { row: { ...row, octets: 0 }, isSameBody, ...none };
        return {
          kind: 'add',
          args: [
            { entry: meta, event: encodeEvent(event), claimUntil: now + 60_000, size, head, body, journal: written },
          ],
        };
      });
      if (ended.length > 0) {
        const outcomes = ended.map(({ outcome: event }) => {
          const { queueId, recipient, kind, reply, host } = event;
          return { queueId, recipient, kind, reply, host, event: encodeEvent(event) };
        });
        operations.push({ kind: 'record', args: [outcomes, now] });
      }
      const { outcomes } = store.write(operations, { wall: now, monotonic: performance.now() });
      for (const outcome of outcomes) if ('error' in outcome) throw new Error(outcome.error.message);
    },
    behind() {
      while (store.isBehind) store.follow();
    },
    close: () => {
      database.close();
      lock.close();
    },
  };
}

function keyOf(text: string): bigint {
  return hash('sha256', text, 'buffer').readBigInt64BE(0);
}

/** What readers need of events, made from the events themselves: index of accounts, of messages, search keys, journal rows. */
class Behind {
  readonly #index;
  readonly #journal;
  readonly #outcome;
  readonly #state;

  constructor(database: DatabaseSync) {
    database.exec(`
      CREATE TABLE event_index (key INTEGER NOT NULL, event INTEGER NOT NULL, PRIMARY KEY (key, event)) STRICT, WITHOUT ROWID;
      CREATE TABLE journal (id TEXT PRIMARY KEY, event INTEGER NOT NULL, outcome INTEGER NOT NULL) STRICT, WITHOUT ROWID;
      CREATE TABLE followed (one INTEGER PRIMARY KEY, cursor INTEGER NOT NULL) STRICT;`);
    this.#index = database.prepare('INSERT OR IGNORE INTO event_index VALUES (?, ?)');
    this.#journal = database.prepare('INSERT INTO journal VALUES (?, ?, 1)');
    this.#outcome = database.prepare('UPDATE journal SET outcome = ? WHERE id = ?');
    this.#state = database.prepare('INSERT OR REPLACE INTO followed VALUES (1, ?)');
  }

  follow(events: readonly { readonly id: number; readonly json: string }[]): void {
    const keys: { key: bigint; event: number }[] = [];
    for (const { id, json } of events) {
      const event = JSON.parse(json);
      const names = [`a ${event.account}`, `k ${event.account} ${event.kind}`, `q ${event.queueId}`];
      if (event.kind === 'accepted') {
        names.push(`r ${event.recipients[0]}`, `s ${event.senderPath}`, `c ${event.clientMessageId}`);
        this.#journal.run(event.queueId, id);
      } else {
        names.push(`r ${event.recipient}`);
        this.#outcome.run(2, event.queueId);
      }
      for (const name of names) keys.push({ key: keyOf(name), event: id });
    }
    keys.sort((left, right) => (left.key < right.key ? -1 : left.key > right.key ? 1 : left.event - right.event));
    for (const { key, event } of keys) this.#index.run(key, event);
    this.#state.run(events.at(-1)?.id ?? 0);
  }
}

const lean = `
  CREATE TABLE messages (seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, account TEXT NOT NULL, meta TEXT NOT NULL,
    expires_at INTEGER NOT NULL, size INTEGER NOT NULL, head BLOB NOT NULL, body BLOB) STRICT;
  CREATE TABLE recipients (message INTEGER NOT NULL, position INTEGER NOT NULL, address TEXT NOT NULL, state INTEGER NOT NULL,
    attempts INTEGER NOT NULL, due INTEGER NOT NULL, line INTEGER NOT NULL, PRIMARY KEY (message, position)) STRICT, WITHOUT ROWID;
  CREATE INDEX due ON recipients (line, due) WHERE state = 0;
  CREATE TABLE events (id INTEGER PRIMARY KEY, at INTEGER NOT NULL, account TEXT NOT NULL, kind TEXT NOT NULL,
    queue_id TEXT NOT NULL, event TEXT NOT NULL, more TEXT) STRICT;`;

/** The texts of a message that the commit needs: its row, its event, and what only the journal knows. */
function textsOf({ entry }: Made): { readonly meta: string; readonly event: string; readonly more: string } {
  const { credential, sessionId, messageId, reversePath, senderPath, clientMessageId, origin, acceptedAt } = entry;
  const meta = { credential, sessionId, messageId, reversePath, senderPath, clientMessageId, origin, acceptedAt };
  const { verdicts, timings } = details;
  const more = { names: details.fields.map(({ name }) => name).join('\n'), verdicts, dialogue, timings };
  return { meta: JSON.stringify(meta), event: JSON.stringify(acceptedEvent(entry)), more: JSON.stringify(more) };
}

function rows(folder: string): Form {
  const database = openSqliteFile(join(folder, 'spool.db'));
  database.exec('PRAGMA wal_autocheckpoint = 4000');
  database.exec(lean);
  const behind = new Behind(database);
  const addMessage = database.prepare('INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?, ?)');
  const addRecipient = database.prepare('INSERT INTO recipients VALUES (?, 0, ?, 3, 0, ?, 1)');
  const addEvent = database.prepare('INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)');
  const forgetRecipient = database.prepare('DELETE FROM recipients WHERE message = ?');
  const forgetMessage = database.prepare('DELETE FROM messages WHERE seq = ?');
  const read = database.prepare('SELECT id, event FROM events WHERE id > ? AND id <= ? ORDER BY id');
  const seqs = new Map<string, number>();
  let [seq, event, cursor] = [0, 0, 0];
  return {
    group(added, ended, now) {
      database.exec('BEGIN IMMEDIATE');
      for (const made of added) {
        const { entry } = made;
        const { meta, event: json, more } = textsOf(made);
        seq += 1;
        event += 1;
        seqs.set(entry.id, seq);
        addMessage.run(seq, entry.id, entry.account, meta, entry.expiresAt, head.length + body.length, head, body);
        addRecipient.run(seq, entry.recipients[0] ?? '', now + 60_000);
        addEvent.run(event, now, entry.account, 'accepted', entry.id, json, more);
      }
      for (const { entry, outcome } of ended) {
        const which = seqs.get(entry.id) ?? 0;
        seqs.delete(entry.id);
        event += 1;
        addEvent.run(event, now, entry.account, outcome.kind, entry.id, JSON.stringify(outcome), null);
        forgetRecipient.run(which);
        forgetMessage.run(which);
      }
      database.exec('COMMIT');
    },
    behind() {
      while (event - cursor >= behindAtOnce) {
        const found = read.all(cursor, cursor + behindAtOnce);
        database.exec('BEGIN IMMEDIATE');
        behind.follow(found.map((row) => ({ id: Number(row['id']), json: String(row['event']) })));
        database.exec('COMMIT');
        cursor += behindAtOnce;
      }
    },
    close: () => database.close(),
  };
}

/** Writes records to a file, one write and one fdatasync a group; what has ended meanwhile never becomes a row of the queue. */
function file(folder: string): Form {
  const database = openSqliteFile(join(folder, 'spool.db'));
  database.exec('PRAGMA wal_autocheckpoint = 4000');
  database.exec(lean);
  const behind = new Behind(database);
  const addEvent = database.prepare('INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)');
  let number = 0;
  let log = openSync(join(folder, `log-${number}`), 'wx', 0o600);
  let length = 0;
  let event = 0;
  let unsettled: { id: number; made: Made; kind: string; json: string; more: string | null }[] = [];
  const record = (type: number, parts: readonly Uint8Array[]): Uint8Array[] => {
    const frame = Buffer.allocUnsafe(13 + parts.length * 4);
    let [octets, sum] = [0, 0];
    for (const [index, part] of parts.entries()) {
      octets += part.length;
      sum = crc32(part, sum);
      frame.writeUInt32LE(part.length, 13 + index * 4);
    }
    frame.writeUInt8(type, 0);
    frame.writeUInt32LE(octets, 1);
    frame.writeUInt32LE(sum, 5);
    frame.writeUInt32LE(parts.length, 9);
    return [frame, ...parts];
  };
  return {
    group(added, ended) {
      const parts: Uint8Array[] = [];
      for (const made of added) {
        const { meta, event: json, more } = textsOf(made);
        event += 1;
        parts.push(...record(1, [Buffer.from(meta), Buffer.from(json), Buffer.from(more), head, body]));
        unsettled.push({ id: event, made, kind: 'accepted', json, more });
      }
      for (const made of ended) {
        const json = JSON.stringify(made.outcome);
        event += 1;
        parts.push(...record(2, [Buffer.from(json)]));
        unsettled.push({ id: event, made, kind: 'delivered', json, more: null });
      }
      length += writevSync(log, parts);
      fdatasyncSync(log);
      if (length < 16_777_216) return;
      closeSync(log);
      rmSync(join(folder, `log-${number}`));
      number += 1;
      log = openSync(join(folder, `log-${number}`), 'wx', 0o600);
      length = 0;
    },
    behind() {
      while (unsettled.length >= behindAtOnce) {
        const taken = unsettled.slice(0, behindAtOnce);
        unsettled = unsettled.slice(behindAtOnce);
        database.exec('BEGIN IMMEDIATE');
        for (const { id, made, kind, json, more } of taken)
          addEvent.run(id, made.entry.acceptedAt, made.entry.account, kind, made.entry.id, json, more);
        behind.follow(taken);
        database.exec('COMMIT');
      }
    },
    close() {
      closeSync(log);
      database.close();
    },
  };
}

const forms: Readonly<Record<string, (folder: string) => Form>> = { today, rows, file };

/** Octets that this process has had written to disks. */
function written(): number {
  return Number(/^write_bytes: (\d+)/m.exec(readFileSync('/proc/self/io', 'utf8'))?.[1] ?? 0);
}

function cpu(): number {
  const { user, system } = process.threadCpuUsage();
  return user + system;
}

/** One run. @returns microseconds of this thread's CPU a message, in the commit and behind it, and what else was seen */
function run(form: Form, group: number, messages: number): Record<string, number> {
  let ended: Made[] = [];
  let [commit, behind, wall] = [0, 0, 0];
  const before = written();
  const warm = Math.floor(messages / 5);
  for (let done = 0; done < messages + warm; done += group) {
    const now = Date.now();
    const added = Array.from({ length: group }, (_, at) => make(done + at, now));
    if (done >= warm && done - group < warm) [commit, behind, wall] = [0, 0, 0];
    const [start, startWall] = [cpu(), performance.now()];
    form.group(added, ended, now);
    const middle = cpu();
    wall += performance.now() - startWall;
    form.behind();
    behind += cpu() - middle;
    commit += middle - start;
    ended = added;
  }
  const each = (micros: number): number => Math.round((micros / messages) * 10) / 10;
  const octets = Math.round((written() - before) / (messages + warm));
  return { commit: each(commit), behind: each(behind), sum: each(commit + behind), wallUs: each(wall * 1000), octets };
}

for (let round = 1; round <= Number(values.rounds); round += 1) {
  for (const group of values.group.split(',').map(Number)) {
    for (const name of values.forms.split(',')) {
      const folder = mkdtempSync(join(tmpdir(), 'postern-forms-'));
      const form = forms[name]?.(folder);
      if (!form) throw new Error(`No form "${name}"`);
      console.log(JSON.stringify({ round, group, form: name, ...run(form, group, Number(values.messages)) }));
      form.close();
      rmSync(folder, { recursive: true });
    }
  }
}
