// What is particular to PostgreSQL where events are read and searched (search/find-events.ts).

import type { StepValue } from '../../core/steps.ts';
import { shareNumbers, shares } from '../../encoded-event.ts';
import type { EventSource, EventTables, Filed, IdSpan } from '../../search/find-events.ts';
import type { EventPartitions } from './event-partitions.ts';

// The bounds of both tables are named, so that the partitions of both are found before anything is read.
const plain = 'mail_events e WHERE e.id BETWEEN ?1 AND ?2';
const keyed = 'mail_event_keys k JOIN mail_events e ON e.id = k.event WHERE k.key = ?4 AND k.event BETWEEN ?1 AND ?2';

function plainly(where: string, ...values: readonly StepValue[]): EventSource {
  return { from: `${plain} ${where}`, id: 'e.id', values };
}

/** The sources of all events of a question, of which each event is in one. */
function sourcesOf({ account, message, kinds }: Filed): readonly EventSource[] {
  if (message !== undefined) return [plainly('AND e.queue_id = ?4', message)];
  if (account === undefined) return [plainly('')];
  if (kinds !== undefined)
    return [...new Set(kinds)].map((kind) => plainly('AND e.account = ?4 AND e.kind = ?5', account, kind));
  return shares.map((share) => plainly('AND e.account = ?4 AND e.share = ?5', account, shareNumbers[share]));
}

/**
 * The ranges of ids in which a page looks for its events, one after another: first those of one partition, then of two, of four ...
 * A page that is soon full touches one partition, whatever their number; one that finds little touches all with few questions.
 * @param starts the first ids of the partitions, in order; without any the range stays whole
 */
export function* spansOf(
  { low, high }: IdSpan,
  { starts, isOldest }: { readonly starts: readonly number[]; readonly isOldest: boolean },
): Generator<IdSpan> {
  let [bottom, top] = [low, high];
  for (let count = 1; bottom <= top; count *= 2) {
    if (isOldest) {
      const end = starts[starts.findLastIndex((start) => start <= bottom) + count];
      const until = end === undefined ? top : Math.min(top, end - 1);
      yield { low: bottom, high: until };
      bottom = until + 1;
    } else {
      const begin = starts[starts.findLastIndex((start) => start <= top) - count + 1];
      const since = begin === undefined ? bottom : Math.max(bottom, begin);
      yield { low: since, high: top };
      top = since - 1;
    }
  }
}

/** The tables of events with these partitions. */
export function eventTables(partitions: EventPartitions): EventTables {
  return {
    newest: 'SELECT last_event AS newest FROM spool_state',
    // oxlint-disable-next-line require-yield -- nothing has to be asked first, as SQLite has to
    *filed(filed) {
      return sourcesOf(filed);
    },
    // oxlint-disable-next-line require-yield -- nor here
    *keyed(key) {
      return [{ from: `${keyed} AND e.id BETWEEN ?1 AND ?2`, id: 'k.event', values: [key] }];
    },
    spans: (span, isOldest) => spansOf(span, { starts: partitions.starts, isOldest }),
  };
}
