// Runs one command line: finds the command, and turns what it throws into one line and an exit code (sysexits.h).

import { readFileSync } from 'node:fs';
import { ConfigurationError, errorMessage, UsageError } from '../base/errors.ts';
import { escapeCharacters } from '../base/escape-text.ts';
import { type CommandIo, type CommandTable, runTable } from './command/command.ts';

/** The commands in the order of the help. */
export const commands = {
  serve: {
    summary: 'Run the gateway in the foreground until SIGTERM (the default)',
    load: async () => (await import('./serve.ts')).serveCommand,
  },
  reload: {
    summary: 'Let the running server read configuration and keys again',
    load: async () => (await import('./reload.ts')).reloadCommand,
  },
  check: {
    summary: 'Judge message files as the gateway would; nothing is sent',
    load: async () => (await import('./check.ts')).checkCommand,
  },
  report: {
    summary: 'Tell what was refused, by mailer, and the settings that cure it',
    load: async () => (await import('./report.ts')).reportCommand,
  },
  queue: {
    summary: 'Look at and act on the messages that wait or failed',
    load: async () => (await import('./queue/queue.ts')).queueCommands,
  },
  capture: {
    summary: 'Look at captured messages, and remove them',
    load: async () => (await import('./capture/capture.ts')).captureCommands,
  },
  token: {
    summary: 'Make, list and revoke tokens',
    load: async () => (await import('./token.ts')).tokenCommands,
  },
  suppression: {
    summary: 'Look at and change the addresses that an account does not send to',
    load: async () => (await import('./suppression.ts')).suppressionCommands,
  },
  webhook: {
    summary: 'Look at and change the endpoints that are told what happens to mail',
    load: async () => (await import('./webhook.ts')).webhookCommands,
  },
  dkim: {
    summary: 'Make signing keys and print their DNS records',
    load: async () => (await import('./keys.ts')).dkimCommands,
  },
  keys: {
    summary: 'Make the key that authenticates the addresses of bounces',
    load: async () => (await import('./keys.ts')).keysCommands,
  },
  cert: {
    summary: 'Make self-signed certificates',
    load: async () => (await import('./keys.ts')).certCommands,
  },
  domain: {
    summary: 'Print the DNS records of sending domains, and check them',
    load: async () => (await import('./domain.ts')).domainCommands,
  },
  doctor: {
    summary: 'Look at DNS, next hops, clock, disk, keys and database',
    load: async () => (await import('./doctor.ts')).doctorCommand,
  },
  backup: {
    summary: 'Write the queue and all other state into one file, online',
    load: async () => (await import('./backup.ts')).backupCommand,
  },
  restore: {
    summary: 'Put a backup into the data folder; no server may run on it',
    load: async () => (await import('./backup.ts')).restoreCommand,
  },
  migrate: {
    summary: 'Move the queue and all other state from SQLite to PostgreSQL',
    load: async () => (await import('./database/migrate.ts')).migrateCommand,
  },
  db: {
    summary: 'Look how the database is',
    load: async () => (await import('./database/db-check.ts')).dbCommands,
  },
  proxy: {
    summary: 'List the proxy applications, or take them to another proxy',
    load: async () => (await import('./proxy/proxy.ts')).proxyCommands,
  },
  edge: {
    summary: 'Have another proxy serve the zones, and Postern answer what fails',
    load: async () => (await import('./proxy/edge.ts')).edgeCommands,
  },
  health: {
    summary: 'Ask the server of this configuration whether it is ready',
    load: async () => (await import('./health.ts')).healthCommand,
  },
  config: {
    summary: 'Check the configuration, or show what it comes to',
    load: async () => (await import('./config.ts')).configCommands,
  },
} as const satisfies CommandTable;

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
