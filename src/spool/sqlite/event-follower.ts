// What readers of events need and no commit of a message waits for (D90): by what events are found, and how many there are. It is
// made behind the commits, some events at a time in the order of their keys, up to a cursor that is kept with it. Searches look at
// the events behind the cursor one by one, so that nothing is missing before it is made.

import type { DatabaseSync, StatementSync } from '../../base/database/sqlite-file.ts';
import type { EventLimits } from '../../events/event-store.ts';
import { shareNumbers, shares } from '../packed-event.ts';
import { accountKey, isRare, kindKey, messageKey } from '../search/event-index.ts';
import { keyNumbersOf } from '../search/searched-event.ts';

/** Events of one slice: what comes meanwhile waits some milliseconds for it. */
export const followedAtOnce = 512;
/** Events removed in one slice at most. */
const removedAtOnce = 256;
/** Events over which the tables of an older release are filled at once, when they are opened. */
const builtAtOnce = 4096;

/** A row of mail_events, as far as its keys tell. */
type KeyedRow = Readonly<Record<string, unknown>>;

/** The keys under which an event is in mail_event_index. */
function indexKeysOf({ account, share, kind, queue_id: message }: KeyedRow): bigint[] {
  const name = String(account);
  const keys = [accountKey(name, share === shareNumbers.refusals ? 'refusals' : 'mail')];
  if (isRare(String(kind))) keys.push(kindKey(name, String(kind)));
  if (typeof message === 'string') keys.push(messageKey(message));
  return keys;
}

/** A key of an event. */
interface Keyed {
  readonly key: bigint;
  readonly event: number;
}

/** Writes keys in their order, so that neighbours in the tree are written together. */
function write(statement: StatementSync, keyed: Keyed[]): void {
  keyed.sort((left, right) => (left.key < right.key ? -1 : left.key > right.key ? 1 : left.event - right.event));
  for (const { key, event } of keyed) statement.run(key, event);
}

function prepare(database: DatabaseSync) {
  const columns = 'id, account, share, kind, queue_id, event';
  return {
    state: database.prepare('SELECT indexed, built FROM mail_event_state'),
    indexed: database.prepare('UPDATE mail_event_state SET indexed = ?'),
    built: database.prepare('UPDATE mail_event_state SET built = ?'),
    some: database.prepare(`SELECT ${columns} FROM mail_events WHERE id > ? ORDER BY id LIMIT ?`),
    addIndex: database.prepare('INSERT OR IGNORE INTO mail_event_index VALUES (?, ?)'),
    addKey: database.prepare('INSERT OR IGNORE INTO mail_event_keys VALUES (?, ?)'),
    removeIndex: database.prepare('DELETE FROM mail_event_index WHERE key = ? AND event = ?'),
    removeKey: database.prepare('DELETE FROM mail_event_keys WHERE key = ? AND event = ?'),
    count: database.prepare(`INSERT INTO mail_event_counts VALUES (?1, ?2, ?3)
      ON CONFLICT (account, share) DO UPDATE SET events = events + ?3`),
    counts: database.prepare('SELECT account, share, events FROM mail_event_counts WHERE events > ? AND share = ?'),
    oldest: database.prepare(`SELECT at, ${columns} FROM mail_events WHERE id <= ? ORDER BY id LIMIT ?`),
    oldestOf: database.prepare(`SELECT e.id, e.account, share, kind, queue_id, e.event FROM mail_event_index k
      JOIN mail_events e ON e.id = k.event WHERE k.key = ? AND e.account = ? ORDER BY k.event LIMIT ?`),
    remove: database.prepare('DELETE FROM mail_events WHERE id = ?'),
  };
}

/** Files all events of a database that nobody else has open, and removes none. @param database its tables are up to date */
export function fileEvents(database: DatabaseSync): void {
  const follower = new EventFollower(database, { ageMilliseconds: Infinity, mail: Infinity, refusals: Infinity });
  for (let isMore = true; isMore; ) isMore = follower.follow(0);
}

/** Follows the events of one database. */
export class EventFollower {
  readonly #database: DatabaseSync;
  readonly #limits: EventLimits;
  readonly #sql: ReturnType<typeof prepare>;

  /** @param database its tables are up to date */
  constructor(database: DatabaseSync, limits: EventLimits) {
    this.#database = database;
    this.#limits = limits;
    this.#sql = prepare(database);
    this.#build();
  }

