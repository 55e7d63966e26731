// The partitions of events and their search keys: ranges of ids. How many events a day has is not known before, so that each new
// partition is as large as the last day was, and is there before the first id of its own is given.

import {
  type AskServer,
  isPartitioned,
  makePartition,
  type Partition,
  partitionsOf,
  waitShortly,
} from '../../../base/database/postgres-partitions.ts';
import { lateMs } from '../../search/searched-event.ts';
import { integer, text } from '../../stored-rows.ts';
import type { ServerParts } from '../server/database-clock.ts';
import type { Send } from '../server/postgres-session.ts';
import { changeAlone } from './change-alone.ts';
import { firstEventFrom } from './event-times.ts';
import { countEvents, takeTurn } from './written-events.ts';

/** Events of a partition, at least and at most; so many ids are kept free ahead at least. */
export const leastEvents = 10_000;
const mostEvents = 20_000_000;
const dayMs = 86_400_000;
/** How often partitions are looked for while there is room enough, and those to be dropped, in milliseconds. */
const lookEveryMs = 60_000;
/** How long is waited before the tables are tried again that others held, in milliseconds. */
const pauseMs = 10_000;
/** Events that are counted by one statement. */
const countedAtOnce = 100_000;

const newest = 'SELECT last_event FROM spool_state';
const firstAndLast = (name: string): string => `SELECT (SELECT at FROM ${name} ORDER BY id LIMIT 1) AS first,
  (SELECT at FROM ${name} ORDER BY id DESC LIMIT 1) AS last`;

/** A partition with its bounds as numbers. `to` is the first id behind it. */
export interface EventPartition {
  /** What its name ends in, in both tables. */
  readonly suffix: string;
  readonly from: number;
  readonly to: number;
}

function numbered({ name, from, to, isDefault }: Partition): readonly EventPartition[] {
  if (isDefault) return [];
  const suffix = name.slice('mail_events_'.length);
  return [{ suffix, from: Number(from ?? 1), to: to === null ? Number.MAX_SAFE_INTEGER : Number(to) }];
}

/** The statements that make the partitions of both tables for ids from the first one on and before the second. */
export function makeEventPartition(from: number, to: number): readonly string[] {
  const range = { from: String(from), to: String(to) };
  return [
    ...makePartition('mail_event_keys', { name: `mail_event_keys_${from}`, key: 'event', ...range }),
    ...makePartition('mail_events', { name: `mail_events_${from}`, key: 'id', ...range }),
  ];
}

/** Makes and drops partitions. */
export class EventPartitions {
  readonly #parts: ServerParts;
  #isOn: boolean | undefined;
  #known: readonly EventPartition[] = [];
  #ahead = leastEvents;
  #lookAt = Number.NEGATIVE_INFINITY;
  /** The last change of the tables met nobody who held them. */
  #isFree = true;
  #droppedAt = Number.NEGATIVE_INFINITY;

  constructor(parts: ServerParts) {
    this.#parts = parts;
  }

  /** The first ids of the partitions in order; none where the tables are whole. */
  get starts(): readonly number[] {
    return this.#known.map(({ from }) => from);
  }

  /** The partition of an id; undefined where it is in DEFAULT, or the tables are whole. */
  holding(id: number): EventPartition | undefined {
    return this.#known.find(({ from, to }) => from <= id && id < to);
  }

  /** Whether events are kept in partitions. */
  async isOn(): Promise<boolean> {
    this.#isOn ??= await isPartitioned((sql, values) => this.#parts.session.query(sql, values), 'mail_events');
    return this.#isOn;
  }

