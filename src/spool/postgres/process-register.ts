// The processes that work on one spool, each with a row that it keeps alive; what one has claimed comes back to the others some seconds
// after it has ended without a word. It is judged by whether its row changes while it is looked at, by no clock of another host, and
// says itself how long its row may stay unchanged: gateways whose settings differ do not take each other for dead.

import { hostname } from 'node:os';
import type { Row } from '../../base/database/database.ts';
import { errorCode } from '../../base/errors.ts';
import { lazily } from '../../base/load/lazily.ts';
import { Part } from '../../base/part.ts';
import { integer } from '../stored-rows.ts';
import type { ServerParts } from './server/database-clock.ts';
import type { Send } from './server/postgres-session.ts';
import { changeAnyLine, inLines, lineColumns, turnBesideEarlier } from './spool-lines.ts';

/** The ways in which a process writes at once, each in one transaction at a time. */
const mostWays = 8;

/** A transaction that writes, by its process, its way and its number. */
export interface BatchKey {
  readonly id: number;
  readonly way: number;
  readonly batch: number;
}

const enter = `WITH entered AS (INSERT INTO spool_processes (name, beats, batch, patience_ms, form)
    VALUES ($1, 0, 0, $2::integer, 1) RETURNING id)
  INSERT INTO spool_fences (process, way, batch) SELECT id, way, 0 FROM entered, generate_series(0, ${mostWays - 1}) AS way
  RETURNING process AS id`;
const beat = 'UPDATE spool_processes SET beats = beats + 1 WHERE id = $1::bigint RETURNING id';
// Fails (division by zero) where the row is gone or the number was used, so that nothing of the transaction is kept.
const fence = `WITH mine AS (UPDATE spool_fences SET batch = $3::bigint
    WHERE process = $1::bigint AND way = $2::smallint AND batch < $3::bigint RETURNING 1)
  SELECT 1 / count(*) AS writes FROM mine`;
// Fails where the row is gone, and keeps it until the transaction ends: who removes it gives back what was claimed before.
const presence = `SELECT 1 / count(*) AS present FROM
  (SELECT 1 FROM spool_processes WHERE id = $1::bigint FOR KEY SHARE) AS mine`;
// Numbers of transactions are even; the odd one behind says that it was not kept, so that who asks again hears the same.
const outdo = `UPDATE spool_fences SET batch = $3::bigint + 1
  WHERE process = $1::bigint AND way = $2::smallint AND (batch < $3::bigint OR batch = $3::bigint + 1) RETURNING 1 AS undone`;
const leave = 'DELETE FROM spool_processes WHERE id = $1::bigint';
const others = 'SELECT id, beats, patience_ms FROM spool_processes';
const remove = 'DELETE FROM spool_processes WHERE id = $1::bigint AND beats = $2::bigint RETURNING id';
/** The statement that gives back recipients. @param whose the condition that picks them */
export const releaseWhere = (whose: string): string =>
  inLines(`UPDATE spool_recipients SET claimed_by = NULL, due_at = next_attempt_at WHERE (message, position) IN
    (SELECT message, position FROM spool_recipients WHERE ${whose} ORDER BY message, position FOR UPDATE)
    RETURNING ${lineColumns}`);
const releaseOrphans = releaseWhere('claimed_by IS NOT NULL AND claimed_by NOT IN (SELECT id FROM spool_processes)');
const releaseOwn = releaseWhere('claimed_by = $1::bigint');

const divisionByZero = '22012';

/** How often the rows are looked at, as a part of the time after which a process is taken for dead. */
const looksPerPatience = 6;
/** How much of that time may pass from one look to the next, if what was seen before is to count. */
const mostUnseen = 0.5;

interface Seen {
  /** Its beats when they were last looked at, and since when they have not grown, by our own clock. */
  readonly beats: number;
  readonly since: number;
  /** How long they may stay so, in milliseconds. */
  readonly patienceMs: number;
}

interface RegisterParts extends Pick<ServerParts, 'session'> {
  readonly monotonic: () => number;
  /** How long the row of this process may stay unchanged before others take it for dead, in milliseconds. */
  readonly patienceMs: number;
}

/** The row of this process, and what it knows of the others. */
export class ProcessRegister extends Part<RegisterParts> {
  #seen: ReadonlyMap<number, Seen> = new Map();
  #lookedAt = Number.NEGATIVE_INFINITY;
  /** Dead processes were seen, and what they held is not given back yet. */
  #owesRelease = false;
  #entered = lazily(() => this.#enter());
  #id: number | undefined;
  /** The number of the last transaction of each way. */
  #batches: number[] = [];

