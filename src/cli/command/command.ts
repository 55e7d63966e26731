// What a command is. It is declared once; its parsing, its --help and its line in the table follow from the declaration.

import { type ParseArgsOptionDescriptor, parseArgs } from 'node:util';
import type { Config } from '../../app/config/config.ts';
import { closest, didYouMean } from '../../base/closest.ts';
import { errorCode, errorMessage, UsageError } from '../../base/errors.ts';

/** The streams, the environment and the folder that a command works with; tests pass their own. */
export interface CommandIo {
  readonly stdout: { write(text: string | Uint8Array): unknown };
  readonly stderr: { write(text: string): unknown };
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Asks the person at the terminal and gives the line of the answer; absent where there is no terminal. */
  readonly ask?: (question: string) => Promise<string>;
  /** The folder that relative paths of the command line and the configuration start at. */
  readonly cwd: string;
}

/** Prints lines, each with its end. @returns the exit code of a command that has done what it was asked, 0 */
export function print({ stdout }: CommandIo, lines: string | readonly string[]): 0 {
  const text = typeof lines === 'string' ? `${lines}\n` : lines.map((line) => `${line}\n`).join('');
  if (text !== '') stdout.write(text);
  return 0;
}

/** Prints things as JSON, one a line. @param shown what is shown of one; absent: all @returns as `print` */
export function printJson<T>(io: CommandIo, things: readonly T[], shown: (thing: T) => unknown = (thing) => thing): 0 {
  return print(
    io,
    things.map((thing) => JSON.stringify(shown(thing))),
  );
}

/** Whether an answer to a question agrees. */
export function isYes(answer: string): boolean {
  return /^y(?:es)?$/i.test(answer.trim());
}

/** Says on standard error why a command has not done what it was asked. @returns the exit code, 1 */
export function fail({ stderr }: CommandIo, why: string): 1 {
  stderr.write(`${why}\n`);
  return 1;
}

/** One option of a command: `--name VALUE`, or `--name` where `value` is absent. */
interface OptionSpec {
  /** What stands for the value in the help (`FILE`); absent for a switch. */
  readonly value?: string;
  readonly short?: string;
  readonly summary: string;
}

interface Call {
  /** `postern token create` */
  readonly path: string;
  readonly summary: string;
}

/** A command. It runs with the arguments behind its name and gives the exit code. */
export interface Command {
  /** One line, for `--help` and the table of a group; absent where the table of all commands says it. */
  readonly summary?: string;
  /** Runs the command with what stands behind its name. @returns the exit code, 0 or 1; 64 and 78 come from what it throws */
  run(args: readonly string[], io: CommandIo, call: Call): Promise<number>;
}

type Options = Readonly<Record<string, OptionSpec>>;

/** The options as given: a text, true, or absent. */
export type OptionValues<O extends Options> = {
  readonly [Name in keyof O]?: O[Name] extends { readonly value: string } ? string : true;
};

/** The declaration of a command. */
export interface CommandSpec<O extends Options> extends Pick<Command, 'summary'> {
  /** What stands behind the options, in the help's spelling: `DOMAIN`, `[FILE]`, `FILE...`; absent for nothing. */
  readonly synopsis?: string;
  /** How many arguments `...` stands for at most; absent: 1000. */
  readonly most?: number;
  readonly details?: string;
  readonly options: O;
  readonly examples: readonly string[];
  /** What exit codes of its own mean; 0, 64 and 78 are added to them. */
  readonly exitCodes?: Readonly<Record<number, string>>;
  /** Absent: it has the option that names the configuration file. */
  readonly needsNoConfig?: true;
  run(input: CommandInput<O>, io: CommandIo): number | Promise<number>;
}

interface CommandInput<O extends Options> {
  readonly options: OptionValues<O> & { readonly config?: string };
  readonly args: readonly string[];
  /** Loads the file that is given, else the command line's, POSTERN_CONFIG's or the default. @throws ConfigurationError */
  readonly readConfig: (file?: string) => Config;
}

