// What is done behind the rows in SQLite: the index of the search is filled, and what is too old or too much is removed. It is
// done in slices, each a transaction that keeps the file's lock for some milliseconds only, so that an accept does not wait.

import type { Change, Database } from '../../../base/database/database.ts';
import { Part } from '../../../base/part.ts';
import type { JournalLimits, JournalQuery, Removed } from '../journal.ts';
import { leastIdOf, outcomeNumbers } from '../journal-row.ts';
import { fillWords, matchOf } from './words.ts';

/** Octets of content that are removed in one slice, about: each of its pages costs time. */
const octetsAtOnce = 8_388_608;
const dayMs = 86_400_000;

const waiting = `SELECT state.indexed, max(rows.seq) AS last, coalesce(sum(rows.octets), 0) AS octets FROM journal_state state
  LEFT JOIN (SELECT seq, octets FROM journal WHERE seq > (SELECT indexed FROM journal_state) ORDER BY seq LIMIT $1) rows`;
// In a text of JSON a quotation mark has a backslash before it, so that no subject looks like this.
const isCopy = `instr(facts, '"shadow":true') > 0`;
/** Rows of which an account has at most so many: the table that counts them, and which they are. */
const bounded = {
  // The plus keeps SQLite from going through all refusals by the index of the outcome.
  refusals: { table: 'journal_refusals', are: `+outcome = ${outcomeNumbers.refused} AND NOT ${isCopy}` },
  copies: { table: 'journal_copies', are: isCopy },
} as const;
type Bounded = keyof typeof bounded;
const counts = Object.values(bounded).map(
  ({ table, are }) => `INSERT INTO ${table} SELECT account, count(*) FROM journal
  WHERE seq > $1 AND seq <= $2 AND ${are} GROUP BY account
  ON CONFLICT (account) DO UPDATE SET rows = rows + excluded.rows`,
);
const those = '(SELECT value FROM json_each($1))';

// SQLite merges parts of the index by itself, with much at once where most of a part is of removed rows, and keeps its lock for
// seconds meanwhile. It is told not to, and merges are slices of their own.
const settings = ["('automerge', 0)", "('crisismerge', 100)"];
/** Merges parts of the index until so many pages are written. */
const merge = "INSERT INTO journal_words (journal_words, rank) VALUES ('merge', $1)";
/** Pages of one such slice at most, and such slices for each slice that has changed the index; more than these are not owed. */
const mergedPages = 64;
const mergesForChange = 2;
const mostOwed = 2000;

/** The change that every removal begins with. */
const lessOctets = `UPDATE journal_state SET octets = octets - (SELECT coalesce(sum(octets), 0) FROM journal WHERE seq IN ${those})`;

/** The further changes that remove rows with everything that belongs to them. */
function removal(seqs: readonly number[]): readonly Change[] {
  const params = [JSON.stringify(seqs)];
  const statements = [
    `DELETE FROM journal_words WHERE rowid IN ${those}`,
    `DELETE FROM journal_content WHERE seq IN ${those}`,
    ...Object.values(bounded).map(
      ({ table, are }) => `UPDATE ${table} SET rows = rows - gone.removed FROM (SELECT account, count(*) AS removed
       FROM json_each($1) chosen JOIN journal ON journal.seq = chosen.value WHERE ${are} GROUP BY account) gone
     WHERE gone.account = ${table}.account`,
    ),
    `DELETE FROM journal WHERE seq IN ${those}`,
  ];
  return statements.map((sql) => ({ sql, params }));
}

/** What a slice should take at most, in milliseconds: for so long an accept may have to wait for it. */
const sliceMs = 20;
const fewestRows = 8;
const mostRows = 512;

/** How many rows a slice of one kind of work may have to take some milliseconds here: found by doing it. @param most rows */
function paceOf(most = mostRows) {
  const pace = {
    rows: 64,
    /** Does a slice, and learns from it. @param work gives how long it took, in milliseconds */
    async take(work: () => Promise<number | undefined>): Promise<void> {
      const ms = (await work()) ?? 0;
      if (ms > sliceMs) pace.rows = Math.max(fewestRows, Math.floor(pace.rows / 2));
      else if (ms < sliceMs / 2) pace.rows = Math.min(most, pace.rows * 2);
    },
  };
  return pace;
}