  /**
   * Does one slice: files some events, and removes some that are too old or too many.
   * @param now stored time
   * @returns whether there may be more to do
   * @throws what SQLite throws; then the slice has changed nothing
   */
  follow(now: number): boolean {
    return this.#unsynced(() => {
      const rows = this.#sql.some.all(Number(this.#sql.state.get()?.['indexed'] ?? 0), followedAtOnce);
      this.#file(rows);
      return this.#removeSurplus() + this.#removeAged(now) > 0 || rows.length === followedAtOnce;
    });
  }

  #file(rows: readonly KeyedRow[]): void {
    const [index, keys]: [Keyed[], Keyed[]] = [[], []];
    const counts = new Map<string, { readonly account: string; readonly share: number; events: number }>();
    for (const row of rows) {
      const event = Number(row['id']);
      const [account, share] = [String(row['account']), Number(row['share'])];
      for (const key of indexKeysOf(row)) index.push({ key, event });
      for (const key of keyNumbersOf(account, String(row['event']))) keys.push({ key, event });
      const counted = counts.get(`${share} ${account}`);
      if (counted) counted.events += 1;
      else counts.set(`${share} ${account}`, { account, share, events: 1 });
    }
    write(this.#sql.addIndex, index);
    write(this.#sql.addKey, keys);
    for (const { account, share, events } of counts.values()) this.#sql.count.run(account, share, events);
    const last = rows.at(-1);
    if (last) this.#sql.indexed.run(Number(last['id']));
  }

  /** Removes some events of accounts that have too many. @returns how many */
  #removeSurplus(): number {
    let removed = 0;
    for (const share of shares) {
      for (const row of this.#sql.counts.all(this.#limits[share], shareNumbers[share])) {
        const account = String(row['account']);
        const over = Math.min(removedAtOnce - removed, Number(row['events']) - this.#limits[share]);
        if (over <= 0) return removed;
        for (const event of this.#sql.oldestOf.all(accountKey(account, share), account, over)) {
          this.#remove(event);
          removed += 1;
        }
      }
    }
    return removed;
  }

  /** Removes some events that are too old. @returns how many */
  #removeAged(now: number): number {
    const indexed = Number(this.#sql.state.get()?.['indexed'] ?? 0);
    let removed = 0;
    const from = now - this.#limits.ageMilliseconds;
    const [first] = this.#sql.oldest.all(indexed, 1);
    if (!first || Number(first['at']) >= from) return 0;
    for (const row of this.#sql.oldest.all(indexed, removedAtOnce)) {
      if (Number(row['at']) >= from) break;
      this.#remove(row);
      removed += 1;
    }
    return removed;
  }

  #remove(row: KeyedRow): void {
    const [id, account] = [Number(row['id']), String(row['account'])];
    this.#sql.remove.run(id);
    for (const key of indexKeysOf(row)) this.#sql.removeIndex.run(key, id);
    for (const key of keyNumbersOf(account, String(row['event']))) this.#sql.removeKey.run(key, id);
    this.#sql.count.run(account, Number(row['share']), -1);
  }

  /** Files the events of a release that had an index of SQLite for each of these keys; `built` is where it was interrupted. */
  #build(): void {
    for (;;) {
      const state = this.#sql.state.get();
      const [built, indexed] = [Number(state?.['built'] ?? 0), Number(state?.['indexed'] ?? 0)];
      if (built >= indexed) return;
      this.#unsynced(() => {
        const rows = this.#sql.some.all(built, builtAtOnce).filter(({ id }) => Number(id) <= indexed);
        write(
          this.#sql.addIndex,
          rows.flatMap((row) => indexKeysOf(row).map((key) => ({ key, event: Number(row['id']) }))),
        );
        this.#sql.built.run(rows.length === 0 ? indexed : Number(rows.at(-1)?.['id']));
        return true;
      });
    }
  }

  /**
   * Runs a transaction that need not be on disk when it returns: whatever a crash takes back is made again from the events. The
   * next commit of a message writes it to disk as well.
   */
  #unsynced(work: () => boolean): boolean {
    this.#database.exec('PRAGMA synchronous = NORMAL');
    try {
      this.#database.exec('BEGIN IMMEDIATE');
      const isMore = work();
      this.#database.exec('COMMIT');
      return isMore;
    } finally {
      if (this.#database.isTransaction) this.#database.exec('ROLLBACK');
      this.#database.exec('PRAGMA synchronous = FULL');
    }
  }
}
