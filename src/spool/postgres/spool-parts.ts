// Makes the parts of a spool in PostgreSQL and joins them.

import { systemClock } from '../../base/clock.ts';
import type { Changes, Row } from '../../base/database/database.ts';
import { silentLog } from '../../base/log.ts';
import type { ServerUrl } from '../../base/postgres/server-hosts.ts';
import type { StoreSteps } from '../core/steps.ts';
import { EventFeed, type EventTable } from '../search/event-feed.ts';
import { type EventTables, eventNews, newestEvent, readEvents, searchEvents } from '../search/find-events.ts';
import { keptSettings, type SpoolOptions } from '../spool-limits.ts';
import { sendTallies } from './account-changes.ts';
import { EventFiler } from './events/event-filer.ts';
import { EventPartitions } from './events/event-partitions.ts';
import { EventRemoval } from './events/event-removal.ts';
import { eventTables } from './events/postgres-events.ts';
import { PostgresClaims } from './postgres-claims.ts';
import { PostgresHolds } from './postgres-holds.ts';
import { PostgresQueue } from './postgres-queue.ts';
import { PostgresRetention, Quotas } from './postgres-retention.ts';
import { ProcessRegister } from './process-register.ts';
import { DatabaseClock } from './server/database-clock.ts';
import { PostgresSession } from './server/postgres-session.ts';
import { SpoolTender } from './spool-tender.ts';
import { SpoolWriter } from './spool-writer.ts';

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

/** The events of a spool. */
function eventTable(parts: {
  readonly session: PostgresSession;
  readonly tables: EventTables;
  readonly writer: SpoolWriter;
  readonly filer: EventFiler;
  readonly clock: DatabaseClock;
}): EventTable {
  const { session, tables, writer, filer, clock } = parts;
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
  const session = new PostgresSession(url, connections);
  const databaseClock = new DatabaseClock(clock);
  const { patienceMs = defaultPatienceMs } = options;
  // How long others live is measured by this machine's own clock, whatever clock the mail goes by.
  const register = new ProcessRegister(session, { monotonic: () => performance.now(), patienceMs });
  const quotas = new Quotas(limits);
  const shared = { session, clock: databaseClock, register };
  const filer = new EventFiler(session, {
    sendTallies,
    onOthers: () => feed.committed([]),
    onPassedOver: ({ seq, error }) =>
      log.error({ err: error, seq }, 'events and rows of the journal cannot be filed, and stay in spool_unfiled'),
  });
  const writer = new SpoolWriter({
    ...{ ...shared, reportLimits, filer, hasJournal },
    onTallies: (more) => quotas.learn(more),
    onCommitted: options.onCommitted ?? (() => undefined),
    onDisowned: (messages) =>
      log.warn({ messages }, 'removed what was kept although its senders heard that it was not'),
    doubtMs: options.doubtMs,
  });
  const claims = new PostgresClaims(shared);
  const holds = new PostgresHolds(shared);
  const queue = new PostgresQueue({ ...shared, holds: () => holds.read() });
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
  const table = eventTable({ session, tables: eventTables(partitions), writer, filer, clock: databaseClock });
  const feed = new EventFeed(table, { clock, log, hasJournal, contentGauge, fault: () => tender.fault });
  return { ...shared, writer, filer, quotas, claims, holds, queue, tender, feed, contentGauge };
}

/** The parts of a spool. */
export type SpoolParts = ReturnType<typeof makeParts>;
