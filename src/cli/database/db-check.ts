import type { Config } from '../../app/config/config.ts';
import { tableMigrations, tableVersions } from '../../app/wiring/table-versions.ts';
import { type DatabaseReport, shownOctets } from '../../spool/inspect/database-report.ts';
import { inspectPostgres } from '../../spool/inspect/inspect-postgres.ts';
import { inspectSqlite } from '../../spool/inspect/inspect-sqlite.ts';
import { moveMigrations } from '../../spool/move/moved-tables.ts';
import { isoTime } from '../command/choose-account.ts';
import { columns, defineCommand, defineGroup, print, table } from '../command/command.ts';
import { printable } from '../command/printable.ts';
import { parseCount } from '../command/span.ts';

/** How long a look at SQLite, and a question to PostgreSQL, may take unless told otherwise, in seconds. */
const defaultSeconds = 30;
/** Tables that are shown to people; --json has all. */
const mostShown = 12;

/** Looks at the database of a configuration. It rejects where it cannot be read. */
export async function inspect(config: Config, isFull: boolean, seconds: number): Promise<DatabaseReport> {
  const { database } = config;
  if (database.engine === 'sqlite')
    return await inspectSqlite({ file: database.file, known: tableVersions, isFull, seconds });
  const versions = [...tableMigrations.postgres, moveMigrations].map(
    ({ owner, steps, postgres = steps }) => [owner, postgres.length] as const,
  );
  const { url, server: shown, takeOverSeconds } = database;
  return await inspectPostgres({ url, shown, takeOverSeconds, known: new Map(versions), seconds });
}

function ageOf(at: number | null, now: number): string {
  if (at === null) return 'none';
  const seconds = Math.round((now - at) / 1000);
  return seconds < 0 ? `in ${-seconds} s` : `${seconds} s ago`;
}

function sizeRow(table: DatabaseReport['tables'][number]): string[] {
  const { name, octets, rows, deadRows, partitions, oldestPartition, newestPartition, rowsOutside } = table;
  const span = `${printable(oldestPartition ?? '')} to ${printable(newestPartition ?? '')}`;
  return [
    `  ${printable(name)}`,
    shownOctets(octets),
    rows === null ? '' : `${rows} rows`,
    deadRows === null ? '' : `${deadRows} dead`,
    partitions === 0 ? '' : `${partitions} partitions, ${span}; ${rowsOutside ?? 0} rows outside`,
  ];
}

function lines(
  { engine, place, facts, owners, tables, queue, processes, replicas, problems, unseen }: DatabaseReport,
  now: number,
): string[] {
  const shown = Object.entries(facts).map(([name, value]) => [name, printable(String(value))] as const);
  const versions = owners.map(
    ({ owner, version, known }) =>
      `${printable(owner)} ${version}${version === known ? '' : ` (this program: ${known ?? 'none'})`}`,
  );
  return [
    `${engine} at ${printable(place)}`,
    ...table(shown),
    `Versions of tables: ${versions.join(', ')}`,
    'Tables with their indexes:',
    ...columns(tables.slice(0, mostShown).map(sizeRow)),
    ...(tables.length > mostShown ? [`  and ${tables.length - mostShown} smaller ones`] : []),
    ...(queue
      ? [
          'Queue:',
          ...table([
            ['recipients queued', String(queue.queuedRecipients)],
            ['messages failed', String(queue.failedMessages)],
            ['oldest queued, accepted', ageOf(queue.oldestAcceptedAt, now)],
            ['longest turn, due', ageOf(queue.oldestTurnAt, now)],
            ['claimed', `${queue.claimed}, the first until ${isoTime(queue.oldestClaimUntil ?? undefined) ?? 'none'}`],
          ]),
        ]
      : []),
    ...processes.map(
      ({ name, claims, isAlive }) =>
        `Process ${printable(name)}: ${claims ?? '?'} claimed${isAlive === false ? ', gives no sign of life' : ''}`,
    ),
    ...replicas.map(({ name, state, isSynchronous, lagOctets }) =>
      isSynchronous === null
        ? `Standby ${printable(name)}: it follows; how is not shown to this user`
        : `Standby ${printable(name)}: ${printable(state)}, ${isSynchronous ? 'synchronous' : 'asynchronous'}, ${lagOctets === null ? '?' : shownOctets(lagOctets)} behind`,
    ),
    ...unseen.flatMap(({ text, cure }) => [`Not seen: ${printable(text)}`, `  ${printable(cure)}.`]),
    problems.length === 0 ? 'No problem was found.' : `${problems.length} problem${problems.length === 1 ? '' : 's'}:`,
    ...problems.flatMap(({ code, text, cure }) => [`- ${code}: ${printable(text)}`, `  ${printable(cure)}.`]),
  ];
}

const check = defineCommand({
  summary: 'Tell how the database is, and what is wrong with it',
  details: `It only reads, and may run beside gateways: versions of tables and engine, sizes by table with dead rows or free pages, the
oldest claim and the oldest message that waits, the processes that work on it, replication and what makes commits safe. Of SQLite it
reads the whole file and checks its structure, for as long as --seconds allows. Every problem says what to do.`,
  options: {
    full: { summary: 'SQLite: compare indexes with their tables as well' },
    seconds: {
      value: 'N',
      summary: `how long the look at SQLite, or a question to PostgreSQL, may take (default ${defaultSeconds})`,
    },
    json: { summary: 'one JSON object' },
  },
  examples: ['postern db check', 'postern db check --json'],
  exitCodes: { 1: 'something is wrong, or the database cannot be read' },
  async run({ options, readConfig }, io) {
    const seconds = parseCount(options.seconds, '--seconds', { fallback: defaultSeconds, most: 86_400 });
    const report = await inspect(readConfig(), options.full === true, seconds);
    print(io, options.json === true ? JSON.stringify(report) : lines(report, Date.now()));
    return report.problems.length === 0 ? 0 : 1;
  },
});

/** postern db check tells how the database is, whichever engine it is. */
export const command = defineGroup({ check });
