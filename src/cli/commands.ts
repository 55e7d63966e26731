// Every command of `postern`; each has a file of its own.

import type { CommandTable } from './command/command-table.ts';

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
