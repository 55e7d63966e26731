// Removes from the journal in PostgreSQL what is too old, a day's partition at a time, and what is too much: refusals and copies of an account
// row by row, and the oldest content. One by one also go old rows that have no partition of a day, and all where the tables are whole.

import type { Database, Row } from '../../../base/database/database.ts';
import { partitionsOf, waitShortly } from '../../../base/database/postgres-migrations.ts';
import { errorCode, Unavailable } from '../../../base/errors.ts';
import { Part } from '../../../base/part.ts';
import type { JournalLimits, Removed } from '../journal.ts';
import { isCopyByKeys, outcomeNumbers, timeOf } from '../journal-row.ts';

/** Rows of one transaction at most. */
const rowsAtOnce = 500;
const dayMs = 86_400_000;
const lockNotAvailable = '55P03';

const time = 'SELECT extract(epoch FROM clock_timestamp()) * 1000 AS time';
const firstAndLast = (name: string): string => `SELECT (SELECT at FROM ${name} ORDER BY seq LIMIT 1) AS first,
  (SELECT at FROM ${name} ORDER BY seq DESC LIMIT 1) AS last`;
const agedOf = (name: string): string =>
  `SELECT id FROM (SELECT id, at FROM ${name} ORDER BY seq LIMIT ${rowsAtOnce}) AS first WHERE at < $1::bigint`;
const those = "id = ANY (string_to_array($1::text, ','))";

const isRefused = `outcome = ${outcomeNumbers.refused} AND outcome > 2`;
/** Which rows of an account are bounded, and how many it has: refusals are counted at each look, by indexes alone. */
const bounded = {
  refusals: {
    are: `${isRefused} AND NOT ${isCopyByKeys}`,
    counted: `SELECT account, rows - (SELECT count(*) FROM journal copy WHERE ${isCopyByKeys} AND copy.account = refused.account
        AND copy.outcome = ${outcomeNumbers.refused}) AS rows
      FROM (SELECT account, count(*) AS rows FROM journal WHERE ${isRefused} GROUP BY account HAVING count(*) > $1::bigint) refused`,
  },
  copies: {
    are: isCopyByKeys,
    counted: `SELECT account, count(*) AS rows FROM journal WHERE ${isCopyByKeys} GROUP BY account`,
  },
} as const;

/** Rows whose octets are summed by one statement, and transactions of one call that remove content. */
const summedAtOnce = 20_000;
const mostSlices = 20;

const octets = ['received_head', 'sent_head', 'received_body', 'sent_body']
  .map((column) => `coalesce(octet_length(${column}), 0)`)
  .join(' + ');

/** The octets that a table has, and the id of the row up to which they were summed. */
interface Sum {
  octets: number;
  id: string;
}

/** After what time everything is summed anew, in milliseconds: others remove, and a few rows come behind later ones. */
const anewMs = 3_600_000;

/** Ids as the one value of `those`. */
function idsOf(rows: readonly Row[]): string {
  return rows.map(({ id }) => String(id)).join(',');
}

function totalOf(sums: ReadonlyMap<string, Sum>): number {
  return sums.values().reduce((total, sum) => total + sum.octets, 0);
}

