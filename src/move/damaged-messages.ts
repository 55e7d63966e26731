// Finds messages of the source that cannot be moved as they are, before anything is written.

import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { errorCode } from '../base/errors.ts';
import type { SourceFile } from './source-file.ts';

/** Messages that cannot be moved: their ids, and why. */
export type Damaged = ReadonlyMap<string, string>;

const all = `SELECT id, body_in_file, size - length(head) AS body, coalesce(length(body), 0) AS kept,
    EXISTS (SELECT 1 FROM spool_recipients r WHERE r.message = m.seq) AS has_recipients
  FROM spool_messages m ORDER BY seq`;

/** Looks at every message, and at the size of every body that is a file. */
export async function findDamaged(source: SourceFile, bodiesFolder: string): Promise<Damaged> {
  const damaged = new Map<string, string>();
  for (const [idValue, inFile, body, kept, hasRecipients] of source.read(all).rows) {
    const id = String(idValue);
    const why = !/^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/.test(id)
      ? 'its id is none of Postern'
      : Number(hasRecipients) === 0
        ? 'it has no recipients'
        : Number(inFile) === 1
          ? await faultOfFile(join(bodiesFolder, id), Number(body))
          : Number(body) === Number(kept)
            ? undefined
            : `its body has ${String(kept)} octets of ${String(body)}`;
    if (why !== undefined) damaged.set(id, why);
  }
  return damaged;
}

async function faultOfFile(file: string, octets: number): Promise<string | undefined> {
  try {
    const { size } = await stat(file);
    return size === octets ? undefined : `its body "${file}" has ${size} octets of ${octets}`;
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return `its body "${file}" is missing`;
    throw error;
  }
}
