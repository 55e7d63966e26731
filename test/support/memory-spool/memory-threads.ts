// Which Message-ID stands for the client's own, in memory.

import { threadMilliseconds, threadsOfAccount } from '../../../src/spool/core/thread-steps.ts';
import { keptClientId } from '../../../src/spool/stored-rows.ts';

interface Kept {
  readonly messageId: string;
  readonly at: number;
}

/** The ids of one process. */
export class MemoryThreads {
  readonly #accounts = new Map<string, Map<string, Kept>>();

  /** Keeps the client's id of a message where it asks for that. */
  add(entry: {
    readonly account: string;
    readonly messageId: string;
    readonly acceptedAt: number;
    readonly keepsClientId?: boolean;
    readonly clientMessageId?: string | undefined;
  }): void {
    const clientId = keptClientId(entry);
    if (clientId === undefined) return;
    const ids = this.#accounts.get(entry.account) ?? new Map<string, Kept>();
    this.#accounts.set(entry.account, ids);
    ids.delete(clientId);
    ids.set(clientId, { messageId: entry.messageId, at: entry.acceptedAt });
    const [oldest] = ids.keys();
    if (ids.size > threadsOfAccount && oldest !== undefined) ids.delete(oldest);
  }

  /** Finds the ids that stand for ids of an account. */
  find(account: string, clientIds: readonly string[], now: number): ReadonlyMap<string, string> {
    const ids = this.#accounts.get(account);
    return new Map(
      clientIds.flatMap((clientId) => {
        const kept = ids?.get(clientId);
        return kept && kept.at > now - threadMilliseconds ? [[clientId, kept.messageId] as const] : [];
      }),
    );
  }
}
