// Runs one command line: finds the command, and turns what it throws into one line and an exit code (sysexits.h).

import { readFileSync } from 'node:fs';
import { ConfigurationError, errorMessage, UsageError } from '../base/errors.ts';
import { escapeCharacters } from '../base/escape-text.ts';
import { type CommandIo, type CommandTable, runTable } from './command/command.ts';

/** The commands in the order of the help. */
export const commands = {
  serve: { summary: 'Run the gateway in the foreground until SIGTERM (the default)', load: () => import('./serve.ts') },
  reload: { summary: 'Let the running server read configuration and keys again', load: () => import('./reload.ts') },
  check: { summary: 'Judge message files as the gateway would; nothing is sent', load: () => import('./check.ts') },
  report: {
    summary: 'Tell what was refused, by mailer, and the settings that cure it',
    load: () => import('./report.ts'),
  },
  queue: { summary: 'Look at and act on the messages that wait or failed', load: () => import('./queue/queue.ts') },
  capture: { summary: 'Look at captured messages, and remove them', load: () => import('./capture/capture.ts') },
  token: { summary: 'Make, list and revoke tokens', load: () => import('./token.ts') },
  suppression: {
    summary: 'Look at and change the addresses that an account does not send to',
    load: () => import('./suppression.ts'),
  },
  webhook: {
    summary: 'Look at and change the endpoints that are told what happens to mail',
    load: () => import('./webhook.ts'),
  },
  dkim: {
    summary: 'Make signing keys and print their DNS records',
    load: async () => ({ command: (await import('./keys.ts')).dkimCommands }),
  },
  keys: {
    summary: 'Make the key that authenticates the addresses of bounces',
    load: async () => ({ command: (await import('./keys.ts')).keysCommands }),
  },
  cert: {
    summary: 'Make self-signed certificates',
    load: async () => ({ command: (await import('./keys.ts')).certCommands }),
  },
  domain: { summary: 'Print the DNS records of sending domains, and check them', load: () => import('./domain.ts') },
  doctor: { summary: 'Look at DNS, next hops, clock, disk, keys and database', load: () => import('./doctor.ts') },
  backup: {
    summary: 'Write the queue and all other state into one file, online',
    load: async () => ({ command: (await import('./backup.ts')).backupCommand }),
  },
  restore: {
    summary: 'Put a backup into the data folder; no server may run on it',
    load: async () => ({ command: (await import('./backup.ts')).restoreCommand }),
  },
  migrate: {
    summary: 'Move the queue and all other state from SQLite to PostgreSQL',
    load: () => import('./database/migrate.ts'),
  },
  db: { summary: 'Look how the database is', load: () => import('./database/db-check.ts') },
  proxy: {
    summary: 'List the proxy applications, or take them to another proxy',
    load: () => import('./proxy/proxy.ts'),
  },
  edge: {
    summary: 'Have another proxy serve the zones, and Postern answer what fails',
    load: () => import('./proxy/edge.ts'),
  },
  health: { summary: 'Ask the server of this configuration whether it is ready', load: () => import('./health.ts') },
  config: { summary: 'Check the configuration, or show what it comes to', load: () => import('./config.ts') },
} as const satisfies CommandTable;

const program = {
  path: 'postern',
  summary: 'An outbound mail gateway: judges, rebuilds, signs and relays mail',
  footer: [
    'postern --version prints the version. Without arguments it is postern serve.',
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

/** Runs a command line without the program's name; never throws. @returns the exit code: 0, 1, 64 (usage) or 78 (configuration) */
export async function runCommandLine(args: readonly string[], io: CommandIo): Promise<number> {
  try {
    if (args[0] === '--version' || args[0] === '-V') {
      io.stdout.write(`postern ${readVersion()}\n`);
      return 0;
    }
    return await runTable(commands, program, args.length === 0 ? ['serve'] : args, io);
  } catch (error) {
    // A message may quote the name of a file or the words of others: nothing in it may control the terminal.
    const warnings = error instanceof ConfigurationError ? error.warnings : [];
    const lines = [errorText(error, io.env), ...warnings.map((warning) => `warning: ${warning}`)];
    io.stderr.write(`${escapeCharacters(lines.join('\n'), /(?![\n\t])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu)}\n`);
    return error instanceof ConfigurationError || error instanceof UsageError ? error.exitCode : 1;
  }
}
