// Opens the webhooks for their commands, beside a running server (D94).

import type { Account } from '../../accounts/account.ts';
import { systemClock } from '../../base/clock.ts';
import { UsageError } from '../../base/errors.ts';
import type { Config } from '../../config.ts';
import type { EventStore } from '../../events/event-store.ts';
import { openWebhookStore, type WebhookStore } from '../../webhooks/webhook-store.ts';
import { openSpool } from '../../wiring/engine/open-stores.ts';
import { chooseAccount, withDatabase } from '../command/choose-account.ts';
import type { CommandIo } from '../command/command.ts';
import { configExitCode } from '../command/load-config.ts';

/** `--account`, which every command wants. */
export const accountOption = {
  account: { value: 'A', short: 'a', summary: 'name or id of the account (required)' },
} as const;

/** Exit codes of the commands that name a webhook. */
export const notFound = { 1: 'there is no such webhook that a command may change', ...configExitCode } as const;

/** The account of `--account`. @throws UsageError where none is named or there is no such account */
export function accountOf(config: Config, reference: string | undefined): Account {
  if (reference === undefined) throw new UsageError('--account: want the name or id of an account');
  return chooseAccount(config, reference);
}

/** Opens the webhooks, runs the work with them and closes them. */
export function withWebhooks<T>(config: Config, work: (store: WebhookStore) => Promise<T>): Promise<T> {
  return withDatabase(config, async (database) => await work(await openWebhookStore(database, systemClock)));
}

/** Opens the events, runs the work with them and closes them. */
export async function withEvents<T>(config: Config, work: (events: EventStore) => Promise<T>): Promise<T> {
  const spool = await openSpool(config);
  try {
    return await work(spool.events);
  } finally {
    await spool.close();
  }
}

/** Says that there is no such webhook. @returns the exit code, 1 */
export function missing(id: string, account: string, io: CommandIo): number {
  io.stderr.write(
    `${account} has no such webhook "${id}" that a command may change; postern webhook list shows them\n`,
  );
  return 1;
}
