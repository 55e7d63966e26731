// What a look at the database finds, whatever engine it is.

import { rowReader } from '../../base/database/row-reader.ts';

/** Something that is wrong, or soon will be. */
export interface DatabaseProblem {
  /** A word for programs: `not-synced`. */
  readonly code: string;
  /** What is wrong, a sentence. */
  readonly text: string;
  /** What to do. */
  readonly cure: string;
}

/** A number of an answer; null where it has none. */
export function numberOf(column: unknown): number | null {
  return column === null || column === undefined ? null : Number(column);
}

const textOf = (column: unknown): string | null => (typeof column === 'string' ? column : null);

/** Reads the row that an engine has for a table with its indexes; null is what the engine does not know or have. */
export const sizeOf = rowReader({
  name: String,
  octets: Number,
  /** As the engine knows or guesses. */
  rows: numberOf,
  /** Rows that are gone and still take room. */
  deadRows: numberOf,
  /** How many there are, without DEFAULT. */
  partitions: (column) => numberOf(column) ?? 0,
  /** The partitions of the oldest and the newest rows. */
  oldestPartition: textOf,
  newestPartition: textOf,
  /** About how many rows have no partition of their own, and stand in DEFAULT. */
  rowsOutside: numberOf,
});
/** A table with its indexes. */
export type TableSize = ReturnType<typeof sizeOf>;

/** Reads the one row that each engine has for the queue. */
export const queueOf = rowReader({
  queuedRecipients: Number,
  failedMessages: Number,
  /** Recipients in somebody's hands. */
  claimed: Number,
  /** When the first of these claims runs out. */
  oldestClaimUntil: numberOf,
  /** When the oldest message that waits was accepted. */
  oldestAcceptedAt: numberOf,
  /** Since when the line that has waited longest could have been served. */
  oldestTurnAt: numberOf,
});

/** A gateway that works on the database. */
export interface WorkingProcess {
  readonly name: string;
  /** Recipients that it has claimed; null where the engine does not say. */
  readonly claims: number | null;
  /** Whether it has given a sign of life during the look; null where the engine does not say. */
  readonly isAlive: boolean | null;
}

/** The whole of it. Times are milliseconds since 1970. */
export interface DatabaseReport {
  readonly engine: 'PostgreSQL' | 'SQLite';
  /** The file, or host and name. */
  readonly place: string;
  /** Facts of the engine by name, as people read them. */
  readonly facts: Readonly<Record<string, string | number | boolean | null>>;
  /** The version of each owner's tables, and the one that this program knows. */
  readonly owners: readonly { readonly owner: string; readonly version: number; readonly known: number | null }[];
  /** The largest first. */
  readonly tables: readonly TableSize[];
  readonly queue: ReturnType<typeof queueOf> | null;
  readonly processes: readonly WorkingProcess[];
  /** What follows the server, for PostgreSQL. */
  readonly replicas: readonly {
    readonly name: string;
    readonly state: string;
    /** null where the user may not see it. */
    readonly isSynchronous: boolean | null;
    readonly lagOctets: number | null;
  }[];
  readonly problems: readonly DatabaseProblem[];
  /** What the user may not see, and so is not judged, with what shows it. It is no problem by itself. */
  readonly unseen: readonly DatabaseProblem[];
}

/** How long a line may wait for its turn before something is wrong, in milliseconds: a gateway looks once a second. */
const mostTurnWaitMs = 15 * 60_000;

/** What both engines can say of tables and queue. */
export function commonProblems(
  { owners, queue }: Pick<DatabaseReport, 'owners' | 'queue'>,
  now: number,
  isServed: boolean,
): DatabaseProblem[] {
  const problems: DatabaseProblem[] = [];
  for (const { owner, version, known } of owners) {
    if (known === null || version > known) {
      const text = `The tables of "${owner}" are of version ${version}, and this program knows ${known ?? 'none'}`;
      problems.push({ code: 'newer-tables', text, cure: 'Use the release that has made them, or a later one' });
    }
  }
  const waiting = queue?.oldestTurnAt === null || queue === null ? 0 : now - queue.oldestTurnAt;
  if (waiting > mostTurnWaitMs) {
    const minutes = Math.floor(waiting / 60_000);
    problems.push({
      code: 'nobody-delivers',
      text: `Mail that is due has waited for its turn for ${minutes} minutes`,
      cure: isServed
        ? 'Look at the gateway’s log and at postern queue destinations: it runs and takes nothing'
        : 'Start a gateway: none works on this database',
    });
  }
  return problems;
}

/** Octets as people read them. */
export function shownOctets(octets: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let [value, at] = [octets, 0];
  while (value >= 1024 && at < units.length - 1) [value, at] = [value / 1024, at + 1];
  return `${at === 0 ? value : value.toFixed(1)} ${units[at] ?? ''}`;
}
