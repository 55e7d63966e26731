// What events make of the journal's row of their message, in either engine.

import type { EventFacts } from '../../events/mail-event.ts';
import { outcomeNumbers } from '../journal-row.ts';

/** What the events of a message make of its row; what came before it was queued again counts for `waiting` alone. */
export interface Noted {
  ended: number;
  again: number;
  dropped: number;
  requeued: number;
  failed: number;
  deferred: number;
}

/** What an event adds. Kinds that are not named change nothing. */
const changes: Partial<Record<string, (noted: Noted, facts: () => EventFacts | undefined) => void>> = {
  delivered: (noted) => void (noted.ended += 1),
  deferred: (noted) => void (noted.deferred = 1),
  failed: (noted) => {
    noted.ended += 1;
    noted.failed = 1;
  },
  requeued: (noted, facts) => {
    Object.assign(noted, { requeued: 1, failed: 0, deferred: 0 });
    const event = facts();
    if (event?.kind === 'requeued') noted.again += event.failedCount;
  },
  dropped: (noted) => void (noted.dropped = 1),
};

/** What events make of the rows of their messages, by message. @param factsOf undefined for an event that is damaged */
export function notesOf<Event extends { readonly kind: string; readonly message: string | null }>(
  events: readonly Event[],
  factsOf: (event: Event) => EventFacts | undefined,
): ReadonlyMap<string, Noted> {
  const notes = new Map<string, Noted>();
  for (const event of events) {
    const change = changes[event.kind];
    if (!change || event.message === null) continue;
    const noted = notes.get(event.message) ?? { ended: 0, again: 0, dropped: 0, requeued: 0, failed: 0, deferred: 0 };
    change(noted, () => factsOf(event));
    notes.set(event.message, noted);
  }
  return notes;
}

/** What is noted makes this of a row. */
export function withNotes<Row extends { readonly waiting: number; readonly outcome: number }>(
  row: Row,
  noted: Noted | undefined,
): Row {
  if (!noted) return row;
  const left = row.waiting - noted.ended + noted.again;
  const { accepted, delivered, deferred, failed, dropped } = outcomeNumbers;
  const isAgain = noted.requeued === 1;
  const outcomes: readonly (readonly [boolean, number])[] = [
    [noted.dropped === 1, dropped],
    [noted.failed === 1 || (row.outcome === failed && !isAgain), failed],
    [noted.ended > 0 && left <= 0, delivered],
    [noted.deferred === 1 && (row.outcome === accepted || isAgain), deferred],
    [isAgain, accepted],
  ];
  const [, outcome] = outcomes.find(([isSo]) => isSo) ?? [true, row.outcome];
  return { ...row, waiting: noted.dropped === 1 ? 0 : Math.max(left, 0), outcome };
}
