// Removes the oldest content of the journal in PostgreSQL where it has too many octets together: whole partitions where what is left is
// still too much, and single rows of the next one.

import type { Database } from '../../base/database/database.ts';
import { partitionsOf, waitShortly } from '../../base/database/postgres-partitions.ts';
import { countedRows } from './counted-rows.ts';

/** Rows whose octets are summed by one statement, and removed by one transaction; and such transactions of one call. */
const summedAtOnce = 20_000;
const removedAtOnce = 500;
const mostSlices = 20;

const octets = ['received_head', 'sent_head', 'received_body', 'sent_body']
  .map((column) => `coalesce(octet_length(${column}), 0)`)
  .join(' + ');

/** The octets that a table has, and the key of the row up to which they were summed. */
interface Sum {
  octets: number;
  id: string;
  seq: number;
}

/** What this process knows of a database, and since when by its own clock. */
interface Known {
  readonly sums: Map<string, Sum>;
  readonly since: number;
}

const known = new WeakMap<Database, Known>();
/** After what time everything is summed anew, in milliseconds: others remove, and a few rows come behind later ones. */
const anewMs = 3_600_000;

/** Sums what came since the last look; lengths are read without the octets. */
async function sumUp(database: Database, name: string, sum: Sum): Promise<void> {
  for (let rows = summedAtOnce; rows === summedAtOnce; ) {
    const [found] = await database.query(
      `SELECT count(*) AS rows, coalesce(sum(octets), 0) AS octets, (array_agg(id ORDER BY id DESC, seq DESC))[1] AS id,
         (array_agg(seq ORDER BY id DESC, seq DESC))[1] AS seq
       FROM (SELECT id, seq, ${octets} AS octets FROM ${name} WHERE (id, seq) > ($1::text, $2::bigint)
         ORDER BY id, seq LIMIT ${summedAtOnce}) AS next`,
      [sum.id, sum.seq],
    );
    rows = Number(found?.['rows'] ?? 0);
    if (rows === 0) return;
    sum.octets += Number(found?.['octets']);
    sum.id = String(found?.['id']);
    sum.seq = Number(found?.['seq']);
  }
}

/** The tables that have content, the oldest first, with their octets. */
async function sumsOf(database: Database, sums: Map<string, Sum>): Promise<ReadonlyMap<string, Sum>> {
  const partitions = await partitionsOf((sql, values) => database.query(sql, values), 'journal_content');
  const names = partitions.toSorted((one, other) => ((one.from ?? '') < (other.from ?? '') ? -1 : 1));
  const own = names.length === 0 ? ['journal_content'] : names.map(({ name }) => name);
  for (const name of sums.keys()) if (!own.includes(name)) sums.delete(name);
  const found = new Map<string, Sum>();
  for (const name of own) {
    const sum = sums.get(name) ?? { octets: 0, id: '', seq: -1 };
    await sumUp(database, name, sum);
    sums.set(name, sum);
    found.set(name, sum);
  }
  return found;
}

function totalOf(sums: ReadonlyMap<string, Sum>): number {
  let total = 0;
  for (const { octets: own } of sums.values()) total += own;
  return total;
}

/** Removes the oldest rows of a table. @returns their octets, and how many they were */
async function removeSlice(
  database: Database,
  name: string,
  surplus: number,
): Promise<{ readonly freed: number; readonly rows: number }> {
  const rows = await database.query(
    `SELECT id, seq, octets FROM (SELECT id, seq, octets, sum(octets) OVER (ORDER BY id, seq) AS sum FROM
       (SELECT id, seq, ${octets} AS octets FROM ${name} ORDER BY id, seq LIMIT ${removedAtOnce}) AS first) AS summed
     WHERE sum - octets < $1::bigint`,
    [surplus],
  );
  const seqs = rows.map(({ seq }) => String(seq)).join(',');
  const ids = rows.map(({ id }) => String(id)).join(',');
  await database.run(
    `DELETE FROM ${name} WHERE (id, seq) IN (SELECT * FROM unnest(string_to_array($1::text, ','), string_to_array($2::text, ',')::bigint[]))`,
    [ids, seqs],
  );
  return { freed: rows.reduce((sum, row) => sum + Number(row['octets']), 0), rows: rows.length };
}

/** The sums that this process has of a database; anew after a while. */
function knownSums(database: Database): Map<string, Sum> {
  const now = performance.now();
  const last = known.get(database);
  if (last && now - last.since < anewMs) return last.sums;
  const sums = new Map<string, Sum>();
  known.set(database, { sums, since: now });
  return sums;
}

/** Octets of all content together; what others have removed in the last hour may be among them. */
export async function contentOctets(database: Database): Promise<number> {
  return totalOf(await sumsOf(database, knownSums(database)));
}

/**
 * Removes some of the oldest content where there is too much.
 * @param onRemoved told how many rows have lost theirs
 * @returns whether there may be more
 */
export async function removeContent(
  database: Database,
  most: number,
  onRemoved: (rows: number) => void,
): Promise<boolean> {
  const kept = knownSums(database);
  if (totalOf(await sumsOf(database, kept)) <= most) return false;
  // What others have removed since is in the sums: before anything goes, all is summed anew.
  kept.clear();
  const sums = await sumsOf(database, kept);
  let surplus = totalOf(sums) - most;
  let slices = 0;
  for (const [name, sum] of sums) {
    if (surplus >= sum.octets && sum.octets > 0 && sums.size > 1) {
      const gone = await countedRows(database, name);
      await database.transaction(async (transaction) => {
        await transaction.run(waitShortly);
        await transaction.run(`TRUNCATE ${name}`);
      });
      onRemoved(gone);
      surplus -= sum.octets;
      kept.delete(name);
    }
    for (; surplus > 0 && sum.octets > 0 && kept.has(name) && slices < mostSlices; slices += 1) {
      const { freed, rows } = await removeSlice(database, name, surplus);
      if (freed === 0) break;
      onRemoved(rows);
      surplus -= freed;
      sum.octets -= freed;
    }
  }
  return surplus > 0 && slices === mostSlices;
}
