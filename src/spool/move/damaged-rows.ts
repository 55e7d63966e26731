// Finds messages and entries of the journal that cannot be moved as they are, before anything is written.

import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { unlessCode } from '../../base/errors.ts';
import { faultOfRow } from '../journal/journal-faults.ts';
import type { SourceFile } from './source-file.ts';

/** What cannot be moved. */
export interface Damaged {
  /** Messages: their ids, and why. */
  readonly messages: ReadonlyMap<string, string>;
  /** Entries of the journal: their numbers, and why, with their ids. */
  readonly entries: ReadonlyMap<number, string>;
}

/** Nothing is damaged. */
export const noDamage: Damaged = { messages: new Map(), entries: new Map() };

const all = `SELECT id, body_in_file, size - length(head) AS body, coalesce(length(body), 0) AS kept,
    EXISTS (SELECT 1 FROM spool_recipients r WHERE r.message = m.seq) AS has_recipients
  FROM spool_messages m ORDER BY seq`;

/** Looks at every message, and at the size of every body that is a file. */
export async function findDamagedMessages(source: SourceFile, bodiesFolder: string): Promise<Damaged['messages']> {
  const damaged = new Map<string, string>();
  for (const [idValue, inFile, body, kept, hasRecipients] of source.read('spool_messages', all).rows) {
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

/** Looks at every entry of the journal, and for content that belongs to none. */
export function findDamagedEntries(source: SourceFile): Damaged['entries'] {
  const damaged = new Map<number, string>();
  const rows = 'SELECT seq, id, outcome, waiting, facts, more FROM journal ORDER BY seq';
  for (const [seq, id, outcome, waiting, facts, more] of source.read('journal', rows).rows) {
    const stored = { outcome: Number(outcome), waiting: Number(waiting), facts: String(facts), more: String(more) };
    const why = faultOfRow(stored);
    if (why !== undefined) damaged.set(Number(seq), `${String(id)}: ${why}`);
  }
  const lost = 'SELECT seq FROM journal_content WHERE seq NOT IN (SELECT seq FROM journal) ORDER BY seq';
  for (const [seq] of source.read('journal_content', lost).rows) damaged.set(Number(seq), 'it has content, and no row');
  return damaged;
}

async function faultOfFile(file: string, octets: number): Promise<string | undefined> {
  const found = await stat(file).catch(unlessCode('ENOENT'));
  if (!found) return `its body "${file}" is missing`;
  return found.size === octets ? undefined : `its body "${file}" has ${found.size} octets of ${octets}`;
}