/** Removes from the journal of one database. Octets of content are summed as they come, and anew after a while. */
export class JournalRemoval extends Part<{
  readonly database: Database;
  readonly limits: JournalLimits;
  readonly onRemoved: (removed: Removed, count: number) => void;
}> {
  #sums = new Map<string, Sum>();
  /** Since when they are summed, by this process's own clock. */
  #since = Number.NEGATIVE_INFINITY;

  /** Octets of all content together; what others have removed in the last hour may be among them. */
  async contentOctets(): Promise<number> {
    if (performance.now() - this.#since >= anewMs) this.#forgetSums();
    return totalOf(await this.#sumsOf());
  }

  /** Removes some of what is too old or too much. @param now of this host; the server's counts if earlier @returns whether there is more */
  async remove(now: number): Promise<boolean> {
    const [server] = await this.parts.database.query(time);
    const limit = Math.min(now, Math.floor(Number(server?.['time']))) - this.parts.limits.keepDays * dayMs;
    const isMore = [
      await this.#removeAged(limit),
      await this.#removeMany('refusals'),
      await this.#removeMany('copies'),
      await this.#removeContent(),
    ];
    return isMore.includes(true);
  }

  /** Counts the rows of a table; one that is too large to be counted in the time of a statement is estimated. */
  async #countedRows(name: string): Promise<number> {
    try {
      const [row] = await this.parts.database.query(`SELECT count(*) AS rows FROM ${name}`);
      return Number(row?.['rows'] ?? 0);
    } catch (thrown) {
      if (!(thrown instanceof Unavailable)) throw thrown;
      const guess = 'SELECT greatest(reltuples, 0) AS rows FROM pg_class WHERE oid = to_regclass($1::text)';
      const [row] = await this.parts.database.query(guess, [name]);
      return Number(row?.['rows'] ?? 0);
    }
  }

  /** Removes rows with their content. @returns whether there may be more */
  async #removeRows(rows: readonly Row[]): Promise<boolean> {
    if (rows.length === 0) return false;
    const params = [idsOf(rows)];
    await this.parts.database.atOnce(
      ['journal_content', 'journal'].map((table) => ({ sql: `DELETE FROM ${table} WHERE ${those}`, params })),
    );
    return rows.length === rowsAtOnce;
  }

  /** Drops partitions older than a time; one that is held is tried again. @returns the table whose rows go one by one */
  async #dropAged(limit: number): Promise<string> {
    const partitions = await partitionsOf((sql, values) => this.parts.database.query(sql, values), 'journal');
    for (const { name, isDefault, to } of partitions) {
      if (isDefault || to === null || timeOf(to) > limit) continue;
      const [row] = await this.parts.database.query(firstAndLast(name));
      if ([row?.['first'], row?.['last']].some((at) => at !== null && Number(at) >= limit)) continue;
      const content = name.replace('journal', 'journal_content');
      const gone = await this.#countedRows(name);
      try {
        await this.parts.database.transaction(async (transaction) => {
          await transaction.run(waitShortly);
          await transaction.run(`DROP TABLE ${name}`);
          await transaction.run(`DROP TABLE IF EXISTS ${content}`);
        });
        this.parts.onRemoved('aged', gone);
      } catch (thrown) {
        if (!(thrown instanceof Unavailable) || errorCode(thrown.cause) !== lockNotAvailable) throw thrown;
        break;
      }
    }
    return partitions.length === 0 ? 'journal' : 'journal_default';
  }

  async #removeAged(limit: number): Promise<boolean> {
    const rows = await this.parts.database.query(agedOf(await this.#dropAged(limit)), [limit]);
    const isMore = await this.#removeRows(rows);
    this.parts.onRemoved('aged', rows.length);
    return isMore;
  }

  async #removeMany(kind: keyof typeof bounded): Promise<boolean> {
    const { are, counted } = bounded[kind];
    const most = this.parts.limits[kind];
    const [much] = await this.parts.database.query(
      `SELECT account, rows FROM (${counted}) AS counted WHERE rows > $1::bigint LIMIT 1`,
      [most],
    );
    if (!much) return false;
    const surplus = await this.parts.database.query(
      `SELECT id FROM journal WHERE ${are} AND account = $1::text ORDER BY seq LIMIT $2::integer`,
      [String(much['account']), Math.min(rowsAtOnce, Number(much['rows']) - most)],
    );
    const isMore = await this.#removeRows(surplus);
    this.parts.onRemoved(kind, surplus.length);
    return isMore;
  }

  /** Sums what came since the last look; lengths are read without the octets. */
  async #sumUp(name: string, sum: Sum): Promise<void> {
    for (let rows = summedAtOnce; rows === summedAtOnce; ) {
      const [found] = await this.parts.database.query(
        `SELECT count(*) AS rows, coalesce(sum(octets), 0) AS octets, max(id) AS id
         FROM (SELECT id, ${octets} AS octets FROM ${name} WHERE id > $1::text ORDER BY id LIMIT ${summedAtOnce}) AS next`,
        [sum.id],
      );
      rows = Number(found?.['rows'] ?? 0);
      if (rows === 0) return;
      sum.octets += Number(found?.['octets']);
      sum.id = String(found?.['id']);
    }
  }

  /** The tables that have content, the oldest first, with their octets. */
  async #sumsOf(): Promise<ReadonlyMap<string, Sum>> {
    const partitions = await partitionsOf((sql, values) => this.parts.database.query(sql, values), 'journal_content');
    const names = partitions.toSorted((one, other) => ((one.from ?? '') < (other.from ?? '') ? -1 : 1));
    const own = names.length === 0 ? ['journal_content'] : names.map(({ name }) => name);
    for (const name of this.#sums.keys()) if (!own.includes(name)) this.#sums.delete(name);
    const found = own.map((name) => [name, this.#sums.get(name) ?? { octets: 0, id: '' }] as const);
    for (const [name, sum] of found) {
      await this.#sumUp(name, sum);
      this.#sums.set(name, sum);
    }
    return new Map(found);
  }

  #forgetSums(): void {
    this.#sums = new Map();
    this.#since = performance.now();
  }

  /** Removes the oldest rows of a table. @returns their octets, and how many they were */
  async #removeSlice(name: string, surplus: number): Promise<{ readonly freed: number; readonly rows: number }> {
    const rows = await this.parts.database.query(
      `SELECT id, octets FROM (SELECT id, octets, sum(octets) OVER (ORDER BY id) AS sum FROM
         (SELECT id, ${octets} AS octets FROM ${name} ORDER BY id LIMIT ${rowsAtOnce}) AS first) AS summed
       WHERE sum - octets < $1::bigint`,
      [surplus],
    );
    await this.parts.database.run(`DELETE FROM ${name} WHERE ${those}`, [idsOf(rows)]);
    return { freed: rows.reduce((sum, row) => sum + Number(row['octets']), 0), rows: rows.length };
  }

  /** Removes some of the oldest content where there is too much. @returns whether there may be more */
  async #removeContent(): Promise<boolean> {
    if ((await this.contentOctets()) <= this.parts.limits.maxOctets) return false;
    // What others have removed since is in the sums: before anything goes, all is summed anew.
    this.#forgetSums();
    const sums = await this.#sumsOf();
    let surplus = totalOf(sums) - this.parts.limits.maxOctets;
    let slices = 0;
    for (const [name, sum] of sums) {
      if (surplus >= sum.octets && sum.octets > 0 && sums.size > 1) {
        const gone = await this.#countedRows(name);
        await this.parts.database.transaction(async (transaction) => {
          await transaction.run(waitShortly);
          await transaction.run(`TRUNCATE ${name}`);
        });
        this.parts.onRemoved('content', gone);
        surplus -= sum.octets;
        this.#sums.delete(name);
      }
      for (; surplus > 0 && sum.octets > 0 && this.#sums.has(name) && slices < mostSlices; slices += 1) {
        const { freed, rows } = await this.#removeSlice(name, surplus);
        if (freed === 0) break;
        this.parts.onRemoved('content', rows);
        surplus -= freed;
        sum.octets -= freed;
      }
    }
    return surplus > 0 && slices === mostSlices;
  }
}
