import { join, resolve } from 'node:path';
import type { Config } from '../../app/config/config.ts';
import { readSecret } from '../../app/config/secrets.ts';
import { tableMigrations } from '../../app/wiring/table-versions.ts';
import { errorMessage, UsageError } from '../../base/errors.ts';
import { parsePostgresUrl, withPassword } from '../../base/postgres/server-hosts.ts';
import { DamagedRows, type Moved, type MoveRequest, moveData, undoMove } from '../../spool/move/move-data.ts';
import { leftTables } from '../../spool/move/moved-tables.ts';
import { type Damaged, lookAtSource } from '../../spool/move/source-file.ts';
import { EndUnknown } from '../../spool/move/target-database.ts';
import { type CommandIo, defineCommand, fail, type OptionValues, print, table } from '../command/command.ts';
import { printable } from '../command/printable.ts';
import { tellProgress } from '../command/tell-progress.ts';

/** The exit code where nobody can tell whether the target has kept everything (EX_TEMPFAIL). */
const endUnknownCode = 75;
/** The exit code of what a person has interrupted. */
const interruptedCode = 130;
/** Damaged messages, and entries of the journal, that are named. */
const mostNamed = 20;

const options = {
  to: { value: 'URL', summary: 'the target, postgres://user@host/name (default: database.url)' },
  from: { value: 'FILE', summary: 'the SQLite file that is moved (default: that of database.url)' },
  'password-file': { value: 'FILE', summary: 'a file with the password of the target' },
  'dry-run': { summary: 'tell what would be moved; nothing is changed, and a gateway may run' },
  'leave-damaged': { summary: 'leave behind what is damaged, instead of moving nothing' },
  undo: { summary: 'take the mark off a file that was moved, so that a gateway starts on it again' },
  force: { summary: 'with --undo: do so' },
} as const;

type Given = OptionValues<typeof options>;

type Databases = Pick<MoveRequest, 'file' | 'bodiesFolder' | 'url' | 'shown'>;

/** Finds the file that is moved. @throws UsageError where nothing names it */
function sourceOf({ from }: Given, { database, dataDir }: Config, io: CommandIo): string {
  if (from !== undefined) return resolve(io.cwd, from);
  if (database.engine === 'sqlite') return database.file;
  throw new UsageError(
    `--from: database.url is PostgreSQL; name the SQLite file that is moved, such as ${join(dataDir, 'postern.db')}`,
  );
}

/** @throws UsageError where no target is named, or it is none */
function databasesOf(given: Given, config: Config, io: CommandIo): Databases {
  const file = sourceOf(given, config, io);
  const { database } = config;
  const url = given.to ?? (database.engine === 'sqlite' ? undefined : database.url);
  if (url === undefined) throw new UsageError('--to: want the target, such as postgres://postern@db.example/postern');
  const parsed = parsePostgresUrl(url);
  if (!parsed) throw new UsageError('--to: want postgres://user@host:port/name');
  const passwordFile = given['password-file'];
  if (passwordFile !== undefined && (!parsed.hasUser || parsed.hasPassword))
    throw new UsageError('--password-file: want a URL with a user and no password');
  const whole =
    passwordFile === undefined
      ? url
      : withPassword(url, readSecret({ kind: 'file', file: resolve(io.cwd, passwordFile) }, io.env, '--password-file'));
  return { file, bodiesFolder: join(config.dataDir, 'bodies'), url: whole, shown: printable(parsed.shown) };
}

function counted(rows: ReadonlyMap<string, number>): string[] {
  const named = [...rows].filter(([name, count]) => count > 0 && !(name in leftTables));
  return table(named.map(([name, count]) => [name, count.toLocaleString('en')] as const));
}

function dryRun({ file, shown }: Databases, io: CommandIo): number {
  const { rows, messages, octets, mark } = lookAtSource(file);
  if (mark) return fail(io, `"${file}" was moved to ${printable(mark.target)} already`);
  return print(io, [`Would move ${messages} messages with ${octets} octets to ${shown}. Rows:`, ...counted(rows)]);
}

function undo(given: Given, config: Config, io: CommandIo): number {
  const file = sourceOf(given, config, io);
  if (given.force !== true) {
    return fail(
      io,
      `This lets a gateway start on "${file}" again, as it was when it was moved: what PostgreSQL has delivered since is sent ` +
        'again, and what it has accepted since is not there. Stop every gateway on PostgreSQL first; --force does it',
    );
  }
  const mark = undoMove(file);
  if (!mark) return fail(io, `"${file}" was not moved`);
  return print(io, `A gateway starts on "${file}" again. Empty ${printable(mark.target)} before another move to it`);
}