  async #look(ask: AskServer = (sql, values) => this.#parts.session.query(sql, values)): Promise<void> {
    const found = await partitionsOf(ask, 'mail_events');
    this.#known = found.flatMap(numbered).toSorted((one, other) => one.from - other.from);
  }

  get #end(): number {
    return this.#known.at(-1)?.to ?? 1;
  }

  async #last(): Promise<number> {
    const [row] = await this.#parts.session.query(newest);
    return integer(row ?? {}, 'last_event');
  }

  /** Makes what is missing ahead; to be called once a second. @throws Unavailable where others hold the tables: it is tried again */
  async makeAhead(): Promise<void> {
    if (!(await this.isOn())) return;
    const last = await this.#last();
    const now = performance.now();
    const isShort = last + this.#ahead >= this.#end;
    if (now < this.#lookAt && !(isShort && this.#isFree)) return;
    this.#lookAt = now + pauseMs;
    this.#isFree = false;
    const since = this.#parts.clock.stored(this.#parts.clock.now()) - dayMs;
    const ofDay = last === 0 ? 0 : last - (await firstEventFrom(this.#parts.session, since, last)) + 1;
    this.#ahead = Math.min(Math.max(leastEvents, ofDay), mostEvents);
    await this.#look();
    const isShortStill = last + this.#ahead >= this.#end;
    const isDone = !isShortStill || (await changeAlone(this.#parts.session, (send) => this.#make(send)));
    if (isShortStill) await this.#look();
    this.#isFree = true;
    if (isDone) this.#lookAt = now + lookEveryMs;
  }

  async #make(send: Send): Promise<void> {
    await this.#look(send);
    const [row] = await send(newest);
    let last = integer(row ?? {}, 'last_event');
    if (this.#end <= last) {
      // Ids have run ahead of the partitions: their events are in DEFAULT, and nobody is given one meanwhile.
      const [now] = await send(`${takeTurn} RETURNING last_event`, [0]);
      last = integer(now ?? {}, 'last_event');
    }
    void send(waitShortly);
    let from = Math.max(this.#end, last + 1);
    for (; from <= last + this.#ahead; from += this.#ahead)
      for (const sql of makeEventPartition(from, from + this.#ahead)) await send(sql, [], { isPlannedAnew: true });
  }

  /**
   * Drops the partitions whose events are all older than a time, and counts their events off; looks once a minute.
   * @param limit as times are stored
   * @throws Unavailable where others hold the tables: it is tried again
   */
  async dropAged(limit: number): Promise<void> {
    const now = performance.now();
    if (now - this.#droppedAt < lookEveryMs || !(await this.isOn())) return;
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
    const [row] = await this.#parts.session.query(firstAndLast(`mail_events_${suffix}`), [], { isPlannedAnew: true });
    const isOld = (at: unknown): boolean => at === null || Number(at) < limit - lateMs;
    return isOld(row?.['first'] ?? null) && isOld(row?.['last'] ?? null);
  }

  /** Takes a partition off its tables. Both are locked in the order in which searches read them. */
  async #detach(suffix: string): Promise<void> {
    await changeAlone(this.#parts.session, async (send) => {
      void send(takeTurn, [0]);
      void send(waitShortly);
      void send('INSERT INTO mail_event_removals (partition) VALUES ($1::text)', [suffix]);
      const settings = { isPlannedAnew: true };
      void send(`ALTER TABLE mail_event_keys DETACH PARTITION mail_event_keys_${suffix}`, [], settings);
      await send(`ALTER TABLE mail_events DETACH PARTITION mail_events_${suffix}`, [], settings);
    });
  }

  /** Counts the events of partitions that were taken off, and drops them; also of those whose process ended in between. */
  async #dropDetached(): Promise<void> {
    for (const row of await this.#parts.session.query('SELECT partition FROM mail_event_removals')) {
      const suffix = text(row, 'partition');
      const counted = await this.#count(`mail_events_${suffix}`);
      await this.#parts.session.transaction(async (send) => {
        void send(takeTurn, [0]);
        const mine = await send('DELETE FROM mail_event_removals WHERE partition = $1::text RETURNING 1', [suffix]);
        // Another process was here.
        if (mine.length === 0) return;
        if (counted.length > 0)
          void send(countEvents, [
            counted.map(({ account }) => account),
            counted.map(({ share }) => share),
            counted.map(({ events }) => -events),
          ]);
        await send(`DROP TABLE mail_events_${suffix}, mail_event_keys_${suffix}`, [], { isPlannedAnew: true });
      });
    }
  }

  /** Counts the events of a table that nobody changes, some at a time. */
  async #count(name: string) {
    const counts = new Map<string, { readonly account: string; readonly share: number; events: number }>();
    const settings = { isPlannedAnew: true };
    const [bounds] = await this.#parts.session.query(
      `SELECT min(id) AS low, max(id) AS high FROM ${name}`,
      [],
      settings,
    );
    const high = Number(bounds?.['high'] ?? -1);
    for (let low = Number(bounds?.['low'] ?? 0); low <= high; low += countedAtOnce) {
      const rows = await this.#parts.session.query(
        `SELECT account, share, count(*) AS events FROM ${name} WHERE id >= $1::bigint AND id < $2::bigint GROUP BY account, share`,
        [low, low + countedAtOnce],
        settings,
      );
      for (const row of rows) {
        const [account, share] = [text(row, 'account'), integer(row, 'share')];
        const counted = counts.get(`${share} ${account}`) ?? { account, share, events: 0 };
        counted.events += integer(row, 'events');
        counts.set(`${share} ${account}`, counted);
      }
    }
    return [...counts.values()];
  }
}
