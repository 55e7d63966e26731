// Shares of next hops that processes lease from each other in their database, so that limits hold for all together. A process that ended is
// known by its row, which stays unchanged while it is looked at, and by no clock; its shares come back some seconds later.

import { createHash } from 'node:crypto';
import type { MonotonicClock } from '../../base/clock.ts';
import { type Database, type Migrations, placeholders, type Queryable } from '../../base/database/database.ts';
import { errorMessage } from '../../base/errors.ts';
import { randomHex } from '../../base/ids.ts';
import type { Logger } from '../../base/log.ts';
import { Part } from '../../base/part.ts';
import { type Granted, type HopShare, type HopShares, type ShareUser, shareOf } from './hop-share.ts';

/** The tables. beats: grows while the process lives. A hop is named by a digest. */
export const shareMigrations: Migrations = {
  owner: 'hop-shares',
  steps: [
    `CREATE TABLE hop_holders (
       holder TEXT NOT NULL PRIMARY KEY,
       beats INTEGER NOT NULL
     ) STRICT, WITHOUT ROWID;
     CREATE TABLE hop_shares (
       hop TEXT NOT NULL,
       holder TEXT NOT NULL REFERENCES hop_holders (holder) ON DELETE CASCADE,
       granted INTEGER NOT NULL,
       PRIMARY KEY (hop, holder)
     ) STRICT, WITHOUT ROWID;
     CREATE INDEX hop_shares_of_holder ON hop_shares (holder);`,
  ],
};

/** A next hop that this process has mail for. */
interface WantedShare {
  readonly hop: string;
  readonly most: number;
  readonly open: number;
}

/** Next hops that one question is about, at most. */
const hopsAtOnce = 200;

const sql = {
  enter: 'INSERT INTO hop_holders (holder, beats) VALUES ($1, 0) ON CONFLICT (holder) DO NOTHING',
  beat: 'UPDATE hop_holders SET beats = beats + 1 WHERE holder = $1',
  holders: 'SELECT holder, beats FROM hop_holders',
  forget: 'DELETE FROM hop_holders WHERE holder = $1 AND beats = $2',
  leave: 'DELETE FROM hop_holders WHERE holder = $1',
} as const;

/** What each process has of each of some next hops. */
type GrantedShares = ReadonlyMap<string, ReadonlyMap<string, number>>;

/** The shares of one process, whose name `holder` no other has, not even a later one. Every promise rejects where the database fails. */
export class ShareStore extends Part<{ readonly database: Database; readonly holder: string }> {
  /** Enters this process, or says that it lives. @returns false where the others had taken it for dead and have its shares */
  async beat(): Promise<boolean> {
    if ((await this.parts.database.run(sql.beat, [this.parts.holder])) === 1) return true;
    await this.parts.database.run(sql.enter, [this.parts.holder]);
    return false;
  }

  async holders(): Promise<ReadonlyMap<string, number>> {
    const rows = await this.parts.database.query(sql.holders);
    return new Map(rows.map((row) => [String(row['holder']), Number(row['beats'])]));
  }

  /** Takes the shares of a process that has not said since that it lives. */
  async forget(holder: string, beats: number): Promise<void> {
    await this.parts.database.run(sql.forget, [holder, beats]);
  }

  /** Ends this process: the others have its shares. */
  async leave(): Promise<void> {
    await this.parts.database.run(sql.leave, [this.parts.holder]);
  }

  /** Gives back the shares of next hops, at most `hopsAtOnce`. */
  async drop(hops: readonly string[]): Promise<void> {
    const statement = `DELETE FROM hop_shares WHERE holder = $1 AND hop IN ${placeholders(1, hops.length, 2)}`;
    await this.parts.database.run(statement, [this.parts.holder, ...hops]);
  }

