// A table of commands finds a command by its name and lists all of them for --help. The top level is one table, and each
// group (such as `token`) is another.

import { closest } from '../../base/closest.ts';
import { UsageError } from '../../base/errors.ts';
import { type Command, type CommandIo, table } from './command.ts';

/** A row of a table of commands. The command's file is loaded only when it is called, so that every command starts quickly. */
export interface CommandRow {
  readonly summary: string;
  load(): Promise<Command>;
}

/** Commands by name, in the order of the help. */
export type CommandTable = Readonly<Record<string, CommandRow>>;

/** The text of a table's help, beside its rows. */
export interface TableText {
  readonly summary: string;
  /** Lines under the table. */
  readonly footer?: readonly string[];
}

function tableHelp(rows: CommandTable, text: TableText, call: string): string {
  const lines = [
    `Usage: ${call} COMMAND [options]`,
    '',
    `${text.summary}.`,
    '',
    'Commands:',
    ...table(Object.entries(rows).map(([name, row]) => [name, row.summary] as const)),
    '',
    `${call} COMMAND --help tells of one command.`,
    ...(text.footer ? ['', ...text.footer] : []),
  ];
  return `${lines.join('\n')}\n`;
}

/**
 * Runs the command that the first argument names. `--help`, `-h` and `help [NAME]` print the table or that command's
 * help.
 * @throws UsageError for no command, or one that is not in the table
 */
export async function runTable(
  rows: CommandTable,
  text: TableText,
  call: { readonly args: readonly string[]; readonly io: CommandIo; readonly path: string },
): Promise<number> {
  const [name, ...rest] = call.args;
  if (name === '--help' || name === '-h' || (name === 'help' && rest.length === 0)) {
    call.io.stdout.write(tableHelp(rows, text, call.path));
    return 0;
  }
  if (name === 'help') return await runTable(rows, text, { ...call, args: [...rest, '--help'] });
  if (name === undefined) throw new UsageError(`${call.path}: want a command; see ${call.path} --help`);
  const row = Object.hasOwn(rows, name) ? rows[name] : undefined;
  if (row) return await (await row.load()).run(rest, call.io, `${call.path} ${name}`);
  const near = closest(name, Object.keys(rows));
  const kind = name.startsWith('-') ? 'option' : 'command';
  throw new UsageError(
    `${call.path}: unknown ${kind} "${name}"; ${near ? `did you mean "${near}"?` : `see ${call.path} --help`}`,
  );
}

/** Makes one command of a group of commands (`postern token ...`). */
export function defineGroup(name: string, summary: string, commands: readonly Command[]): Command {
  const rows = Object.fromEntries(
    commands.map((command) => [command.name, { summary: command.summary, load: () => Promise.resolve(command) }]),
  );
  return {
    name,
    summary,
    help: (path) => tableHelp(rows, { summary }, path),
    run: (args, io, path) => runTable(rows, { summary }, { args, io, path }),
  };
}