/** The option that names the configuration file; it stands behind a command's own. */
export const configOption = {
  config: {
    value: 'FILE',
    short: 'c',
    summary: 'the configuration (default: POSTERN_CONFIG, else config/postern.yaml)',
  },
} as const satisfies Options;

/** `--json`, of commands that print several things. */
export const jsonOption = { json: { summary: 'one JSON object a line' } } as const satisfies Options;

/** The options of a list. */
export const listOptions = {
  limit: { value: 'N', summary: 'at most this many (default 100)' },
  ...jsonOption,
} as const satisfies Options;

/** `--server`, of commands that ask DNS. */
export const serverOption = {
  server: { value: 'ADDRESS', summary: "the name server to ask (default: the machine's own)" },
} as const satisfies Options;

const helpOption = { help: { short: 'h', summary: 'print this and exit' } } as const satisfies Options;

function optionLines(options: Options): string[] {
  const rows = Object.entries(options).map(([name, { short, value, summary }]) => {
    const word = `${short ? `-${short}, ` : '    '}--${name}`;
    return [value ? `${word} ${value}` : word, summary] as const;
  });
  return table(rows);
}

/** Writes rows as lines, each column as wide as its longest text. */
export function columns(rows: readonly (readonly string[])[]): string[] {
  const widths: number[] = [];
  for (const row of rows) {
    for (const [at, text] of row.entries()) widths[at] = Math.max(widths[at] ?? 0, text.length);
  }
  const lineOf = (row: readonly string[]) => row.map((text, at) => text.padEnd(widths[at] ?? 0)).join('  ');
  return rows.map((row) => lineOf(row).trimEnd());
}

/** Writes rows of two columns as lines, indented by two blanks. */
export function table(rows: readonly (readonly [string, string])[]): string[] {
  return columns(rows).map((line) => `  ${line}`);
}

function optionsOf<O extends Options>({ options, needsNoConfig }: CommandSpec<O>): Options {
  return { ...options, ...(needsNoConfig ? {} : configOption), ...helpOption };
}

/** How many plain arguments a synopsis stands for. */
function argumentsOf({ synopsis = '', most = 1000 }: CommandSpec<Options>) {
  if (synopsis === '') return { min: 0, max: 0 };
  return { min: synopsis.startsWith('[') ? 0 : 1, max: synopsis.includes('...') ? most : 1 };
}

function helpText<O extends Options>(spec: CommandSpec<O>, { path, summary }: Call): string {
  const reading = spec.needsNoConfig ? {} : { 78: 'the configuration is wrong' };
  const codes = { 0: 'done', 64: 'the command line is wrong', ...reading, ...spec.exitCodes };
  const lines = [
    `Usage: ${path} [options]${spec.synopsis ? ` ${spec.synopsis}` : ''}`,
    '',
    `${spec.summary ?? summary}.`,
    ...(spec.details ? ['', spec.details.trim()] : []),
    '',
    'Options:',
    ...optionLines(optionsOf(spec)),
    '',
    'Examples:',
    ...spec.examples.map((example) => `  ${example}`),
    '',
    'Exit codes:',
    ...table(Object.entries(codes).map(([code, meaning]) => [code, meaning] as const)),
  ];
  return `${lines.join('\n')}\n`;
}

/** Turns an error of parseArgs into one line that names the option and suggests the one that was probably meant. */
function usageError(error: unknown, options: Options, call: string): Error {
  if (errorCode(error) !== 'ERR_PARSE_ARGS_UNKNOWN_OPTION')
    return new UsageError(`${call}: ${errorMessage(error).replaceAll('\n', ' ')}`);
  const unknown = /'(--?[^'\s]+)/.exec(errorMessage(error))?.[1] ?? '';
  const near = closest(unknown.replace(/^-+/, ''), Object.keys(options));
  return new UsageError(`${call}: unknown option ${unknown}${near ? `; did you mean --${near}?` : ''}`);
}