  /** Writes the shares of `hopsAtOnce` next hops that change; where none does it only reads. @throws Error where it is taken for dead */
  async renew(wanted: readonly WantedShare[]): Promise<ReadonlyMap<string, Granted>> {
    const first = this.#shares(wanted, await this.#read(this.parts.database, wanted));
    if (first.changed.length === 0) return first.shares;
    const changed = new Set(first.changed.map(({ hop }) => hop));
    const again = wanted.filter(({ hop }) => changed.has(hop));
    const written = await this.parts.database.transaction(async (transaction) => {
      const last = this.#shares(again, await this.#read(transaction, again));
      if (last.changed.length > 0) {
        await transaction.run(
          `INSERT INTO hop_shares (hop, holder, granted) VALUES ${placeholders(last.changed.length, 3)}
             ON CONFLICT (hop, holder) DO UPDATE SET granted = excluded.granted`,
          last.changed.flatMap(({ hop, granted }) => [hop, this.parts.holder, granted]),
        );
      }
      return last.shares;
    });
    return new Map([...first.shares, ...written]);
  }

  async #read(from: Queryable, wanted: readonly WantedShare[]): Promise<GrantedShares> {
    const statement = `SELECT hop, holder, granted FROM hop_shares WHERE hop IN ${placeholders(1, wanted.length)}`;
    const hops = wanted.map(({ hop }) => hop);
    const rows = await from.query(statement, hops);
    const granted = new Map<string, Map<string, number>>();
    for (const row of rows) {
      const holders = granted.get(String(row['hop'])) ?? new Map<string, number>();
      granted.set(String(row['hop']), holders.set(String(row['holder']), Number(row['granted'])));
    }
    return granted;
  }

  #shares(wanted: readonly WantedShare[], granted: GrantedShares) {
    const shares = new Map<string, Granted>();
    const changed: { readonly hop: string; readonly granted: number }[] = [];
    for (const { hop, most, open } of wanted) {
      const others = new Map(granted.get(hop));
      const before = others.get(this.parts.holder);
      others.delete(this.parts.holder);
      const share = shareOf({ name: this.parts.holder, granted: before ?? 0, open, most }, others);
      shares.set(hop, share);
      if (share.granted !== before) changed.push({ hop, granted: share.granted });
    }
    return { shares, changed };
  }
}

/** How often shares are looked at, in milliseconds; with more next hops than are read at once as many times less often. */
const defaultLookMs = 1000;
/** How often a process says that it lives, in looks. */
const looksPerBeat = 3;
/** How often a process without a share may try to get one that it has no mail for in hand, in looks. */
const looksWithout = 10;
/** After how long without a sign a process is taken for dead, in looks. */
const looksToDeath = 15;

interface LeasedSharesParts {
  readonly store: ShareStore;
  readonly clock: MonotonicClock;
  readonly log: Logger;
  /** How often shares are looked at, in milliseconds; 1000 if absent. */
  readonly lookMs?: number;
}

interface Lease {
  readonly hop: string;
  readonly users: Set<ShareUser>;
  /** There is mail for it, or there was at the last look. */
  isWanted: boolean;
  /** undefined: it was not asked for yet. */
  share: Granted | undefined;
}

/** Opens the shares of this process. */
export async function openShares(database: Database, parts: Omit<LeasedSharesParts, 'store'>): Promise<LeasedShares> {
  await database.migrate(shareMigrations);
  return new LeasedShares({ ...parts, store: new ShareStore({ database, holder: randomHex(16) }) });
}

class LeasedShares extends Part<LeasedSharesParts> implements HopShares {
  readonly #lookMs = this.parts.lookMs ?? defaultLookMs;
  readonly #leases = new Map<string, Lease>();
  /** Each process's beats, and since when they have not grown, by our own clock. */
  #seen = new Map<string, { readonly beats: number; readonly since: number }>();
  #looks = 0;
  #beatAt = Number.NEGATIVE_INFINITY;
  #isEntered = false;
  #timer: NodeJS.Timeout | undefined;
  #round: Promise<void> | undefined;
  #isAsked = false;
  #isStopped = false;

  share(hop: string, user: ShareUser): HopShare {
    const key = createHash('sha256').update(hop).digest('hex').slice(0, 32);
    const lease = this.#leases.get(key) ?? { hop: key, users: new Set(), isWanted: false, share: undefined };
    this.#leases.set(key, lease);
    lease.users.add(user);
    const most = (): number => Math.max(1, user.most());
    const connections = (): number => Math.min(lease.share?.granted ?? 0, lease.share?.fair ?? 0, most());
    return {
      get connections() {
        return connections();
      },
      get part() {
        return connections() / most();
      },
      get isNone() {
        return lease.share?.fair === 0 && lease.share.granted === 0;
      },
      want: () => this.#want(lease),
      end: () => lease.users.delete(user),
    };
  }

