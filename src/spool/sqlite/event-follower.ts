// What readers of events need and no commit waits for (D90): what finds and counts events, and what became of the journal's messages. It
// is made behind the commits up to a cursor; searches look at the events behind that one by one, and the journal's readers wait for it.

import type { Row } from '../../base/database/database.ts';
import { isDamaged } from '../../base/database/sqlite-errors.ts';
import { type DatabaseSync, inTransaction, prepareAll } from '../../base/database/sqlite-file.ts';
import { Part } from '../../base/part.ts';
import { readFacts, shareNumbers, shares } from '../encoded-event.ts';
import type { EventLimits } from '../events/event-store.ts';
import type { EventFacts } from '../events/mail-event.ts';
import type { SqliteJournal } from '../journal/writer/journal-tables.ts';
import { keyNumbersOf, keyNumbersOfFacts } from '../search/find-events.ts';
import { accountKey, indexKeysOf } from './sqlite-events.ts';

/** Events of one slice: what comes meanwhile waits some milliseconds for it. */
export const followedAtOnce = 512;
/** Events removed in one slice at most. */
const removedAtOnce = 256;
/** Events of one slice where something is damaged: each then has transactions of its own. */
const carefulAtOnce = 64;

interface Keyed {
  readonly key: bigint;
  readonly event: number;
}

/** Keys that one statement adds, where there are so many. */
const addedAtOnce = 64;

/** What adds keys to a table: one at a time, or many. */
function addingTo(database: DatabaseSync, table: string) {
  const one = `INSERT OR IGNORE INTO ${table} VALUES (?, ?)`;
  return prepareAll(database, { one, many: `${one}${', (?, ?)'.repeat(addedAtOnce - 1)}` });
}

/** Writes keys in their order, so that neighbours in the tree are written together. */
function write({ one, many }: ReturnType<typeof addingTo>, keyed: Keyed[]): void {
  keyed.sort((left, right) => (left.key < right.key ? -1 : left.key > right.key ? 1 : left.event - right.event));
  const full = keyed.length - (keyed.length % addedAtOnce);
  for (let at = 0; at < full; at += addedAtOnce)
    many.run(...keyed.slice(at, at + addedAtOnce).flatMap(({ key, event }) => [key, event]));
  for (const { key, event } of keyed.slice(full)) one.run(key, event);
}

function prepare(database: DatabaseSync) {
  const columns = 'id, account, share, kind, queue_id, event';
  return {
    index: addingTo(database, 'mail_event_index'),
    keys: addingTo(database, 'mail_event_keys'),
    ...prepareAll(database, {
      state: 'SELECT indexed, noted FROM mail_event_state',
      newest: "SELECT seq FROM sqlite_sequence WHERE name = 'mail_events'",
      indexed: 'UPDATE mail_event_state SET indexed = ?',
      some: `SELECT at, ${columns} FROM mail_events WHERE id > ? AND id <= ? ORDER BY id LIMIT ?`,
      removeIndex: 'DELETE FROM mail_event_index WHERE key = ? AND event = ?',
      removeKey: 'DELETE FROM mail_event_keys WHERE key = ? AND event = ?',
      count: `INSERT INTO mail_event_counts VALUES (?1, ?2, ?3)
      ON CONFLICT (account, share) DO UPDATE SET events = events + ?3`,
      counts: 'SELECT account, share, events FROM mail_event_counts WHERE events > ? AND share = ?',
      first: 'SELECT id, at FROM mail_events WHERE id > ? AND id <= ? ORDER BY id LIMIT 1',
      oldestOf: `SELECT e.id, e.account, share, kind, queue_id, e.event FROM mail_event_index k
      JOIN mail_events e ON e.id = k.event WHERE k.key = ? AND e.account = ? ORDER BY k.event LIMIT ?`,
      remove: 'DELETE FROM mail_events WHERE id = ?',
    }),
  };
}

/** Files all events of a database that nobody else has open, and removes none. @param database its tables are up to date */
export function fileEvents(database: DatabaseSync, journal?: SqliteJournal): void {
  const all = { ageMilliseconds: Infinity, mail: Infinity, refusals: Infinity, copies: Infinity };
  const follower = new EventFollower({ database, limits: all, journal });
  for (let isMore = true; isMore; ) isMore = follower.follow(0);
}

