// Keeps partitions ready for what comes next: the journal's of some days, and those of the events.

import { isPartitioned, waitShortly } from '../../base/database/postgres-partitions.ts';
import { missingJournalDays } from '../journal/journal-partitions.ts';
import { changeAlone } from './events/change-alone.ts';
import type { EventPartitions } from './events/event-partitions.ts';
import type { DatabaseClock } from './server/database-clock.ts';
import type { PostgresSession } from './server/postgres-session.ts';

const dayMs = 86_400_000;
/** Days that are there before they begin. */
const daysAhead = 3;
/** How often they are looked for, and after what time those are tried again that others held, in milliseconds. */
const lookEveryMs = 60_000;

/** Makes partitions ahead of time. */
export class PartitionTender {
  readonly #session: PostgresSession;
  readonly #clock: DatabaseClock;
  readonly #events: EventPartitions;
  #isOn: boolean | undefined;
  #lookedAt = Number.NEGATIVE_INFINITY;

  constructor(parts: {
    readonly session: PostgresSession;
    readonly clock: DatabaseClock;
    readonly partitions: EventPartitions;
  }) {
    this.#session = parts.session;
    this.#clock = parts.clock;
    this.#events = parts.partitions;
  }

  /** Makes what is missing; to be called at the start and once a second. @throws Unavailable where others hold the tables */
  async tend(): Promise<void> {
    await this.#events.makeAhead();
    const ask = (sql: string, values: readonly (number | string)[] = []) =>
      this.#session.query(sql, values, { isPlannedAnew: true });
    this.#isOn ??= await isPartitioned(ask, 'journal');
    const now = performance.now();
    if (!this.#isOn || now - this.#lookedAt < lookEveryMs) return;
    this.#lookedAt = now;
    // The ids of rows are of this host's own clock.
    const today = this.#clock.now();
    const span = { since: today - dayMs, until: today + daysAhead * dayMs };
    if ((await missingJournalDays(ask, span)).length === 0) return;
    const isMine = await changeAlone(this.#session, async (send) => {
      void send(waitShortly);
      for (const statements of await missingJournalDays(send, span))
        for (const sql of statements) await send(sql, [], { isPlannedAnew: true });
    });
    if (!isMine) this.#lookedAt = Number.NEGATIVE_INFINITY;
  }
}
