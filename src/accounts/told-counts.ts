// Counts that several gateways keep together (D91a): each in its own memory, with one row of its own, written each second, and those of the
// others read. A limit may be passed by what the others took within two seconds, and by what they do not tell of small clients.

import { randomUUID } from 'node:crypto';
import type { Clock } from '../base/clock.ts';
import { countedAddress } from '../base/counted-address.ts';
import type { Database, Migrations } from '../base/database/database.ts';
import { tellOnce } from '../base/fault/tell-once.ts';
import { onceAtATime } from '../base/load/once-at-a-time.ts';
import type { Logger } from '../base/log.ts';
import { Part } from '../base/part.ts';
import type { WindowLimit } from '../base/process-group.ts';
import type { MinuteCounts } from './minute-window.ts';

/** The one table of it; made where the configuration asks for it. */
export const toldCountMigrations: Migrations = {
  owner: 'told-counts',
  steps: [
    `CREATE TABLE told_counts (
       process TEXT PRIMARY KEY,
       told_at INTEGER NOT NULL,
       counts TEXT NOT NULL
     ) STRICT, WITHOUT ROWID;`,
  ],
};

const sql = {
  tell: `INSERT INTO told_counts VALUES ($1, $2, $3)
    ON CONFLICT (process) DO UPDATE SET told_at = excluded.told_at, counts = excluded.counts`,
  hear: 'SELECT told_at, counts FROM told_counts WHERE process <> $1 AND told_at > $2',
  leave: 'DELETE FROM told_counts WHERE process = $1 OR told_at < $2',
} as const;

/** How often the others are told and asked, in milliseconds. */
const everyMs = 1000;
/** What a process that has gone had told is forgotten after this time, in milliseconds. */
const forgottenMs = 3_600_000;
/** Clients that are remembered, and that are told of at a time: a flood of addresses is bounded. */
const most = { remembered: 50_000, told: 500 };
/** The parts of a limit from which the others are told of a client, the first ones first: a flood of clients hides none of them. */
const toldFrom = [1 / 2, 1 / 50] as const;

/** What is counted under a key: how much, and until when on the monotonic clock, in milliseconds. */
interface Count {
  count: number;
  readonly until: number;
  readonly limit: number;
}

/** What a row says of a key: how much, and for how many milliseconds from when it was told. */
type Told = Readonly<Record<string, readonly [count: number, leftMs: number]>>;

/** The counts of a row that are there and can be read: one that is damaged is no reason to pass over the others. */
function readTold(counts: unknown): readonly (readonly [key: string, count: number, leftMs: number])[] {
  let told: unknown;
  try {
    told = JSON.parse(String(counts));
  } catch {
    return []; // the row is damaged, and its gateway writes it anew within a second
  }
  if (typeof told !== 'object' || told === null) return [];
  return Object.entries(told).flatMap(([key, value]) => {
    const [count, leftMs]: readonly unknown[] = Array.isArray(value) ? value : [];
    const isSound = typeof count === 'number' && count >= 0 && typeof leftMs === 'number' && Number.isFinite(leftMs);
    return isSound ? [[key, count, leftMs] as const] : [];
  });
}

