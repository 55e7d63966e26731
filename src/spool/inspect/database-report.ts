// What a look at the database finds, whatever engine it is.

import type { Row } from '../../base/database/database.ts';

/** Something that is wrong, or soon will be. */
export interface DatabaseProblem {
  /** A word for programs: `not-synced`. */
  readonly code: string;
  /** What is wrong, a sentence. */
  readonly text: string;
  /** What to do. */
  readonly cure: string;
}

/** A table with its indexes. */
export interface TableSize {
  readonly name: string;
  readonly octets: number;
  /** Rows, as the engine knows or guesses; null where it does not. */
  readonly rows: number | null;
  /** Rows that are gone and still take room; null where the engine has none. */
  readonly deadRows: number | null;
  /** How many partitions it has, without DEFAULT. */
  readonly partitions: number;
  /** The partitions of the oldest and the newest rows; null without partitions. */
  readonly oldestPartition: string | null;
  readonly newestPartition: string | null;
  /** About how many rows have no partition of their own, and stand in DEFAULT; null without partitions. */
  readonly rowsOutside: number | null;
}

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
  readonly queue: {
    readonly queuedRecipients: number;
    readonly failedMessages: number;
    /** Recipients in somebody's hands. */
    readonly claimed: number;
    /** When the first of these claims runs out. */
    readonly oldestClaimUntil: number | null;
    /** When the oldest message that waits was accepted. */
    readonly oldestAcceptedAt: number | null;
    /** Since when the line that has waited longest could have been served. */
    readonly oldestTurnAt: number | null;
  } | null;
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

/** A number of an answer; null where it has none. */
export function numberOf(row: Row | undefined, column: string): number | null {
  const value = row?.[column];
  return value === null || value === undefined ? null : Number(value);
}

function textOf(row: Row, column: string): string | null {
  const value = row[column];
  return typeof value === 'string' ? value : null;
}

/** The queue, of the one row that each engine has for it. */
export function queueOf(row: Row | undefined): DatabaseReport['queue'] {
  if (!row) return null;
  return {
    queuedRecipients: numberOf(row, 'queued') ?? 0,
    failedMessages: numberOf(row, 'failed') ?? 0,
    claimed: numberOf(row, 'claimed') ?? 0,
    oldestClaimUntil: numberOf(row, 'claim_until'),
    oldestAcceptedAt: numberOf(row, 'accepted'),
    oldestTurnAt: numberOf(row, 'turn'),
  };
}

/** A table, of the row that an engine has for it: it leaves out what it does not know. */
export function sizeOf(row: Row): TableSize {
  return {
    ...{ name: String(row['name']), octets: numberOf(row, 'octets') ?? 0, rows: numberOf(row, 'rows') },
    ...{ deadRows: numberOf(row, 'dead'), partitions: numberOf(row, 'partitions') ?? 0 },
    ...{ oldestPartition: textOf(row, 'oldest'), newestPartition: textOf(row, 'newest') },
    rowsOutside: numberOf(row, 'outside'),
  };
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
