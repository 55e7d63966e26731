// An engine that keeps everything: how its parts are opened. What a third one needs is a file beside these, its row in the table of
// `open-stores.ts`, and its settings (app/config/settings.ts).

import type { Changes, Database } from '../../../base/database/database.ts';
import type { OpenDatabaseOptions } from '../../../base/database/sqlite-database.ts';
import type { Logger } from '../../../base/log.ts';
import type { EventLimits } from '../../../spool/events/event-store.ts';
import type { ContentGauge } from '../../../spool/journal/content-gauge.ts';
import type { Journal, JournalLimits, Removed } from '../../../spool/journal/journal.ts';
import type { ReportLimits } from '../../../spool/reports/report.ts';
import type { Spool } from '../../../spool/spool.ts';
import type { SpoolLimits } from '../../../spool/spool-limits.ts';

/** What an opened spool tells of. */
export interface SpoolHooks {
  /** Tells of what other processes write; absent: they are asked for regularly. */
  readonly changes?: Changes;
  readonly log?: Logger;
  /** Called once, when the thread of the embedded database ended: the spool no longer works. */
  readonly onLost?: (error: Error) => void;
  /** Called with how many failed messages were removed because their account has too many. */
  readonly onRemoved?: (removed: { readonly messages: number }) => void;
  /** Called after each commit with how many operations it had. */
  readonly onCommitted?: (operations: number) => void;
  /** Knows how much content the journal keeps; absent: it may be any amount. */
  readonly contentGauge?: ContentGauge;
}

/** A spool, and the free octets of the file system that it writes to; NaN where they are not known. */
export type OpenedSpool = Spool & { readonly freeBytes: number };

/** What a spool keeps, and for how long. */
export interface KeptBySpool {
  readonly limits: SpoolLimits;
  readonly reportLimits: ReportLimits;
  readonly eventLimits: EventLimits;
  readonly hasJournal: boolean;
}

/** A journal, and the database that it works on. */
export interface OpenedJournal {
  readonly journal: Journal;
  readonly database: Database;
  /** How often it is asked how it is, in milliseconds: mostly, and while more content is kept than should be. */
  readonly times: { readonly askMs: number; readonly pressedMs: number };
}

/** Opens the parts of one database. Each rejects where it cannot be opened. */
export interface Engine {
  /** The database of all tables but the spool's. @param options PostgreSQL has its own limits, and takes the log alone */
  openDatabase(options: OpenDatabaseOptions): Promise<Database>;
  openSpool(kept: KeptBySpool & SpoolHooks): Promise<OpenedSpool>;
  /** The spool must have been opened before, because it makes the tables. */
  openJournal(
    limits: JournalLimits,
    hooks: {
      /** What it works on; absent: a connection of its own, which no other part waits for. */
      readonly shared?: Database | undefined;
      readonly caughtUp: () => Promise<void>;
      readonly onRemoved: (removed: Removed, count: number) => void;
    },
  ): Promise<OpenedJournal>;
}
