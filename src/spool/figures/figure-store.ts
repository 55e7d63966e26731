// Keeps figures by minute in the database. Every process adds what it counted, so the sums are right for any number of them.

import { type Database, type Migrations, placeholders } from '../../base/database/database.ts';
import { type EventFacts, eventKinds, isOfWord } from '../events/mail-event.ts';

/** Latencies are counted in steps of a quarter of an octave, so a percentile is right to a tenth. */
const stepsPerOctave = 4;

/** The step of a time in milliseconds. */
export function latencyStep(ms: number): number {
  return Math.round(stepsPerOctave * Math.log2(Math.max(1, ms)));
}

/** The time of a step, in milliseconds. */
export function latencyOfStep(step: number): number {
  return Math.round(2 ** (step / stepsPerOctave));
}

/** A field's name as it may stand in a figure's name: what a client sent may have any octets. */
const plainField = /^[!-9;-}]{1,100}$/;

/** Something that is counted. */
export interface Counted {
  readonly name: string;
  /** What is counted in its place when an account has too many names in a minute. */
  readonly instead?: string | undefined;
  readonly count: number;
}

const one = (name: string, instead?: string): Counted => ({ name, count: 1, instead });

/** What an event counts as, by the column `figure` of its kind. */
export function countedOf(event: EventFacts): readonly Counted[] {
  const { kind } = event;
  if (isOfWord(event, 'figure', 'latency'))
    return [one(kind), one(`route ${kind} ${event.route}`), one(`latency ${latencyStep(event.at - event.acceptedAt)}`)];
  if (isOfWord(event, 'figure', 'route')) return [one(kind), one(`route ${kind} ${event.route}`)];
  if (isOfWord(event, 'figure', 'reasons')) {
    const reasons = event.violations.map(({ code, field }) => {
      const about = field !== undefined && plainField.test(field) ? ` ${field}` : '';
      return `reason ${code}${about}`;
    });
    return [one(kind), ...[...new Set(reasons)].map((name) => one(name, name.split(' ', 2).join(' ')))];
  }
  return eventKinds[kind].figure === 'none' ? [] : [one(kind)];
}

/** How a name begins that tells what was there at a moment: it is not added up, and of several moments the greatest counts. */
export const momentPrefix = 'now ';

/** What waits: recipients, and seconds since the oldest of their messages was accepted. */
export const waitingNames = { recipients: 'now waiting', oldestSeconds: 'now oldest' } as const;

/** The percentile of counts by step, in milliseconds; null where nothing was counted. @param share 0.5, 0.99 */
export function percentile(counts: ReadonlyMap<number, number>, share: number): number | null {
  const steps = [...counts].toSorted(([left], [right]) => left - right);
  const all = steps.reduce((sum, [, count]) => sum + count, 0);
  let passed = 0;
  for (const [step, count] of steps) {
    passed += count;
    if (passed >= share * all) return latencyOfStep(step);
  }
  return null;
}

/** The table of figures by minute. */
export const figureMigrations: Migrations = {
  owner: 'figures',
  steps: [
    // minute: minutes since 1970.
    `CREATE TABLE minute_figures (
       account TEXT NOT NULL,
       minute INTEGER NOT NULL,
       name TEXT NOT NULL,
       count INTEGER NOT NULL,
       PRIMARY KEY (account, minute, name)
     ) STRICT, WITHOUT ROWID;
     CREATE INDEX minute_figures_by_minute ON minute_figures (minute);`,
  ],
};

/** How often something happened in a minute. */
export interface Figure {
  /** Name of the account. */
  readonly account: string;
  /** Minutes since 1970. */
  readonly minute: number;
  /** What happened: one word, then what it is about. */
  readonly name: string;
  readonly count: number;
}

/** Which figures are read. */
export interface FigureQuery {
  /** Absent: those of all accounts together. */
  readonly account?: string | undefined;
  /** From this minute on. */
  readonly since: number;
  /** Figures of so many minutes are added up. */
  readonly step: number;
  /** Only names that begin so; absent: all. */
  readonly prefix?: string | undefined;
}

/** The figures of one database. Every promise rejects when it fails. */
export type FigureStore = Awaited<ReturnType<typeof openFigureStore>>;

/** Figures of one statement. */
const addedAtOnce = 200;

/** A condition of SQL. */
const isMoment = (name: string): string => `substr(${name}, 1, ${momentPrefix.length}) = '${momentPrefix}'`;

const addition = (
  rows: number,
): string => `INSERT INTO minute_figures (account, minute, name, count) VALUES ${placeholders(rows, 4)}
  ON CONFLICT (account, minute, name) DO UPDATE
  SET count = CASE WHEN ${isMoment('excluded.name')} THEN excluded.count ELSE minute_figures.count + excluded.count END`;

const sums = `SELECT minute - minute % $2 AS first, name,
    CAST(CASE WHEN ${isMoment('name')} THEN max(count) ELSE sum(count) END AS BIGINT) AS total
  FROM minute_figures`;
const sql = {
  readAll: `${sums} WHERE minute >= $1 AND name >= $3 AND name < $4 GROUP BY first, name`,
  readOf: `${sums} WHERE account = $5 AND minute >= $1 AND name >= $3 AND name < $4 GROUP BY first, name`,
  prune: 'DELETE FROM minute_figures WHERE minute < $1',
} as const;

/** Opens the store and brings its table up to date. */
export async function openFigureStore(database: Database) {
  await database.migrate(figureMigrations);
  return {
    /** Adds to what is kept, all in one commit. What tells of a moment (`momentPrefix`) takes the place of what was told before. */
    async add(figures: readonly Figure[]): Promise<void> {
      // In one order for all processes: two that write the same rows then wait for each other instead of getting in a circle.
      const key = ({ account, minute, name }: Figure): string => `${account} ${minute} ${name}`;
      const all = figures.toSorted((one, other) => (key(one) < key(other) ? -1 : 1));
      await database.transaction(async (inside) => {
        for (let start = 0; start < all.length; start += addedAtOnce) {
          const some = all.slice(start, start + addedAtOnce);
          const params = some.flatMap(({ account, minute, name, count }) => [account, minute, name, count]);
          await inside.run(addition(some.length), params);
        }
      });
    },
    /** Reads figures; `minute` is the first one of the step. The cost grows with the minutes, not with what happened in them. */
    async read({ account, since, step, prefix = '' }: FigureQuery): Promise<readonly Omit<Figure, 'account'>[]> {
      // Names are ASCII, so a tilde sorts behind all that may follow.
      const params = [since, step, prefix, `${prefix}~`];
      const rows = await (account === undefined
        ? database.query(sql.readAll, params)
        : database.query(sql.readOf, [...params, account]));
      return rows.map((row) => ({
        minute: Number(row['first']),
        name: String(row['name']),
        count: Number(row['total']),
      }));
    },
    /** Removes what is before a minute. */
    async prune(before: number): Promise<void> {
      await database.run(sql.prune, [before]);
    },
  };
}
