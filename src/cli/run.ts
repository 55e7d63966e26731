// Runs one command line: finds the command, and turns what it throws into one line and an exit code (sysexits.h).

import { readFileSync } from 'node:fs';
import { ConfigurationError, errorMessage, UsageError } from '../base/errors.ts';
import { escapeCharacters } from '../base/escape-text.ts';
import type { CommandIo } from './command/command.ts';
import { runTable } from './command/command-table.ts';
import { commands } from './commands.ts';

const text = {
  summary: 'An outbound mail gateway: judges, rebuilds, signs and relays mail',
  footer: [
    'postern --version prints the version. Without a command it is postern serve.',
    'Exit codes: 0 done, 1 failed or refused, 64 the command line is wrong, 78 the configuration is wrong.',
  ],
};

/** The version in package.json. */
export function readVersion(): string {
  const parsed: unknown = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
  return typeof parsed === 'object' && parsed && 'version' in parsed ? String(parsed.version) : 'unknown';
}

/** An error as lines for a person. The stack and the causes are shown only while debugging. */
function errorText(error: unknown, env: CommandIo['env']): string {
  const level = env['POSTERN_LOG_LEVEL'];
  if (level !== 'debug' && level !== 'trace') return errorMessage(error);
  let lines = error instanceof Error ? (error.stack ?? error.message) : String(error);
  let cause = error instanceof Error ? error.cause : undefined;
  for (let depth = 0; cause !== undefined && depth < 8; depth += 1) {
    lines += `\nCaused by: ${cause instanceof Error ? (cause.stack ?? cause.message) : errorMessage(cause)}`;
    cause = cause instanceof Error ? cause.cause : undefined;
  }
  return lines;
}

function warningsOf(error: unknown): readonly string[] {
  return error instanceof ConfigurationError ? error.warnings : [];
}

/**
 * Runs a command line.
 * @param args without the program's own name
 * @returns the exit code: 0, 1, 64 (usage) or 78 (configuration); never throws
 */
export async function runCommandLine(args: readonly string[], io: CommandIo): Promise<number> {
  try {
    if (args[0] === '--version' || args[0] === '-V') {
      io.stdout.write(`postern ${readVersion()}\n`);
      return 0;
    }
    return await runTable(commands, text, { args: args.length === 0 ? ['serve'] : args, io, path: 'postern' });
  } catch (error) {
    // A message may quote the name of a file or the words of others: nothing in it may control the terminal.
    const lines = [errorText(error, io.env), ...warningsOf(error).map((warning) => `warning: ${warning}`)];
    io.stderr.write(`${escapeCharacters(lines.join('\n'), /(?![\n\t])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu)}\n`);
    return error instanceof ConfigurationError || error instanceof UsageError ? error.exitCode : 1;
  }
}