/** The counts of one gateway, and what the others have told. Asking them is a look into memory. */
export class ToldCounts
  extends Part<ToldCountsParts & { readonly database: Database }>
  implements Omit<MinuteCounts, 'totals'>
{
  readonly #process = randomUUID();
  /** In the order in which the windows began. */
  readonly #windows = new Map<string, Count>();
  #others = new Map<string, { count: number; until: number }>();
  #timer: NodeJS.Timeout | undefined;
  #hasTold = false;
  #isClosed = false;
  readonly #teller = tellOnce({
    fault: (err) => this.parts.log.warn({ err }, 'counts of the other gateways cannot be read for now'),
    over: () => undefined,
  });
  /** Tells the others, and hears of them; where one exchange is under way, it is that one. Never rejects. */
  readonly exchange = onceAtATime(() => this.#tellAndHear().then(this.#teller.worked, this.#teller.failed));

  /** Begins to count together with the others. @throws what the database throws */
  static async open(database: Database, parts: ToldCountsParts): Promise<ToldCounts> {
    await database.migrate(toldCountMigrations);
    const counts = new ToldCounts({ ...parts, database });
    await counts.#leave();
    counts.#timer = setInterval(() => void counts.exchange(), everyMs).unref();
    return counts;
  }

  /** As `MinuteCounts.take`, with the messages of the others. */
  take(account: string, limit: number): number {
    return this.parts.minutes.take(account, limit - this.#ofOthers(`minute ${account}`));
  }

  /** As `MinuteCounts.ask`, with the messages of the others. */
  ask(account: string, limit: number): number {
    return this.parts.minutes.ask(account, limit - this.#ofOthers(`minute ${account}`));
  }

  giveBack(account: string): void {
    this.parts.minutes.giveBack(account);
  }

  /** Counts one more of a client in its window. @param name what is limited @returns seconds to its end where it is too many, or 0 */
  takeWindow(name: string, { requests, perSeconds }: WindowLimit, address: string): number {
    const key = `${name} ${countedAddress(address)}`;
    const now = this.parts.clock.monotonic();
    const own = this.#windows.get(key);
    const window = own && own.until > now && own.limit === requests ? own : undefined;
    if ((window?.count ?? 0) + this.#ofOthers(key) >= requests) {
      const until = window?.until ?? this.#others.get(key)?.until ?? now;
      return Math.max(1, Math.ceil((until - now) / 1000));
    }
    if (window) window.count += 1;
    else this.#begin(key, { count: 1, until: now + perSeconds * 1000, limit: requests });
    return 0;
  }

  /** Ends it; what this gateway has counted is no longer counted by the others, or where the database is away, for its time alone. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#isClosed = true;
    // Waits for one under way.
    await this.exchange();
    await this.#leave().catch((err: unknown) => {
      this.parts.log.warn({ err }, 'what this gateway has counted counts for others until its time is over');
    });
  }

  /** Removes the row of this gateway, and those of gateways that ended without it. */
  async #leave(): Promise<void> {
    await this.parts.database.run(sql.leave, [this.#process, (await this.#databaseTime()) - forgottenMs]);
  }

  #ofOthers(key: string): number {
    const told = this.#others.get(key);
    return told && told.until > this.parts.clock.monotonic() ? told.count : 0;
  }

  #begin(key: string, window: Count): void {
    this.#windows.delete(key);
    const now = this.parts.clock.monotonic();
    for (const [old, { until }] of this.#windows) {
      if (until > now && this.#windows.size < most.remembered) break;
      this.#windows.delete(old);
    }
    this.#windows.set(key, window);
  }

  #counted(): Told {
    const now = this.parts.clock.monotonic();
    const told: Record<string, [number, number]> = {};
    for (const [account, count] of this.parts.minutes.totals()) told[`minute ${account}`] = [count, 60_000];
    let left = most.told;
    for (const part of toldFrom) {
      for (const [key, { count, until, limit }] of this.#windows) {
        if (left === 0) return told;
        if (until <= now || count < limit * part || key in told) continue;
        told[key] = [count, until - now];
        left -= 1;
      }
    }
    return told;
  }

  async #tellAndHear(): Promise<void> {
    if (this.#isClosed) return;
    const now = await this.#databaseTime();
    const counted = this.#counted();
    const isAny = Object.keys(counted).length > 0;
    if (isAny || this.#hasTold) await this.parts.database.run(sql.tell, [this.#process, now, JSON.stringify(counted)]);
    this.#hasTold = isAny;
    const rows = await this.parts.database.query(sql.hear, [this.#process, now - forgottenMs]);
    const others = new Map<string, { count: number; until: number }>();
    const monotonic = this.parts.clock.monotonic();
    for (const row of rows) {
      const ageMs = Math.max(0, now - Number(row['told_at']));
      for (const [key, count, leftMs] of readTold(row['counts'])) {
        const until = monotonic + leftMs - ageMs;
        if (until <= monotonic) continue;
        const before = others.get(key);
        others.set(key, { count: count + (before?.count ?? 0), until: Math.max(until, before?.until ?? 0) });
      }
    }
    this.#others = others;
  }

  /** Milliseconds since 1970 by the clock of the database, which all share. */
  async #databaseTime(): Promise<number> {
    return this.parts.clock.now() - Math.round(await this.parts.database.aheadMs());
  }
}

/** What counts of several gateways are made from. */
export interface ToldCountsParts {
  readonly clock: Clock;
  readonly log: Logger;
  /** Counts the messages of this gateway. */
  readonly minutes: MinuteCounts;
}