/** Tells what is damaged. @param became the end of a sentence that says what becomes of it */
function tellDamaged({ messages, entries }: Damaged, became: string, io: CommandIo): void {
  const kinds = [
    ['messages in the queue', [...messages].map(([id, why]) => `${id}: ${why}`)],
    ['entries of the journal', [...entries].map(([seq, why]) => `entry ${seq}, ${why}`)],
  ] as const;
  for (const [what, lines] of kinds) {
    if (lines.length > 0) io.stderr.write(`${lines.length} damaged ${what} ${became}:\n`);
    for (const line of lines.slice(0, mostNamed)) io.stderr.write(`${printable(line)}\n`);
    if (lines.length > mostNamed) io.stderr.write(`and ${lines.length - mostNamed} more\n`);
  }
}

function tellMoved({ rows, octets, left, wasDone }: Moved, { file, bodiesFolder, shown }: Databases, io: CommandIo) {
  const messages = rows.get('spool_messages') ?? 0;
  const lines = [
    wasDone
      ? 'The move was complete already, and is marked now.'
      : `Moved ${messages} messages with ${octets} octets to ${shown}. Rows, counted there:`,
    ...counted(rows),
    `Now set database.url (or POSTERN_DATABASE_URL) to ${shown} and start the gateway.`,
    `No gateway starts on "${file}" any more. Remove it and "${bodiesFolder}" once all is well; until then`,
    'postern migrate --undo tells the way back.',
  ];
  print(io, lines);
  tellDamaged(left, 'were left behind', io);
}

/** Tells why a move failed. @returns the exit code */
function failed(thrown: unknown, isInterrupted: boolean, io: CommandIo): number {
  if (thrown instanceof EndUnknown) {
    io.stderr.write(
      `The move did not come to its end, and the target may have everything (${printable(thrown.message)}).\n` +
        'No gateway starts on the old database until that is known: run the same command again, which finds out\n',
    );
    return endUnknownCode;
  }
  if (isInterrupted) {
    io.stderr.write('Interrupted: nothing was moved, and everything is as it was\n');
    return interruptedCode;
  }
  if (thrown instanceof DamagedRows) {
    const { damaged } = thrown;
    tellDamaged(damaged, 'keep everything from being moved', io);
    const remove = damaged.messages.size > 0 ? 'Remove the messages (postern queue drop ID), or leave' : 'Leave';
    return fail(io, `${remove} what is damaged behind with --leave-damaged`);
  }
  return fail(io, `Nothing was moved: ${printable(errorMessage(thrown))}`);
}

async function move(databases: Databases, given: Given, io: CommandIo): Promise<number> {
  const interrupt = new AbortController();
  const onSignal = (): void => interrupt.abort();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, onSignal);
  const tell = tellProgress(io);
  try {
    const moved = await moveData({
      ...databases,
      migrations: tableMigrations,
      leaveDamaged: given['leave-damaged'] === true,
      signal: interrupt.signal,
      progress: ({ step, rows, allRows, octets }) =>
        tell(
          `${step}: ${rows.toLocaleString('en')} of ${allRows.toLocaleString('en')} rows, ${(octets / 2 ** 20).toFixed(0)} MiB`,
        ),
    });
    tellMoved(moved, databases, io);
    return moved.left.messages.size + moved.left.entries.size === 0 ? 0 : 1;
  } catch (thrown) {
    return failed(thrown, interrupt.signal.aborted, io);
  } finally {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.off(signal, onSignal);
  }
}

/** postern migrate moves a data folder with its queue from SQLite to PostgreSQL. */
export const command = defineCommand({
  details: `Everything goes: the queue with its holds and bodies, what is to be reported, events with their ids, webhooks and how far
each has come, the journal with the content of messages that it keeps, tokens, limits, suppressions, Idempotency-Keys, proxy
applications and custom errors. It goes in one transaction:
the target has all of it or nothing, also where this command, the machine or the server is killed in the middle.

The gateway must be stopped meanwhile; clients keep their mail and send it when it is back. --dry-run tells beforehand how much there
is. The target must be empty; what it has at the end is
counted and compared with what was sent. The old file stays as it is, but for a mark that keeps gateways from it, so
that nothing is sent twice. A password is better in --password-file or PGPASSWORD than in the URL, which other users of the machine
can see.`,
  options,
  examples: [
    'postern migrate --to postgres://postern@db.example/postern?sslmode=verify-full --dry-run',
    'postern migrate --to postgres://postern@db.example/postern?sslmode=verify-full --password-file /etc/postern/database-password',
    'postern migrate --undo',
  ],
  exitCodes: {
    1: 'nothing was moved, or something damaged was left behind',
    [endUnknownCode]:
      'the target went away, or a disk was full, at the very end: the same command, run again, finds out',
    [interruptedCode]: 'it was interrupted, and nothing was moved',
  },
  async run({ options: given, readConfig }, io) {
    const config = readConfig();
    if (given.undo === true) return undo(given, config, io);
    if (given.force === true) throw new UsageError('--force goes with --undo alone');
    const databases = databasesOf(given, config, io);
    return given['dry-run'] === true ? dryRun(databases, io) : await move(databases, given, io);
  },
});
