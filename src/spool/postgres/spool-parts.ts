// Makes the parts of a spool in PostgreSQL and joins them.

import { systemClock } from '../../base/clock.ts';
import type { Changes, Row, SqlValue } from '../../base/database/database.ts';
import { silentLog } from '../../base/log.ts';
import type { ServerUrl } from '../../base/postgres/server-hosts.ts';
import type { StoreSteps } from '../core/steps.ts';
import { shareNumbers, shares } from '../encoded-event.ts';
import { EventFeed, type EventTable } from '../search/event-feed.ts';
import {
  type EventSource,
  type EventTables,
  eventNews,
  type Filed,
  type IdSpan,
  newestEvent,
  readEvents,
  searchEvents,
} from '../search/find-events.ts';
import { keptSettings, type SpoolOptions } from '../spool-limits.ts';
import { EventFiler } from './events/event-filer.ts';
import { EventPartitions } from './events/event-partitions.ts';
import { EventRemoval } from './events/event-removal.ts';
import { PostgresClaims } from './postgres-claims.ts';
import { PostgresQueue } from './postgres-queue.ts';
import { PostgresRetention, Quotas } from './postgres-retention.ts';
import { ProcessRegister } from './process-register.ts';
import { DatabaseClock, type ServerParts } from './server/database-clock.ts';
import { PostgresSession } from './server/postgres-session.ts';
import { PostgresHolds } from './spool-lines.ts';
import { SpoolTender } from './spool-tender.ts';
import { SpoolWriter } from './spool-writer.ts';

// The bounds of both tables are named, so that the partitions of both are found before anything is read.
const plain = 'mail_events e WHERE e.id BETWEEN ?1 AND ?2';
const keyed = 'mail_event_keys k JOIN mail_events e ON e.id = k.event WHERE k.key = ?4 AND k.event BETWEEN ?1 AND ?2';

function plainly(where: string, ...values: readonly SqlValue[]): EventSource {
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

function eventTables(partitions: EventPartitions): EventTables {
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

/** Connections of one process for its spool. */
const connections = 8;
/** After how long without a sign a process is taken for dead, in milliseconds. */
const defaultPatienceMs = 30_000;

/** Where the spool is stored, and its settings. */
export interface PostgresSpoolOptions extends SpoolOptions {
  /** `postgres://...`; a function is asked for the password of each connection. */
  readonly url: ServerUrl;
  /** Tells of what other processes write; absent: they are asked for regularly. */
  readonly changes?: Changes;
  /** After how long without a sign another process is taken for dead, in milliseconds; 30,000 if absent. */
  readonly patienceMs?: number;
  /** How long callers wait to hear what became of a transaction whose end was lost, in milliseconds; 10,000 if absent. */
  readonly doubtMs?: number;
  /** The time of the server's clock out of a row with `time`; absent: as the row says. */
  readonly serverTime?: (row: Row) => number;
}

function eventTable(
  { session, clock }: ServerParts,
  tables: EventTables,
  writer: SpoolWriter,
  filer: EventFiler,
): EventTable {
  // A reader finds what this process has told before; what others tell is filed some 100 ms later.
  const once = async <T>(steps: StoreSteps<T>): Promise<T> => {
    await filer.caughtUp();
    return await session.steps(steps);
  };
  return {
    read: (query) => once(readEvents(tables, query)),
    search: (query) => {
      clock.observe();
      return once(searchEvents(tables, query, (time) => clock.stored(time)));
    },
    newest: () => once(newestEvent(tables)),
    news: (after) => once(eventNews(tables, after)),
    write: (events, refused = []) =>
      writer.write({
        run: (group) => {
          for (const event of events) group.events.push(event);
          for (const row of refused) group.journal.push(row);
        },
      }),
  };
}

/** Makes the parts. Nothing is asked of the server yet. */
export function makeParts(options: PostgresSpoolOptions) {
  const { url, clock = systemClock, log = silentLog, onRemoved } = options;
  const { limits, eventLimits, reportLimits, hasJournal } = keptSettings(options);
  const session = new PostgresSession({ url, connections });
  const databaseClock = new DatabaseClock(clock);
  const { patienceMs = defaultPatienceMs } = options;
  // How long others live is measured by this machine's own clock, whatever clock the mail goes by.
  const register = new ProcessRegister({ session, monotonic: () => performance.now(), patienceMs });
  const quotas = new Quotas(limits);
  const shared = { session, clock: databaseClock, register };
  const filer = new EventFiler({ session, log, onOthers: () => feed.committed([]) });
  const writer = new SpoolWriter({
    ...{ ...shared, reportLimits, filer, hasJournal, log },
    onTallies: (more) => quotas.learn(more),
    onCommitted: options.onCommitted ?? (() => undefined),
    doubtMs: options.doubtMs,
  });
  const claims = new PostgresClaims(shared);
  const holds = new PostgresHolds(shared);
  const queue = new PostgresQueue({ ...shared, holds: () => holds.holds() });
  const partitions = new EventPartitions(shared);
  const removal = new EventRemoval({ ...shared, partitions, limits: eventLimits });
  const retention = new PostgresRetention({
    ...{ ...shared, writer, limits },
    onRemoved: (removed) => {
      log.warn({ ...removed }, 'failed messages removed: the account has more than are kept');
      onRemoved?.(removed);
    },
  });
  const kept = { quotas, holds, retention, removal, partitions };
  const tender = new SpoolTender({ ...shared, ...kept, writer, filer, log, serverTime: options.serverTime });
  const { contentGauge } = options;
  const table = eventTable(shared, eventTables(partitions), writer, filer);
  const feed = new EventFeed({ table, clock, log, hasJournal, contentGauge, fault: () => tender.fault });
  return { ...shared, writer, filer, quotas, claims, holds, queue, tender, feed, contentGauge };
}

/** The parts of a spool. */
export type SpoolParts = ReturnType<typeof makeParts>;
