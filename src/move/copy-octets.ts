// Copies the octets of the messages: heads, bodies in the database, and bodies that are files. No more than a few parts are in
// memory at a time, however large a message is.

import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { partOctets } from '../spool/postgres/added-messages.ts';
import type { SourceValue } from './source-file.ts';
import { type Copying, type SentTable, TableWriter } from './table-writer.ts';

const question = 'SELECT id, body_in_file, size, head, body FROM spool_messages ORDER BY seq';

function bytes(value: SourceValue | undefined): Uint8Array {
  return value instanceof Uint8Array ? value : new Uint8Array(0);
}

/** A body that is a file, part by part. @throws Error where the file is another than before */
async function* partsOf(file: string, octets: number): AsyncGenerator<Uint8Array> {
  const handle = await open(file, 'r');
  try {
    let read = 0;
    for (;;) {
      const buffer = Buffer.allocUnsafeSlow(partOctets);
      const { bytesRead } = await handle.read(buffer, 0, buffer.length, null);
      if (bytesRead === 0) break;
      read += bytesRead;
      yield buffer.subarray(0, bytesRead);
    }
    if (read !== octets) throw new Error(`The body "${file}" has changed while it was copied`);
  } finally {
    await handle.close();
  }
}

/** Copies the octets of every message that is not left behind. */
export async function copyOctets(copying: Copying, bodiesFolder: string): Promise<SentTable> {
  const { source, left } = copying;
  const writer = await TableWriter.open('spool_octets', ['message', 'part', 'octets'], copying);
  for (const row of source.read('spool_messages', question).rows) {
    const id = String(row[0]);
    if (left.messages.has(id)) continue;
    const [head, body] = [bytes(row[3]), bytes(row[4])];
    if (head.length + body.length > 0)
      await writer.add([id, 0, body.length === 0 ? head : Buffer.concat([head, body])]);
    if (Number(row[1]) === 0) continue;
    let part = 0;
    for await (const piece of partsOf(join(bodiesFolder, id), Number(row[2]) - head.length))
      await writer.add([id, (part += 1), piece]);
  }
  return await writer.end();
}