interface FollowerParts {
  /** Its tables are up to date. */
  readonly database: DatabaseSync;
  readonly limits: EventLimits;
  /** Where what became of messages is noted; absent: nowhere. */
  readonly journal?: SqliteJournal | undefined;
}

/** Follows the events of one database. */
export class EventFollower extends Part<FollowerParts> {
  readonly #sql = prepare(this.parts.database);
  /** A page was found to be damaged: from then on each event has transactions of its own. */
  #isCareful = false;
  /** Events since the start that were passed over, because they or what they are found by is damaged. */
  passedOver = 0;
  /** Events up to this one stand on damaged pages, and stay. */
  #stuck = 0;

  /** Events that were written and are not filed; those that were undone are among them. */
  get unfiled(): number {
    return Math.max(0, this.#newest - Number(this.#sql.state.get()?.['indexed'] ?? 0));
  }

  /**
   * Does one slice: files some events, and removes some that are too old or too many. Where something is damaged, it goes on behind it.
   * @param now stored time
   * @returns whether there may be more to do
   * @throws what SQLite throws; then a part of the slice has changed nothing
   */
  follow(now: number): boolean {
    try {
      const isMore = this.#fileSome();
      return this.#removeSome(now) || isMore;
    } catch (thrown) {
      if (this.#isCareful || !isDamaged(thrown)) throw thrown;
      this.#isCareful = true;
      return this.follow(now);
    }
  }

  get #newest(): number {
    return Number(this.#sql.newest.get()?.['seq'] ?? 0);
  }

  #fileSome(): boolean {
    if (this.unfiled === 0) return false;
    return this.#asOne(() => {
      const state = this.#sql.state.get();
      const [indexed, noted] = [Number(state?.['indexed'] ?? 0), Number(state?.['noted'] ?? 0)];
      const { rows, end } = this.#rows(indexed, this.#newest, this.#isCareful ? carefulAtOnce : followedAtOnce);
      const taken = rows.map((row) => ({ row, facts: readFacts(String(row['event'])) }));
      for (const some of this.#isCareful ? taken.map((one) => [one]) : [taken]) {
        // In the journal an earlier release has noted what became of messages up to there.
        const told = some.flatMap(({ row: { id, kind, queue_id: message }, facts }) =>
          Number(id) > noted && typeof message === 'string' ? [{ kind: String(kind), message, facts }] : [],
        );
        this.#unlessDamaged(() => this.parts.journal?.note(told));
        this.#unlessDamaged(() => this.#file(some));
      }
      this.#unlessDamaged(() => this.#sql.indexed.run(end));
      return end < this.#newest;
    });
  }

  /** Reads the rows behind an id up to another one. @returns them, and up to which id there are no others */
  #rows(after: number, until: number, most: number): { readonly rows: readonly Row[]; readonly end: number } {
    if (!this.#isCareful) {
      const rows = this.#sql.some.all(after, until, most);
      return { rows, end: rows.length === most ? Number(rows.at(-1)?.['id']) : until };
    }
    const end = Math.min(until, after + most);
    const rows: Row[] = [];
    for (let id = after + 1; id <= end; id += 1) {
      this.#unlessDamaged(() => {
        const row = this.#sql.some.get(id - 1, id, 1);
        if (row) rows.push(row);
      });
    }
    return { rows, end };
  }

  /** @param taken events of the table; without facts they are damaged */
  #file(taken: readonly { readonly row: Row; readonly facts: EventFacts | undefined }[]): void {
    const [index, keys]: [Keyed[], Keyed[]] = [[], []];
    for (const { row, facts } of taken) {
      const event = Number(row['id']);
      const account = String(row['account']);
      if (!facts) this.passedOver += 1;
      for (const key of indexKeysOf(row)) index.push({ key, event });
      for (const key of keyNumbersOfFacts(account, facts)) keys.push({ key, event });
    }
    write(this.#sql.index, index);
    write(this.#sql.keys, keys);
    for (const own of Map.groupBy(taken, ({ row }) => `${String(row['share'])} ${String(row['account'])}`).values()) {
      const { account, share } = own[0]?.row ?? {};
      this.#sql.count.run(String(account), Number(share), own.length);
    }
  }

  /** Removes some events that are too many or too old. @returns whether there may be more */
  #removeSome(now: number): boolean {
    const from = now - this.parts.limits.ageMilliseconds;
    const indexed = Number(this.#sql.state.get()?.['indexed'] ?? 0);
    const hasSurplus = shares.some((share) => this.#sql.counts.get(this.parts.limits[share], shareNumbers[share]));
    const first = this.#first(indexed);
    if (!hasSurplus && (!first || Number(first['at']) >= from)) return false;
    return this.#asOne(() => this.#removeSurplus() + this.#removeAged(from, indexed) > 0);
  }

  /** The first event that can be read and removed; undefined where there is none, or it is still to be found. */
  #first(indexed: number): Row | undefined {
    for (let tries = 0; tries < removedAtOnce && this.#stuck < indexed; tries += 1) {
      let first: Row | undefined;
      if (this.#unlessDamaged(() => void (first = this.#sql.first.get(this.#stuck, indexed)))) return first;
      this.#stuck += 1;
    }
    return undefined;
  }

  /** Removes some events of accounts that have too many. @returns how many */
  #removeSurplus(): number {
    let removed = 0;
    for (const share of shares) {
      for (const row of this.#sql.counts.all(this.parts.limits[share], shareNumbers[share])) {
        const account = String(row['account']);
        const over = Math.min(removedAtOnce - removed, Number(row['events']) - this.parts.limits[share]);
        if (over <= 0) return removed;
        let events: readonly Row[] = [];
        this.#unlessDamaged(() => void (events = this.#sql.oldestOf.all(accountKey(account, share), account, over)));
        for (const event of events) if (this.#remove(event)) removed += 1;
      }
    }
    return removed;
  }

  /** Removes some events of before a time. @returns how many */
  #removeAged(from: number, indexed: number): number {
    let removed = 0;
    const first = this.#first(indexed);
    if (!first || Number(first['at']) >= from) return 0;
    for (const row of this.#rows(Number(first['id']) - 1, indexed, removedAtOnce).rows) {
      if (Number(row['at']) >= from) break;
      if (this.#remove(row)) removed += 1;
      else this.#stuck = Number(row['id']);
    }
    return removed;
  }

  /** Removes an event with every trace of it; keys without an event are found by nobody. @returns whether it could be */
  #remove(row: Row): boolean {
    const [id, account] = [Number(row['id']), String(row['account'])];
    const isRemoved = this.#unlessDamaged(() => {
      this.#sql.remove.run(id);
      this.#sql.count.run(account, Number(row['share']), -1);
    });
    this.#unlessDamaged(() => {
      for (const key of indexKeysOf(row)) this.#sql.removeIndex.run(key, id);
    });
    this.#unlessDamaged(() => {
      for (const key of keyNumbersOf(account, String(row['event']))) this.#sql.removeKey.run(key, id);
    });
    return isRemoved;
  }

  /** Runs work in one transaction, or with care: SQLite ends a transaction that has come upon damage. */
  #asOne(work: () => boolean): boolean {
    return this.#isCareful ? work() : this.unsynced(work);
  }

  /** Runs a part of what runs together. @returns false where what it needs is damaged; then it has changed nothing, and is counted */
  #unlessDamaged(work: () => void): boolean {
    try {
      if (this.#isCareful) this.unsynced(work);
      else work();
      return true;
    } catch (thrown) {
      if (!this.#isCareful || !isDamaged(thrown)) throw thrown;
      this.passedOver += 1;
      return false;
    }
  }

  /** Runs a transaction that need not be on disk: what a crash takes back is made again, and the next commit syncs it as well. */
  unsynced<Result>(work: () => Result): Result {
    this.parts.database.exec('PRAGMA synchronous = NORMAL');
    try {
      return inTransaction(this.parts.database, work);
    } finally {
      this.parts.database.exec('PRAGMA synchronous = FULL');
    }
  }
}
