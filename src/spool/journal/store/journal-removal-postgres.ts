// Removes from the journal in PostgreSQL what is too old, a day's partition at a time, and what is too much: refusals and copies of an account
// row by row, and the oldest content. One by one also go old rows that have no partition of a day, and all where the tables are whole.

import type { Database, Row } from '../../../base/database/database.ts';
import { partitionsOf, waitShortly } from '../../../base/database/postgres-migrations.ts';
import { errorCode, Unavailable } from '../../../base/errors.ts';
import { Part } from '../../../base/part.ts';
import type { JournalLimits, Removed } from '../journal.ts';
import { isCopyByKeys, leastIdOf, outcomeNumbers, timeOf } from '../journal-row.ts';

/** Rows of one transaction at most. */
const rowsAtOnce = 500;
const dayMs = 86_400_000;
const lockNotAvailable = '55P03';

const agedOf = (name: string): string => `SELECT id FROM ${name} WHERE id < $1::text ORDER BY id LIMIT ${rowsAtOnce}`;
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

/** After what time everything is summed anew, in milliseconds: others remove, and a few rows come behind later ones. */
const anewMs = 3_600_000;

/** Ids as the one value of `those`. */
function idsOf(rows: readonly Row[]): string {
  return rows.map(({ id }) => String(id)).join(',');
}

/** Removes from the journal of one database. Octets of content are summed as they come, and anew after a while. */
export class JournalRemoval extends Part<{
  readonly database: Database;
  readonly limits: JournalLimits;
  readonly onRemoved: (removed: Removed, count: number) => void;
}> {
  /** The octets that there are, and the id of the row up to which they were summed. */
  #sum = { octets: 0, id: '' };
  /** Since when they are summed, by this process's own clock. */
  #since = Number.NEGATIVE_INFINITY;

  /** Octets of all content together; what others have removed in the last hour may be among them. Lengths are read without the octets. */
  async contentOctets(): Promise<number> {
    if (performance.now() - this.#since >= anewMs) this.#forgetSum();
    for (let rows = summedAtOnce; rows === summedAtOnce; ) {
      const [found] = await this.parts.database.query(
        `SELECT count(*) AS rows, coalesce(sum(octets), 0) AS octets, max(id) AS id
         FROM (SELECT id, ${octets} AS octets FROM journal_content WHERE id > $1::text ORDER BY id LIMIT ${summedAtOnce}) AS next`,
        [this.#sum.id],
      );
      rows = Number(found?.['rows'] ?? 0);
      if (rows > 0) this.#sum = { octets: this.#sum.octets + Number(found?.['octets']), id: String(found?.['id']) };
    }
    return this.#sum.octets;
  }

  #forgetSum(): void {
    this.#sum = { octets: 0, id: '' };
    this.#since = performance.now();
  }

  /**
   * Removes some of what is too old or too much.
   * @param now of this host; the server's counts if earlier
   * @param isPressed whether more content was written than there should be, so that what there is is summed anew
   * @returns whether there is more
   */
  async remove(now: number, isPressed: boolean): Promise<boolean> {
    const [server] = await this.parts.database.query('SELECT extract(epoch FROM clock_timestamp()) * 1000 AS time');
    const limit = Math.min(now, Math.floor(Number(server?.['time']))) - this.parts.limits.keepDays * dayMs;
    const isMore = [
      await this.#removeAged(limit),
      await this.#removeMany('refusals'),
      await this.#removeMany('copies'),
      await this.#removeContent(isPressed),
    ];
    return isMore.includes(true);
  }

  /** Removes rows with their content. @returns whether there may be more */
  async #removeRows(rows: readonly Row[]): Promise<boolean> {
    if (rows.length === 0) return false;
    const params = [idsOf(rows)];
    await this.parts.database.transaction(async (inside) => {
      for (const table of ['journal_content', 'journal'])
        await inside.run(`DELETE FROM ${table} WHERE ${those}`, params);
    });
    return rows.length === rowsAtOnce;
  }

  /** Drops partitions older than a time; one that is held is tried again. @returns the table whose rows go one by one */
  async #dropAged(limit: number): Promise<string> {
    const partitions = await partitionsOf((sql, values) => this.parts.database.query(sql, values), 'journal');
    for (const { name, isDefault, to } of partitions) {
      if (isDefault || to === null || timeOf(to) > limit) continue;
      const content = name.replace('journal', 'journal_content');
      // One that is too large to be counted in the time of a statement is not counted.
      const counted = this.parts.database.query(`SELECT count(*) AS rows FROM ${name}`);
      const [gone] = await counted.catch((): readonly Row[] => []);
      try {
        await this.parts.database.transaction(async (transaction) => {
          await transaction.run(waitShortly);
          await transaction.run(`DROP TABLE ${name}`);
          await transaction.run(`DROP TABLE IF EXISTS ${content}`);
        });
        this.#forgetSum();
        this.parts.onRemoved('aged', Number(gone?.['rows'] ?? 0));
      } catch (thrown) {
        if (!(thrown instanceof Unavailable) || errorCode(thrown.cause) !== lockNotAvailable) throw thrown;
        break;
      }
    }
    return partitions.length === 0 ? 'journal' : 'journal_default';
  }

  async #removeAged(limit: number): Promise<boolean> {
    const rows = await this.parts.database.query(agedOf(await this.#dropAged(limit)), [leastIdOf(limit)]);
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

  /** Removes some of the oldest content where there is too much. @returns whether there may be more */
  async #removeContent(isPressed: boolean): Promise<boolean> {
    const { database, limits, onRemoved } = this.parts;
    if (!isPressed && (await this.contentOctets()) <= limits.maxOctets) return false;
    // What others have removed since is in the sum: before anything goes, all is summed anew.
    this.#forgetSum();
    let surplus = (await this.contentOctets()) - limits.maxOctets;
    for (let slices = 0; surplus > 0 && slices < mostSlices; slices += 1) {
      const rows = await database.query(
        `SELECT id, octets FROM (SELECT id, octets, sum(octets) OVER (ORDER BY id) AS sum FROM
           (SELECT id, ${octets} AS octets FROM journal_content ORDER BY id LIMIT ${rowsAtOnce}) AS first) AS summed
         WHERE sum - octets < $1::bigint`,
        [surplus],
      );
      if (rows.length === 0) return false;
      await database.run(`DELETE FROM journal_content WHERE ${those}`, [idsOf(rows)]);
      const freed = rows.reduce((sum, row) => sum + Number(row['octets']), 0);
      surplus -= freed;
      this.#sum.octets -= freed;
      onRemoved('content', rows.length);
    }
    return surplus > 0;
  }
}
