// Opens the queue for its commands: the spool of the configuration, read a page at a time beside a running server (D94).

import type { Config } from '../../app/config/config.ts';
import { openSpool } from '../../app/wiring/engine/open-stores.ts';
import type { ListQuery, QueueItem, Spool } from '../../spool/spool.ts';
import { type CommandIo, fail } from '../command/command.ts';
import { parseWord } from '../command/span.ts';

/** Exit codes of the commands that name messages. */
export const notFound = { 1: 'there is no such message' } as const;

/** The queue and its configuration. */
export interface OpenQueue {
  readonly spool: Spool;
  readonly config: Config;
}

/** Opens the queue, runs the work with it and closes it. */
export async function withQueue<T>(config: Config, use: (opened: OpenQueue) => Promise<T>): Promise<T> {
  const spool = await openSpool(config);
  try {
    return await use({ spool, config });
  } finally {
    await spool.close();
  }
}

/** Messages read from the database at a time. The command holds no more in memory, however long the queue is. */
export const pageMessages = 200;

/** The messages of the queue, oldest first, read a page at a time. */
export async function* items(
  spool: Pick<Spool, 'list'>,
  query: Omit<ListQuery, 'limit' | 'after'>,
): AsyncGenerator<QueueItem> {
  let page = await spool.list({ ...query, limit: pageMessages });
  for (;;) {
    yield* page.items;
    if (page.next === undefined) return;
    page = await spool.list({ ...query, limit: pageMessages, after: page.next });
  }
}

/** The times of a retry: it is due now, and expires when a message accepted now would expire. */
export function newTimes({ delivery }: Config): { readonly now: number; readonly expiresAt: number } {
  const now = Date.now();
  return { now, expiresAt: now + delivery.retry.expireAfterSeconds * 1000 };
}

/** Reads --state. @throws UsageError for another word */
export function stateOption(state: string | undefined): { readonly state?: 'queued' | 'failed' } {
  return state === undefined ? {} : { state: parseWord(state, '--state', ['queued', 'failed']) };
}

/** Says that there is no such message. @returns the exit code, 1 */
export function missing(id: string, io: CommandIo): number {
  return fail(io, `There is no message "${id}" in the queue; postern queue list shows them`);
}