/** Tends the journal of one file. */
export class SqliteTender extends Part<{
  readonly database: Database;
  readonly limits: JournalLimits;
  readonly onRemoved: (removed: Removed, count: number) => void;
}> {
  readonly #paces = { fill: paceOf(), rows: paceOf(), content: paceOf(), merge: paceOf(mergedPages) };
  /** Slices of merges that are to be done. */
  #owedMerges = 0;
  #hasSettings = false;
  /** Fewer rows than a slice may be filled: once for each time that all was done, or under load each slice would be of a few rows. */
  #mayFillRest = true;
  readonly #jobs: readonly ((now: number) => Promise<boolean>)[] = [
    () => this.#fill(),
    () => this.#removeContent(),
    (now) => this.#removeAged(now - this.parts.limits.keepDays * dayMs),
    () => this.#removeMany('refusals', { outcome: 'refused', shadow: false }),
    () => this.#removeMany('copies', { shadow: true }),
    () => this.#mergeWords(),
  ];
  #turn = 0;

  /** Does one slice of what is to be done, of each kind in turn. @returns whether there may be more to do */
  async tend(now: number): Promise<boolean> {
    for (let looked = 0; looked < this.#jobs.length; looked += 1) {
      const job = this.#jobs[this.#turn];
      this.#turn = (this.#turn + 1) % this.#jobs.length;
      if (await job?.(now)) return true;
    }
    this.#mayFillRest = true;
    return false;
  }

  /** Fills the index of some rows. @returns whether there were any, here and below */
  async #fill(): Promise<boolean> {
    const pace = this.#paces.fill;
    const [found] = await this.parts.database.query(waiting, [pace.rows]);
    const last = found?.['last'] ?? null;
    if (last === null) return false;
    const span = [Number(found?.['indexed']), Number(last)] as const;
    const isRest = span[1] - span[0] < pace.rows;
    if (isRest && !this.#mayFillRest) return false;
    if (isRest) this.#mayFillRest = false;
    const octets = Number(found?.['octets']);
    // Another process may have filled these rows meanwhile.
    const moved = 'UPDATE journal_state SET indexed = $2, octets = octets + $3 WHERE indexed = $1';
    const fills = [fillWords, ...counts].map((sql) => ({ sql, params: span }));
    await pace.take(() => this.parts.database.runWith({ sql: moved, params: [...span, octets] }, fills));
    this.#oweMerges();
    return true;
  }

  async #removeContent(): Promise<boolean> {
    const pace = this.#paces.content;
    const [state] = await this.parts.database.query('SELECT octets, indexed FROM journal_state');
    const surplus = Number(state?.['octets'] ?? 0) - this.parts.limits.maxOctets;
    if (surplus <= 0) return false;
    const rows = await this.parts.database.query(
      `SELECT seq FROM (SELECT seq, octets, sum(octets) OVER (ORDER BY seq) AS sum
         FROM (SELECT c.seq, j.octets FROM journal_content c JOIN journal j ON j.seq = c.seq WHERE c.seq <= $1
           ORDER BY c.seq LIMIT $2))
       WHERE sum - octets < $3 ORDER BY seq`,
      [Number(state?.['indexed'] ?? 0), pace.rows, Math.min(surplus, octetsAtOnce)],
    );
    const gone = rows.map(({ seq }) => Number(seq));
    if (gone.length === 0) return false;
    const params = [JSON.stringify(gone)];
    const changes = [
      `DELETE FROM journal_content WHERE seq IN ${those}`,
      `UPDATE journal SET octets = 0 WHERE seq IN ${those}`,
    ].map((sql) => ({ sql, params }));
    await pace.take(() => this.parts.database.runWith({ sql: lessOctets, params }, changes));
    this.parts.onRemoved('content', gone.length);
    return true;
  }

  /** Removes some rows that are too old by their ids; where a clock was ahead meanwhile, its rows stay for so much longer. */
  async #removeAged(oldest: number): Promise<boolean> {
    const rows = await this.parts.database.query(
      `SELECT seq FROM journal WHERE id < $1 AND seq <= (SELECT indexed FROM journal_state)
       AND seq < (SELECT max(seq) FROM journal) ORDER BY id LIMIT $2`,
      [leastIdOf(Math.max(0, oldest)), this.#paces.rows.rows],
    );
    return await this.#remove('aged', rows);
  }

  /** Removes some rows of a kind, of an account that has too many. @param those how the index finds them */
  async #removeMany(kind: Bounded, those: Pick<JournalQuery, 'outcome' | 'shadow'>): Promise<boolean> {
    const most = this.parts.limits[kind];
    const [over] = await this.parts.database.query(
      `SELECT account, rows FROM ${bounded[kind].table} WHERE rows > $1 LIMIT 1`,
      [most],
    );
    if (!over) return false;
    const [account, surplus] = [String(over['account']), Number(over['rows']) - most];
    const match = matchOf({ account, ...those, limit: 1 }, undefined) ?? '';
    const rows = await this.parts.database.query(
      `SELECT rowid AS seq FROM journal_words WHERE journal_words MATCH $1
       AND rowid < (SELECT max(seq) FROM journal) ORDER BY rowid LIMIT $2`,
      [match, Math.min(surplus, this.#paces.rows.rows)],
    );
    return await this.#remove(kind, rows);
  }

  #oweMerges(): void {
    this.#owedMerges = Math.min(mostOwed, this.#owedMerges + mergesForChange);
  }

  /** Merges some of the index, which clears words of removed rows away and keeps it quick. */
  async #mergeWords(): Promise<boolean> {
    if (!this.#hasSettings) {
      for (const pair of settings)
        await this.parts.database.run(`INSERT INTO journal_words (journal_words, rank) VALUES ${pair}`);
      this.#hasSettings = true;
    }
    if (this.#owedMerges === 0) return false;
    this.#owedMerges -= 1;
    const pace = this.#paces.merge;
    await pace.take(() => this.parts.database.runWith({ sql: merge, params: [pace.rows] }, []));
    return true;
  }

  async #remove(removed: Removed, rows: readonly Readonly<Record<string, unknown>>[]): Promise<boolean> {
    if (rows.length === 0) return false;
    const seqs = rows.map(({ seq }) => Number(seq));
    await this.#paces.rows.take(() =>
      this.parts.database.runWith({ sql: lessOctets, params: [JSON.stringify(seqs)] }, removal(seqs)),
    );
    this.#oweMerges();
    this.parts.onRemoved(removed, seqs.length);
    return true;
  }
}
