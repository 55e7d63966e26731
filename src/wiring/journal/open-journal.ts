// Opens the journal that a configuration names, and does behind its rows what is to be done.

import type { Clock } from '../../base/clock.ts';
import { openPostgres } from '../../base/database/postgres-database.ts';
import { openDatabase } from '../../base/database/sqlite-database.ts';
import { errorMessage } from '../../base/errors.ts';
import type { Logger } from '../../base/log.ts';
import type { Config } from '../../config.ts';
import type { Journal } from '../../journal/journal.ts';
import { openPostgresJournal } from '../../journal/store/postgres-journal-store.ts';
import { openSqliteJournal } from '../../journal/store/sqlite-journal-store.ts';

/**
 * How often it is looked whether there is something to do, in milliseconds, and the pause between two slices of it. Rows that
 * are not in the index yet are found all the same.
 */
const lookEveryMs = 3000;
const pauseMs = 5;

/** A journal that is tended. */
export interface TendedJournal {
  readonly journal: Journal;
  /** Ends the work behind the rows, and closes the journal. */
  close(): Promise<void>;
}

/**
 * Opens the journal; the spool must have been opened before, because it makes the tables.
 * @throws Error where it cannot be opened
 */
export async function openJournal(
  config: Pick<Config, 'database' | 'journal' | 'events'>,
  { clock, log }: { readonly clock: Clock; readonly log: Logger },
): Promise<TendedJournal> {
  const { database, journal: settings, events } = config;
  const limits = { ...settings, refusals: events.refusalsPerAccount };
  const journal =
    'file' in database
      ? openSqliteJournal(await openDatabase(database.file), limits)
      : openPostgresJournal(await openPostgres({ url: database.url, connections: 2 }), limits);
  return tend(journal, { clock, log });
}

function tend(journal: Journal, { clock, log }: { readonly clock: Clock; readonly log: Logger }): TendedJournal {
  let isClosed = false;
  let timer: NodeJS.Timeout | undefined;
  let working: Promise<void> = Promise.resolve();
  const work = async (): Promise<void> => {
    let isMore = false;
    try {
      isMore = await journal.tend(clock.now());
    } catch (thrown) {
      // Where the database cannot be written, the rows wait: they are found without the index, too.
      log.debug({ error: errorMessage(thrown) }, 'the journal could not be tended');
    }
    if (!isClosed) schedule(isMore ? pauseMs : lookEveryMs);
  };
  const schedule = (ms: number): void => {
    timer = setTimeout(() => {
      working = work();
    }, ms);
    timer.unref();
  };
  schedule(lookEveryMs);
  return {
    journal,
    async close() {
      isClosed = true;
      clearTimeout(timer);
      await working;
      await journal.close();
    },
  };
}