function parse<O extends Options>(spec: CommandSpec<O>, args: readonly string[], call: string) {
  const options: Record<string, ParseArgsOptionDescriptor> = {};
  for (const [name, option] of Object.entries<OptionSpec>(optionsOf(spec))) {
    options[name] = { type: option.value ? 'string' : 'boolean', ...(option.short ? { short: option.short } : {}) };
  }
  try {
    return parseArgs({ args: [...args], options, allowPositionals: true, strict: true });
  } catch (error) {
    throw usageError(error, optionsOf(spec), call);
  }
}

/** Makes a command from its declaration: it parses, answers --help, and refuses too few or too many arguments. */
export function defineCommand<const O extends Options>(spec: CommandSpec<O>): Command {
  return {
    ...(spec.summary === undefined ? {} : { summary: spec.summary }),
    async run(args, io, call) {
      const { path } = call;
      const { values, positionals } = parse(spec, args, path);
      if (values['help'] === true) {
        io.stdout.write(helpText(spec, call));
        return 0;
      }
      const { min, max } = argumentsOf(spec);
      if (positionals.length < min) throw new UsageError(`${path}: want ${spec.synopsis}; see ${path} --help`);
      const surplus = positionals[max];
      if (surplus !== undefined) throw new UsageError(`${path}: too many arguments: "${surplus}"`);
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- parseArgs has judged them by the same declaration
      const options = values as unknown as CommandInput<O>['options'];
      const { loadConfig } = await import('../../app/config/config.ts');
      const readConfig = (file = options.config): Config =>
        loadConfig({ env: io.env, cwd: io.cwd, ...(file === undefined ? {} : { file }) });
      return await spec.run({ options, args: positionals, readConfig }, io);
    },
  };
}

/** A row of a table of commands. The command's file is loaded only when it is called, so that every command starts quickly. */
interface CommandRow {
  readonly summary: string;
  load(): Promise<{ readonly command: Command }>;
}

/** Commands by name, in the order of the help. */
export type CommandTable = Readonly<Record<string, CommandRow>>;

interface TableCall extends Call {
  readonly footer?: readonly string[];
}

function tableHelp(rows: CommandTable, { path, summary, footer }: TableCall): string {
  const lines = [
    `Usage: ${path} COMMAND [options]`,
    '',
    `${summary}.`,
    '',
    'Commands:',
    ...table(Object.entries(rows).map(([name, row]) => [name, row.summary] as const)),
    '',
    `${path} COMMAND --help tells of one command.`,
    ...(footer ? ['', ...footer] : []),
  ];
  return `${lines.join('\n')}\n`;
}

/** Runs the command that the first argument names, or prints help. @throws UsageError for one that is not in the table */
export async function runTable(
  rows: CommandTable,
  call: TableCall,
  args: readonly string[],
  io: CommandIo,
): Promise<number> {
  const { path } = call;
  const [name, ...rest] = args;
  if (name === '--help' || name === '-h' || (name === 'help' && rest.length === 0)) {
    io.stdout.write(tableHelp(rows, call));
    return 0;
  }
  if (name === 'help') return await runTable(rows, call, [...rest, '--help'], io);
  if (name === undefined) throw new UsageError(`${path}: want a command; see ${path} --help`);
  const row = Object.hasOwn(rows, name) ? rows[name] : undefined;
  if (row) return await (await row.load()).command.run(rest, io, { path: `${path} ${name}`, summary: row.summary });
  const see = `see ${path} --help`;
  if (name.startsWith('-')) throw new UsageError(`${path}: want a command before the option "${name}"; ${see}`);
  throw new UsageError(`${path}: unknown command "${name}"; ${didYouMean(name, Object.keys(rows), see)}`);
}

/** Makes one command of a group of commands (`postern token ...`). @param commands by the words that call them */
export function defineGroup(commands: Readonly<Record<string, Command>>): Command {
  const rows = Object.fromEntries(
    Object.entries(commands).map(([name, command]) => [
      name,
      { summary: command.summary ?? '', load: () => Promise.resolve({ command }) },
    ]),
  );
  return { run: (args, io, call) => runTable(rows, call, args, io) };
}
