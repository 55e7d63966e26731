// The partitions of what is kept by age: days of the journal, ranges of ids of events and their keys. How many events a day has is not
// known before: each new partition is as large as the last day was, and is there before the first id of its own is given.

import {
  type AskServer,
  isPartitioned,
  makePartition,
  type Partition,
  partitionsOf,
  waitShortly,
} from '../../../base/database/postgres-migrations.ts';
import { lazily } from '../../../base/load/lazily.ts';
import { Part } from '../../../base/part.ts';
import { leastIdOf } from '../../journal/journal-row.ts';
import { firstEventFrom, lateMs } from '../../search/find-events.ts';
import { integer, text } from '../../stored-rows.ts';
import type { ServerParts } from '../server/database-clock.ts';
import { anew, type PostgresSession, type Send } from '../server/postgres-session.ts';
import { EventCounts, takeTurn } from './written-events.ts';

/** Events of a partition, at least and at most; so many ids are kept free ahead at least. */
export const leastEvents = 10_000;
const mostEvents = 20_000_000;
const dayMs = 86_400_000;
/** Days of the journal that are there before they begin. */
const daysAhead = 3;
/** Days that get partitions of their own at most; older rows go into DEFAULT, from where they are removed one by one. */
const mostDays = 100;
/** How often partitions are looked for while there is room enough, and those to be dropped, in milliseconds. */
const lookEveryMs = 60_000;
/** How long is waited before the tables are tried again that others held, in milliseconds. */
const pauseMs = 10_000;
/** Events that are counted by one statement. */
const countedAtOnce = 100_000;

const mine = "SELECT pg_try_advisory_xact_lock(hashtextextended('postern partitions ' || current_schema(), 0)) AS mine";
const newest = 'SELECT last_event FROM spool_state';
const firstAndLast = (name: string): string => `SELECT (SELECT at FROM ${name} ORDER BY id LIMIT 1) AS first,
  (SELECT at FROM ${name} ORDER BY id DESC LIMIT 1) AS last`;

/** A partition with its bounds as numbers: `to` is the first id behind it, and `suffix` what its name ends in, in both tables. */
function numbered({ name, from, to, isDefault }: Partition) {
  if (isDefault) return [];
  const suffix = name.slice('mail_events_'.length);
  return [{ suffix, from: Number(from ?? 1), to: to === null ? Number.MAX_SAFE_INTEGER : Number(to) }];
}

/** The statements that make the partitions of both tables for ids from the first one on and before the second. */
function makeEventPartition(from: number, to: number): readonly string[] {
  const range = { from: String(from), to: String(to) };
  return [
    ...makePartition('mail_event_keys', { name: `mail_event_keys_${from}`, key: 'event', ...range }),
    ...makePartition('mail_events', { name: `mail_events_${from}`, key: 'id', ...range }),
  ];
}

// The journal has a partition a day: ids of its rows are UUIDv7, and a row and its content stand in those of one day.
const journalTables = ['journal', 'journal_content'] as const;

/** The statements that make the missing partitions of the days between two times. */
async function missingJournalDays(ask: AskServer, since: number, until: number): Promise<readonly string[]> {
  const all: string[][] = [];
  const existing = await Promise.all(journalTables.map((table) => partitionsOf(ask, table)));
  for (let day = Math.floor(since / dayMs) * dayMs; day <= until; day += dayMs) {
    const [from, to] = [leastIdOf(day), leastIdOf(day + dayMs)];
    const name = new Date(day).toISOString().slice(0, 10).replaceAll('-', '');
    const statements = journalTables.flatMap((table, at) => {
      const own = existing[at] ?? [];
      const isThere = own.some((one) => !one.isDefault && (one.from ?? '') < to && (one.to ?? '~') > from);
      if (own.length === 0 || isThere) return [];
      const made = makePartition(table, { name: `${table}_${name}`, key: 'id', from, to });
      // Room in each page for outcomes: of a row changed within its page the server's log gets the change, else all of it.
      return table === 'journal' ? [...made, `ALTER TABLE journal_${name} SET (fillfactor = 80)`] : made;
    });
    all.push(statements);
  }
  return all.flat();
}

