// Keeps partitions ready for what comes next: the journal's of some days, and those of the events.

import { isPartitioned, waitShortly } from '../../base/database/postgres-partitions.ts';
import { missingJournalDays } from '../journal/journal-partitions.ts';
import { changeAlone } from './events/change-alone.ts';
import type { EventPartitions } from './events/event-partitions.ts';
import type { ServerParts } from './server/database-clock.ts';

const dayMs = 86_400_000;
/** Days that are there before they begin. */
const daysAhead = 3;
/** How often they are looked for, and after what time those are tried again that others held, in milliseconds. */
const lookEveryMs = 60_000;

/** Makes partitions ahead of time. */
export class PartitionTender {
  readonly #parts: ServerParts & { readonly partitions: EventPartitions };
  #isOn: boolean | undefined;
  #lookedAt = Number.NEGATIVE_INFINITY;

  constructor(parts: ServerParts & { readonly partitions: EventPartitions }) {
    this.#parts = parts;
  }

  /** Makes what is missing; to be called at the start and once a second. @throws Unavailable where others hold the tables */
  async tend(): Promise<void> {
    await this.#parts.partitions.makeAhead();
    const ask = (sql: string, values: readonly (number | string)[] = []) =>
      this.#parts.session.query(sql, values, { isPlannedAnew: true });
    this.#isOn ??= await isPartitioned(ask, 'journal');
    const now = performance.now();
    if (!this.#isOn || now - this.#lookedAt < lookEveryMs) return;
    this.#lookedAt = now;
    // The ids of rows are of this host's own clock.
    const today = this.#parts.clock.now();
    const span = { since: today - dayMs, until: today + daysAhead * dayMs };
    if ((await missingJournalDays(ask, span)).length === 0) return;
    const isMine = await changeAlone(this.#parts.session, async (send) => {
      void send(waitShortly);
      for (const statements of await missingJournalDays(send, span))
        for (const sql of statements) await send(sql, [], { isPlannedAnew: true });
    });
    if (!isMine) this.#lookedAt = Number.NEGATIVE_INFINITY;
  }
}