  /** The number of this process; it is entered at the first use. */
  id(): Promise<number> {
    return this.#entered();
  }

  async #enter(): Promise<number> {
    const [row] = await this.parts.session.query(enter, [`${hostname()} ${process.pid}`, this.parts.patienceMs]);
    this.#batches = Array<number>(mostWays).fill(0);
    this.#id = integer(row ?? {}, 'id');
    return this.#id;
  }

  /** The number of this process, and of the next transaction of a way. They follow one another. */
  async nextBatch(way: number): Promise<BatchKey> {
    const id = await this.id();
    const batch = (this.#batches[way] ?? 0) + 2;
    this.#batches[way] = batch;
    return { id, way, batch };
  }

  /** Sends the first statement of a transaction that writes: it fails where `wasKept` has already said that it was not kept. */
  sendFence(send: Send, { id, way, batch }: BatchKey): void {
    void send(fence, [id, way, batch]);
    void send(turnBesideEarlier);
  }

  /** Sends the last statement of a transaction that claims: it fails where others have taken this process for dead. */
  sendPresence(send: Send, id: number): void {
    void send(presence, [id]);
  }

  /** Whether a transaction failed because others took this process for dead. */
  isForgotten(thrown: unknown): boolean {
    return errorCode(thrown) === divisionByZero;
  }

  /** Enters this process again. @param id the number that is no longer valid */
  async renew(id: number): Promise<void> {
    if (this.#id === id) {
      this.#id = undefined;
      this.#entered = lazily(() => this.#enter());
    }
    await this.id();
  }

  /** Tells whether a transaction was kept; false makes sure that it never is. undefined: others have taken this process for dead. */
  async wasKept({ id, way, batch }: BatchKey): Promise<boolean | undefined> {
    const undone = await this.parts.session.query(outdo, [id, way, batch]);
    if (undone.length > 0) return false;
    // A connection that breaks while COMMIT waits for a synchronous standby leaves a transaction that only the primary has. This
    // write comes after it, so that once this one is confirmed, the standby has both.
    const known = await this.parts.session.query(beat, [id]);
    return known.length > 0 ? true : undefined;
  }

  /** Keeps this process's row alive and now and then gives back what dead ones held; to be called once a second. @returns whether something was given back */
  async tend(): Promise<boolean> {
    const now = this.parts.monotonic();
    // As often as the least patient of them asks for: between two looks the server may have been away for all.
    let least = this.parts.patienceMs;
    for (const { patienceMs } of this.#seen.values()) least = Math.min(least, patienceMs);
    if (now - this.#lookedAt < least / looksPerPatience) return false;
    if (this.#id !== undefined) await this.parts.session.query(beat, [this.#id]);
    const sinceLook = now - this.#lookedAt;
    this.#lookedAt = now;
    const dead = this.#look(await this.parts.session.query(others), now, sinceLook);
    this.#owesRelease ||= dead.length > 0;
    for (const { id, beats } of dead) await this.parts.session.query(remove, [id, beats]);
    if (!this.#owesRelease) return false;
    await this.releaseDead();
    this.#owesRelease = false;
    return true;
  }

  #look(rows: readonly Row[], now: number, sinceLook: number): readonly { id: number; beats: number }[] {
    const seen = new Map<number, Seen>();
    for (const row of rows) {
      const [id, beats] = [integer(row, 'id'), integer(row, 'beats')];
      const known = this.#seen.get(id);
      const patienceMs = row['patience_ms'] === null ? this.parts.patienceMs : integer(row, 'patience_ms');
      // After a time without a look nobody can be judged.
      const isJudged = known?.beats === beats && sinceLook <= patienceMs * mostUnseen;
      seen.set(id, isJudged ? known : { beats, since: now, patienceMs });
    }
    this.#seen = seen;
    return [...seen].flatMap(([id, { beats, since, patienceMs }]) =>
      id !== this.#id && now - since >= patienceMs ? [{ id, beats }] : [],
    );
  }

  /** Gives back what processes held that are no longer there. */
  async releaseDead(): Promise<void> {
    await changeAnyLine(this.parts.session, releaseOrphans, []);
  }

  /** Gives back everything that this process holds. */
  async releaseOwn(): Promise<void> {
    if (this.#id !== undefined) await changeAnyLine(this.parts.session, releaseOwn, [this.#id]);
  }

  /** Ends the row of this process; what it still holds goes back to the others. */
  async leave(): Promise<void> {
    if (this.#id === undefined) return;
    await this.releaseOwn();
    await this.parts.session.query(leave, [this.#id]);
  }
}
