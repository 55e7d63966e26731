// The shares of next hops in the database: who delivers, and how many connections to each next hop each has.

import type { Database, Migrations, Queryable } from '../../base/database/database.ts';
import { placeholders } from '../../base/database/database.ts';
import { type Granted, shareOf } from './hop-share.ts';

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
export interface WantedShare {
  readonly hop: string;
  readonly most: number;
  readonly open: number;
}

/** Next hops that one question is about, at most. */
export const hopsAtOnce = 200;

const sql = {
  enter: 'INSERT INTO hop_holders (holder, beats) VALUES ($1, 0) ON CONFLICT (holder) DO NOTHING',
  beat: 'UPDATE hop_holders SET beats = beats + 1 WHERE holder = $1',
  holders: 'SELECT holder, beats FROM hop_holders',
  forget: 'DELETE FROM hop_holders WHERE holder = $1 AND beats = $2',
  leave: 'DELETE FROM hop_holders WHERE holder = $1',
} as const;

/** What each process has of each of some next hops. */
type GrantedShares = ReadonlyMap<string, ReadonlyMap<string, number>>;

/** The shares of one process. Every promise rejects where the database fails. */
export class ShareStore {
  readonly #database: Database;
  readonly #holder: string;

  /** @param holder names this process; no other has the name, not even one that runs later */
  constructor(database: Database, holder: string) {
    this.#database = database;
    this.#holder = holder;
  }

  /** Enters this process, or says that it lives. @returns false where the others had taken it for dead and have its shares */
  async beat(): Promise<boolean> {
    if ((await this.#database.run(sql.beat, [this.#holder])) === 1) return true;
    await this.#database.run(sql.enter, [this.#holder]);
    return false;
  }

  async holders(): Promise<ReadonlyMap<string, number>> {
    const rows = await this.#database.query(sql.holders);
    return new Map(rows.map((row) => [String(row['holder']), Number(row['beats'])]));
  }

  /** Takes the shares of a process that has not said since that it lives. */
  async forget(holder: string, beats: number): Promise<void> {
    await this.#database.run(sql.forget, [holder, beats]);
  }

  /** Ends this process: the others have its shares. */
  async leave(): Promise<void> {
    await this.#database.run(sql.leave, [this.#holder]);
  }

  /** Gives back the shares of next hops, at most `hopsAtOnce`. */
  async drop(hops: readonly string[]): Promise<void> {
    const list = hops.map((_, index) => `$${index + 2}`).join(', ');
    await this.#database.run(`DELETE FROM hop_shares WHERE holder = $1 AND hop IN (${list})`, [this.#holder, ...hops]);
  }

  /**
   * Works out the shares of next hops, at most `hopsAtOnce`, and writes those that change. Where none does, it only reads.
   * @throws Error where the others have taken this process for dead
   */
  async renew(wanted: readonly WantedShare[]): Promise<ReadonlyMap<string, Granted>> {
    const first = this.#shares(wanted, await this.#read(this.#database, wanted));
    if (first.changed.length === 0) return first.shares;
    const changed = new Set(first.changed.map(({ hop }) => hop));
    const again = wanted.filter(({ hop }) => changed.has(hop));
    const written = await this.#database.transaction(async (transaction) => {
      const last = this.#shares(again, await this.#read(transaction, again));
      if (last.changed.length > 0) {
        await transaction.run(
          `INSERT INTO hop_shares (hop, holder, granted) VALUES ${placeholders(last.changed.length, 3)}
             ON CONFLICT (hop, holder) DO UPDATE SET granted = excluded.granted`,
          last.changed.flatMap(({ hop, granted }) => [hop, this.#holder, granted]),
        );
      }
      return last.shares;
    });
    return new Map([...first.shares, ...written]);
  }

  async #read(from: Queryable, wanted: readonly WantedShare[]): Promise<GrantedShares> {
    const list = wanted.map((_, index) => `$${index + 1}`).join(', ');
    const rows = await from.query(
      `SELECT hop, holder, granted FROM hop_shares WHERE hop IN (${list})`,
      wanted.map(({ hop }) => hop),
    );
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
      const before = others.get(this.#holder);
      others.delete(this.#holder);
      const share = shareOf({ name: this.#holder, granted: before ?? 0, open, most }, others);
      shares.set(hop, share);
      if (share.granted !== before) changed.push({ hop, granted: share.granted });
    }
    return { shares, changed };
  }
}
