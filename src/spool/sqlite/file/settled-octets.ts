// Messages that wait for long, in less room: a page of SQLite has one of two or three KB, and those of a sender are much alike. They are
// compressed together into blocks behind the commits, and a block goes with its last message. What is delivered at once is never touched.

import { constants as zlib, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import type { Row } from '../../../base/database/database.ts';
import { type DatabaseSync, inTransaction, prepareAll } from '../../../base/database/sqlite-file.ts';
import { integer, octets } from '../../stored-rows.ts';

/** What `body_in_file` says of a message whose octets are in a block. */
export const inBlock = 2;

/** How long a message has waited before its octets are put into a block, in milliseconds. */
const waitedMs = 30_000;
/** Octets of messages in a block, about: whoever sends one of them reads all of them. */
const blockOctets = 65_536;
/** Blocks of one slice at most, and rows that are looked at for one. */
const blocksAtOnce = 8;
const rowsAtOnce = 64;
const options = { params: { [zlib.ZSTD_c_compressionLevel]: 3, [zlib.ZSTD_c_checksumFlag]: 1 } } as const;

/** The tables. first, last: between which messages those of the block are. */
export const blockTables = `
  CREATE TABLE spool_blocks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    octets BLOB NOT NULL
  ) STRICT;
  -- Where body_in_file is 2: the block with the octets, and where in it they begin; head and body are empty.
  ALTER TABLE spool_messages ADD COLUMN block INTEGER;
  ALTER TABLE spool_messages ADD COLUMN block_start INTEGER;
  ALTER TABLE spool_messages ADD COLUMN head_length INTEGER;
`;

/** The columns that `SettledOctets.of` reads. */
export const octetColumns = 'body_in_file, size, head, body, block, block_start, head_length';

/** SQL for the header section of a message `m`. */
export const storedHead = `CASE m.body_in_file WHEN ${inBlock} THEN settled_head(m.block, m.block_start, m.head_length) ELSE m.head END`;

function prepare(database: DatabaseSync) {
  return prepareAll(database, {
    last: 'SELECT last FROM spool_blocks ORDER BY id DESC LIMIT 1',
    newest: 'SELECT max(seq) AS seq FROM spool_messages',
    waiting: `SELECT seq, accepted_at, ${octetColumns} FROM spool_messages
      WHERE seq > ? AND seq < ? AND body_in_file = 0 AND envelope IS NULL ORDER BY seq LIMIT ${rowsAtOnce}`,
    add: 'INSERT INTO spool_blocks (first, last, octets) VALUES (?, ?, ?)',
    put: `UPDATE spool_messages SET head = x'', body = x'', body_in_file = ${inBlock}, block = ?,
      block_start = ?, head_length = ? WHERE seq = ?`,
    block: 'SELECT octets FROM spool_blocks WHERE id = ?',
    blockOf: 'SELECT block FROM spool_messages WHERE seq = ?',
    forget: `DELETE FROM spool_blocks WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM spool_messages m
      WHERE m.seq BETWEEN first AND last AND m.seq <> ?2 AND m.block = spool_blocks.id)`,
  });
}

interface MessageOctets {
  readonly head: Uint8Array;
  readonly body: Uint8Array;
}

/** The blocks of one database. */
export class SettledOctets {
  readonly #sql: ReturnType<typeof prepare>;
  /** Messages up to this one have been looked at; undefined: not known yet. */
  #settled: number | undefined;
  /** The block that was read last: messages are sent in their order. */
  #kept: { readonly id: number; readonly octets: Buffer } | undefined;

  /** @param database its tables are up to date; gets the function of `storedHead` */
  constructor(database: DatabaseSync) {
    this.#sql = prepare(database);
    database.function('settled_head', (block, start, length) => {
      const from = Number(start);
      return new Uint8Array(this.#block(Number(block)).subarray(from, from + Number(length)));
    });
  }

  /** The octets of a row with `octetColumns`, in memory of their own; the body is empty where it is in a file. */
  of(row: Row): MessageOctets {
    if (row['body_in_file'] !== inBlock) return { head: octets(row, 'head'), body: octets(row, 'body') };
    const block = this.#block(integer(row, 'block'));
    const [start, length] = [integer(row, 'block_start'), integer(row, 'head_length')];
    const end = start + integer(row, 'size');
    if (end > block.length) throw new Error('The block of a message is shorter than its message');
    return {
      head: new Uint8Array(block.subarray(start, start + length)),
      body: new Uint8Array(block.subarray(start + length, end)),
    };
  }

  /** Removes the block of a message that is about to be removed, if it was the last one in it. */
  forget(message: number): void {
    const block = integer(this.#sql.blockOf.get(message) ?? {}, 'block');
    this.#sql.forget.run(block, message);
  }

  /** Puts messages that wait for long into blocks, in a transaction. @param before only earlier ones @returns whether there is more */
  settle(now: number, before = Number.MAX_SAFE_INTEGER): boolean {
    const newest = integer(this.#sql.newest.get() ?? {}, 'seq');
    this.#settled ??= integer(this.#sql.last.get() ?? {}, 'last');
    // Numbers of messages begin anew when none is left.
    if (this.#settled > newest) this.#settled = 0;
    for (let blocks = 0; blocks < blocksAtOnce; blocks += 1) {
      const block: { readonly seq: number; readonly octets: MessageOctets }[] = [];
      let length = 0;
      for (const row of this.#sql.waiting.iterate(this.#settled, before)) {
        if (integer(row, 'accepted_at') > now - waitedMs || length >= blockOctets) break;
        block.push({ seq: integer(row, 'seq'), octets: this.of(row) });
        length += integer(row, 'size');
      }
      // Few messages are not worth it.
      if (length < blockOctets && block.length < rowsAtOnce) return false;
      this.#add(block);
    }
    return true;
  }

  /** To be called where the transaction of `settle` was undone. */
  lookAnew(): void {
    this.#settled = undefined;
  }

  #add(block: readonly { readonly seq: number; readonly octets: MessageOctets }[]): void {
    const [first, last] = [block[0]?.seq ?? 0, block.at(-1)?.seq ?? 0];
    const whole = Buffer.concat(block.flatMap(({ octets: { head, body } }) => [head, body]));
    const { lastInsertRowid } = this.#sql.add.run(first, last, zstdCompressSync(whole, options));
    let start = 0;
    for (const { seq, octets: own } of block) {
      this.#sql.put.run(lastInsertRowid, start, own.head.length, seq);
      start += own.head.length + own.body.length;
    }
    this.#settled = last;
  }

  #block(id: number): Buffer {
    if (this.#kept?.id !== id) {
      const row = this.#sql.block.get(id);
      if (!row) throw new Error('The block of a message is missing');
      this.#kept = { id, octets: zstdDecompressSync(octets(row, 'octets')) };
    }
    return this.#kept.octets;
  }
}

/** Puts the octets of all messages back into their rows, for a reader of tables. @param database nobody else has it open */
export function unsettle(database: DatabaseSync): void {
  const settled = new SettledOctets(database);
  const some =
    database.prepare(`SELECT seq, ${octetColumns} FROM spool_messages WHERE body_in_file = ${inBlock} AND seq > ?
    ORDER BY seq LIMIT ${rowsAtOnce}`);
  const put = database.prepare(`UPDATE spool_messages SET head = ?, body = ?, body_in_file = 0, block = NULL,
    block_start = NULL, head_length = NULL WHERE seq = ?`);
  inTransaction(database, () => {
    for (let after = 0, rows = some.all(after); rows.length > 0; rows = some.all(after)) {
      for (const row of rows) {
        after = integer(row, 'seq');
        const { head, body } = settled.of(row);
        put.run(head, body, after);
      }
    }
    database.exec('DELETE FROM spool_blocks');
  });
}