  /** Gives everything back and ends. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearInterval(this.#timer);
    await this.#round;
    // Where the database is away, the others find out by themselves.
    if (this.#isEntered) await this.parts.store.leave().catch(() => undefined);
  }

  #want(lease: Lease): void {
    if (lease.isWanted || this.#isStopped) return;
    lease.isWanted = true;
    this.#timer ??= setInterval(() => this.#ask(), this.#lookMs);
    // Shares that are wanted together are asked for together.
    if (!this.#isAsked) setImmediate(() => this.#ask());
    this.#isAsked = true;
  }

  #ask(): void {
    if (this.#isStopped || this.#round) return;
    this.#isAsked = false;
    this.#round = this.#look()
      .catch((thrown: unknown) => {
        this.parts.log.warn({ reason: errorMessage(thrown) }, 'shares of next hops cannot be read');
        // It may have been taken for dead; then it has to be entered first.
        this.#isEntered = false;
      })
      .finally(() => {
        this.#round = undefined;
        if (this.#isAsked) this.#ask();
      });
  }

  async #look(): Promise<void> {
    await this.#tend();
    this.#looks += 1;
    await this.#dropUnused();
    const all = [...this.#leases.values()].filter(({ isWanted }) => isWanted);
    const parts = Math.max(1, Math.ceil(all.length / hopsAtOnce));
    // Of very many next hops those that were not asked for yet come first, and the others by turns.
    const due = all.filter(({ share }, index) => !share || index % parts === this.#looks % parts);
    for (let at = 0; at < due.length; at += hopsAtOnce) await this.#renew(due.slice(at, at + hopsAtOnce));
  }

  async #renew(leases: readonly Lease[]): Promise<void> {
    const wanted = leases.map(({ hop, users }) => ({
      hop,
      most: Math.max(1, ...[...users].map((user) => user.most())),
      open: [...users].reduce((sum, user) => sum + user.open(), 0),
    }));
    const shares = await this.parts.store.renew(wanted);
    for (const lease of leases) {
      const before = lease.share;
      lease.share = shares.get(lease.hop);
      if (before?.granted === lease.share?.granted && before?.fair === lease.share?.fair) continue;
      for (const user of lease.users) user.changed();
    }
  }

  async #dropUnused(): Promise<void> {
    const unused = [...this.#leases.values()].filter(({ users, share }) => {
      // Whoever has no share gives its mail back, and is to know for a while that it need not claim it again.
      const isTooEarly = share?.fair === 0 && this.#looks % looksWithout !== 0;
      return !isTooEarly && [...users].every((user) => user.isUnused());
    });
    const given = unused.filter(({ share }) => share !== undefined);
    for (const lease of unused) {
      lease.isWanted = false;
      lease.share = undefined;
      if (lease.users.size === 0) this.#leases.delete(lease.hop);
    }
    for (let at = 0; at < given.length; at += hopsAtOnce)
      await this.parts.store.drop(given.slice(at, at + hopsAtOnce).map(({ hop }) => hop));
  }

  /** Says that this process lives, and takes what dead ones had. */
  async #tend(): Promise<void> {
    const { store, clock } = this.parts;
    const patienceMs = looksToDeath * this.#lookMs;
    const now = clock.monotonic();
    if (this.#isEntered && now - this.#beatAt < looksPerBeat * this.#lookMs) return;
    const isKnown = await store.beat();
    // The others have its shares: it begins with none.
    if (!isKnown) for (const lease of this.#leases.values()) lease.share = undefined;
    this.#isEntered = true;
    // After a time without a look nobody can be judged: the database may have been away for all.
    if (now - this.#beatAt > patienceMs / 2) this.#seen = new Map();
    this.#beatAt = now;
    const seen = new Map<string, { readonly beats: number; readonly since: number }>();
    for (const [holder, beats] of await store.holders()) {
      const known = this.#seen.get(holder);
      const same = known?.beats === beats ? known : { beats, since: now };
      seen.set(holder, same);
      if (now - same.since >= patienceMs) await store.forget(holder, beats);
    }
    this.#seen = seen;
  }
}