/**
 * Makes the partitions that are missing for rows of the journal, its content and the events. Where there are none, because the server has
 * none or rows come first, everything works as well: DEFAULT takes them.
 * @param ask asks inside a transaction, which is to be undone where this fails
 * @param written the times of the journal's rows, milliseconds since 1970, and the greatest id of the events
 * @throws what `ask` throws, such as Unavailable where others hold the tables
 */
export async function ensurePartitions(
  ask: AskServer,
  { since, until, lastEvent }: { readonly since: number; readonly until: number; readonly lastEvent: number },
): Promise<void> {
  if (await isPartitioned(ask, 'journal')) {
    const first = Math.max(since, until - mostDays * dayMs);
    for (const sql of await missingJournalDays(ask, first, until)) await ask(sql);
  }
  const events = await partitionsOf(ask, 'mail_events');
  const end = events.reduce((most, { to }) => Math.max(most, Number(to ?? 0)), 1);
  if (events.length === 0 || end > lastEvent) return;
  for (const sql of makeEventPartition(end, lastEvent + 1)) await ask(sql);
}

/** Runs a transaction that changes partitions, one process at a time. @returns whether it was run; else another's is under way */
async function changeAlone(session: PostgresSession, work: (send: Send) => Promise<void>): Promise<boolean> {
  return await session.transaction(async (send) => {
    const [row] = await send(mine);
    if (row?.['mine'] !== true) return false;
    await work(send);
    return true;
  });
}

/** Makes and drops partitions. */
export class EventPartitions extends Part<ServerParts> {
  readonly #hasPartitions = lazily(() => isPartitioned(this.parts.session.query, 'mail_events'));
  readonly #askAnew: AskServer = (sql, values) => this.parts.session.query(sql, values, anew);
  readonly #hasDays = lazily(() => isPartitioned(this.#askAnew, 'journal'));
  #lookedForDaysAt = Number.NEGATIVE_INFINITY;
  #known: readonly ReturnType<typeof numbered>[number][] = [];
  #ahead = leastEvents;
  #lookAt = Number.NEGATIVE_INFINITY;
  /** The last change of the tables met nobody who held them. */
  #isFree = true;
  #droppedAt = Number.NEGATIVE_INFINITY;

  /** The first ids of the partitions in order; none where the tables are whole. */
  get starts(): readonly number[] {
    return this.#known.map(({ from }) => from);
  }

  /** The partition of an id; undefined where it is in DEFAULT, or the tables are whole. */
  holding(id: number) {
    return this.#known.find(({ from, to }) => from <= id && id < to);
  }

