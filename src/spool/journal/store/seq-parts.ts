// Which tables of PostgreSQL have the journal's rows of a range of numbers. Partitions are ranges of ids, that is of times; numbers are given
// in the order of the commits, which is nearly that of the times. So each partition has a range of numbers that hardly any other has.

import type { Database } from '../../../base/database/database.ts';
import { partitionsOf } from '../../../base/database/postgres-partitions.ts';

/** How long what is known of the partitions is used, in milliseconds of this process's own clock. */
const knownMs = 10_000;
/** How old a partition may be in which rows still come, in milliseconds. */
const openMs = 2 * 86_400_000;

/** A partition with the numbers of its rows. */
interface SeqPart {
  readonly name: string;
  readonly low: number;
  readonly high: number;
}

/** The partitions of one look. */
interface Look {
  readonly at: number;
  /** Rows with greater numbers came later. */
  readonly until: number;
  readonly parts: readonly SeqPart[];
  /** The partitions in which rows come that are of now, and DEFAULT. */
  readonly open: readonly string[];
}

const looks = new WeakMap<Database, Look>();

/** Forgets what is known of the partitions, one of which was not there any more. */
export function forgetParts(database: Database): void {
  looks.delete(database);
}

async function look(database: Database): Promise<Look> {
  const known = looks.get(database);
  const at = performance.now();
  if (known && at - known.at < knownMs) return known;
  const partitions = await partitionsOf((sql, values) => database.query(sql, values), 'journal');
  const each = partitions.map(
    ({ name }) =>
      `SELECT '${name}' AS name, (SELECT min(seq) FROM ${name}) AS low, (SELECT max(seq) FROM ${name}) AS high`,
  );
  const rows = each.length === 0 ? [] : await database.query(each.join(' UNION ALL '));
  const parts = rows
    .filter(({ low }) => low !== null)
    .map((row) => ({ name: String(row['name']), low: Number(row['low']), high: Number(row['high']) }));
  const until = parts.reduce((most, { high }) => Math.max(most, high), 0);
  const newest = parts.find(({ high }) => high === until)?.name;
  const [last] = newest === undefined ? [] : await database.query(`SELECT at FROM ${newest} WHERE seq = $1`, [until]);
  const since = Math.min(Date.now(), Number(last?.['at'] ?? 0)) - openMs;
  const open = partitions
    .filter(({ name, to, isDefault }) => isDefault || name === newest || timeOf(to) > since)
    .map(({ name }) => name);
  const made = { at, parts, until, open };
  looks.set(database, made);
  return made;
}

/** The time of a bound of ids, milliseconds since 1970. */
function timeOf(bound: string | null): number {
  return bound === null ? Number.POSITIVE_INFINITY : Number.parseInt(bound.slice(0, 13).replace('-', ''), 16);
}

/**
 * Gives what the rows with numbers from `low` to `high` are read from, in place of a table's name; it may have further rows. A row that
 * came within the last ten seconds and says of itself that it is days old is not found yet.
 */
export async function seqSource(database: Database, low: number, high: number): Promise<string> {
  const { parts, until, open } = await look(database);
  if (parts.length === 0) return 'journal';
  const own = new Set(high > until ? open : []);
  for (const part of parts) if (part.low <= high && part.high >= low) own.add(part.name);
  const [first = 'journal_default', ...others] = own;
  if (others.length === 0) return first;
  return `(${[first, ...others].map((name) => `SELECT * FROM ${name}`).join(' UNION ALL ')})`;
}
