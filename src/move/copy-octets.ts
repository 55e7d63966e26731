// Copies the octets of the messages: heads, bodies in the database, and bodies that are files. No more than a few parts are in
// memory at a time, however large a message is.

import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { addOctets, partOctets } from '../spool/postgres/added-messages.ts';
import type { Copying } from './copy-rows.ts';
import { readableRows } from './readable-rows.ts';
import { digestOf, RowSum, type SentTable, type TargetColumn } from './row-sum.ts';
import type { SourceValue } from './source-file.ts';

/** Octets and parts of one statement, at most. */
const octetsAtOnce = 2 * 1024 * 1024;
const partsAtOnce = 4000;

const question = 'SELECT id, body_in_file, size, head, body FROM spool_messages ORDER BY seq';

/** What was copied. */
export interface CopiedOctets extends SentTable {
  readonly octets: number;
}

/** The columns of spool_octets. */
const columns: readonly TargetColumn[] = [
  { name: 'message', type: 'uuid' },
  { name: 'part', type: 'integer' },
  { name: 'octets', type: 'bytea' },
];

/** Gathers parts and writes them. */
class PartWriter {
  readonly #copying: Copying;
  #pieces: Uint8Array[] = [];
  #parts: { readonly id: string; readonly part: number; readonly start: number; readonly length: number }[] = [];
  #gathered = 0;
  #sending: Promise<unknown> = Promise.resolve();
  readonly sum = new RowSum();
  octets = 0;

  constructor(copying: Copying) {
    this.#copying = copying;
  }

  /** Adds a part of a message; several pieces may make one. The octets must not change any more. */
  async add(id: string, part: number, pieces: readonly Uint8Array[]): Promise<void> {
    const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
    if (length === 0) return;
    // PostgreSQL counts octets from 1.
    this.#parts.push({ id, part, start: this.#gathered + 1, length });
    for (const piece of pieces) this.#pieces.push(piece);
    this.sum.add([id, part, digestOf(pieces)], columns);
    this.#gathered += length;
    if (this.#gathered >= octetsAtOnce || this.#parts.length >= partsAtOnce) await this.send();
  }

  /** Sends what waits, once what was sent before is written. */
  async send(): Promise<void> {
    const { signal, target, onCopied } = this.#copying;
    signal.throwIfAborted();
    const [pieces, parts, gathered] = [this.#pieces, this.#parts, this.#gathered];
    this.#pieces = [];
    this.#parts = [];
    this.#gathered = 0;
    await this.#sending;
    if (parts.length === 0) return;
    this.#sending = target.query(addOctets, [
      Buffer.concat(pieces, gathered),
      parts.map(({ id }) => id),
      parts.map(({ part }) => part),
      parts.map(({ start }) => start),
      parts.map(({ length }) => length),
    ]);
    this.#sending.catch(() => undefined);
    this.octets += gathered;
    onCopied('spool_octets', parts.length, gathered);
  }

  async end(): Promise<CopiedOctets> {
    await this.send();
    await this.#sending;
    return { columns, sum: this.sum, octets: this.octets };
  }
}

function bytes(value: SourceValue | undefined): Uint8Array {
  return value instanceof Uint8Array ? value : new Uint8Array(0);
}

/** Copies a body that is a file, behind the message's head. @throws Error where the file is another than before */
async function copyFile(
  writer: PartWriter,
  file: string,
  { id, octets }: { id: string; octets: number },
): Promise<void> {
  const handle = await open(file, 'r');
  try {
    let read = 0;
    for (let part = 1; ; part += 1) {
      const buffer = Buffer.allocUnsafeSlow(partOctets);
      const { bytesRead } = await handle.read(buffer, 0, buffer.length, null);
      if (bytesRead === 0) break;
      read += bytesRead;
      await writer.add(id, part, [buffer.subarray(0, bytesRead)]);
    }
    if (read !== octets) throw new Error(`The body "${file}" has changed while it was copied`);
  } finally {
    await handle.close();
  }
}

/** Copies the octets of every message that is not left behind. */
export async function copyOctets(copying: Copying, bodiesFolder: string): Promise<CopiedOctets> {
  const { source, left } = copying;
  const writer = new PartWriter(copying);
  const found = source.read(question);
  for (const row of readableRows(found, { table: 'spool_messages', file: source.file })) {
    const id = String(row[0]);
    if (left.messages.has(id)) continue;
    const [head, body] = [bytes(row[3]), bytes(row[4])];
    if (Number(row[1]) === 1) {
      await writer.add(id, 0, [head]);
      await copyFile(writer, join(bodiesFolder, id), { id, octets: Number(row[2]) - head.length });
    } else await writer.add(id, 0, [head, body]);
  }
  return await writer.end();
}