  async #look(ask: AskServer = this.parts.session.query): Promise<void> {
    const found = await partitionsOf(ask, 'mail_events');
    this.#known = found.flatMap(numbered).toSorted((one, other) => one.from - other.from);
  }

  get #end(): number {
    return this.#known.at(-1)?.to ?? 1;
  }

  async #last(ask: AskServer = this.parts.session.query): Promise<number> {
    const [row = {}] = await ask(newest);
    return integer(row, 'last_event');
  }

  /** Makes ahead what is missing; to be called at the start and once a second. @throws Unavailable where others hold the tables */
  async tend(): Promise<void> {
    await this.#makeAhead();
    const now = performance.now();
    if (!(await this.#hasDays()) || now - this.#lookedForDaysAt < lookEveryMs) return;
    this.#lookedForDaysAt = now;
    // The ids of rows are of this host's own clock.
    const today = this.parts.clock.now();
    const [since, until] = [today - dayMs, today + daysAhead * dayMs];
    if ((await missingJournalDays(this.#askAnew, since, until)).length === 0) return;
    const isMine = await changeAlone(this.parts.session, async (send) => {
      void send(waitShortly);
      for (const sql of await missingJournalDays(send, since, until)) await send(sql, [], anew);
    });
    if (!isMine) this.#lookedForDaysAt = Number.NEGATIVE_INFINITY;
  }

  async #makeAhead(): Promise<void> {
    if (!(await this.#hasPartitions())) return;
    const last = await this.#last();
    const now = performance.now();
    const isShort = last + this.#ahead >= this.#end;
    if (now < this.#lookAt && !(isShort && this.#isFree)) return;
    this.#lookAt = now + pauseMs;
    this.#isFree = false;
    const since = this.parts.clock.stored(this.parts.clock.now()) - dayMs;
    const ofDay = last === 0 ? 0 : last - (await this.parts.session.steps(firstEventFrom(since, last))) + 1;
    this.#ahead = Math.min(Math.max(leastEvents, ofDay), mostEvents);
    await this.#look();
    const isShortStill = last + this.#ahead >= this.#end;
    const isDone = !isShortStill || (await changeAlone(this.parts.session, (send) => this.#make(send)));
    if (isShortStill) await this.#look();
    this.#isFree = true;
    if (isDone) this.#lookAt = now + lookEveryMs;
  }

  async #make(send: Send): Promise<void> {
    await this.#look(send);
    let last = await this.#last(send);
    if (this.#end <= last) {
      // Ids have run ahead of the partitions: their events are in DEFAULT, and nobody is given one meanwhile.
      const [now = {}] = await send(`${takeTurn} RETURNING last_event`, [0]);
      last = integer(now, 'last_event');
    }
    void send(waitShortly);
    let from = Math.max(this.#end, last + 1);
    for (; from <= last + this.#ahead; from += this.#ahead)
      for (const sql of makeEventPartition(from, from + this.#ahead)) await send(sql, [], anew);
  }

  /** Drops partitions older than a stored time, once a minute, and counts their events off. @throws Unavailable where they are held */
  async dropAged(limit: number): Promise<void> {
    const now = performance.now();
    if (now - this.#droppedAt < lookEveryMs || !(await this.#hasPartitions())) return;
    this.#droppedAt = now;
    await this.#dropDetached();
    await this.#look();
    const last = await this.#last();
    for (const { suffix, to } of this.#known) {
      // Who writes has no id of it any more.
      if (to > last + 1 || !(await this.#isAged(suffix, limit))) continue;
      await this.#detach(suffix);
      await this.#dropDetached();
    }
    await this.#look();
  }

  async #isAged(suffix: string, limit: number): Promise<boolean> {
    const [row] = await this.parts.session.query(firstAndLast(`mail_events_${suffix}`), [], anew);
    const isOld = (at: unknown): boolean => at === null || Number(at) < limit - lateMs;
    return isOld(row?.['first'] ?? null) && isOld(row?.['last'] ?? null);
  }

  /** Takes a partition off its tables. Both are locked in the order in which searches read them. */
  async #detach(suffix: string): Promise<void> {
    await changeAlone(this.parts.session, async (send) => {
      void send(takeTurn, [0]);
      void send(waitShortly);
      void send('INSERT INTO mail_event_removals (partition) VALUES ($1::text)', [suffix]);
      void send(`ALTER TABLE mail_event_keys DETACH PARTITION mail_event_keys_${suffix}`, [], anew);
      await send(`ALTER TABLE mail_events DETACH PARTITION mail_events_${suffix}`, [], anew);
    });
  }

  /** Counts the events of partitions that were taken off, and drops them; also of those whose process ended in between. */
  async #dropDetached(): Promise<void> {
    for (const row of await this.parts.session.query('SELECT partition FROM mail_event_removals')) {
      const suffix = text(row, 'partition');
      const counted = await this.#count(`mail_events_${suffix}`);
      await this.parts.session.transaction(async (send) => {
        void send(takeTurn, [0]);
        const mine = await send('DELETE FROM mail_event_removals WHERE partition = $1::text RETURNING 1', [suffix]);
        // Another process was here.
        if (mine.length === 0) return;
        counted.send(send);
        await send(`DROP TABLE mail_events_${suffix}, mail_event_keys_${suffix}`, [], anew);
      });
    }
  }

  /** Counts the events of a table that nobody changes, some at a time. @returns what is less without them */
  async #count(name: string): Promise<EventCounts> {
    const counts = new EventCounts();
    const [bounds] = await this.parts.session.query(`SELECT min(id) AS low, max(id) AS high FROM ${name}`, [], anew);
    const high = Number(bounds?.['high'] ?? -1);
    for (let low = Number(bounds?.['low'] ?? 0); low <= high; low += countedAtOnce) {
      const rows = await this.parts.session.query(
        `SELECT account, share, count(*) AS events FROM ${name} WHERE id >= $1::bigint AND id < $2::bigint GROUP BY account, share`,
        [low, low + countedAtOnce],
        anew,
      );
      for (const row of rows) counts.add(text(row, 'account'), integer(row, 'share'), -integer(row, 'events'));
    }
    return counts;
  }
}
