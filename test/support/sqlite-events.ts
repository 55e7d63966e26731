// Events of a database as the spool's thread writes and reads them.

import type { DatabaseSync } from 'node:sqlite';
import type { EventQuery, EventSearch } from '../../src/spool/events/event-store.ts';
import { readEvents, searchEvents } from '../../src/spool/search/find-events.ts';
import { stepsOn } from '../../src/spool/sqlite/file/sqlite-steps.ts';
import { eventWriter, sqliteEventTables } from '../../src/spool/sqlite/sqlite-events.ts';

/** Makes the tables, and what writes and reads them; times are as they are stored. */
export function sqliteEvents(database: DatabaseSync) {
  const add = eventWriter(database);
  const steps = stepsOn(database);
  return {
    add,
    read: (query: EventQuery) => steps(readEvents(sqliteEventTables, query)),
    search: (query: EventSearch) => steps(searchEvents(sqliteEventTables, query, (time) => time)),
  };
}
