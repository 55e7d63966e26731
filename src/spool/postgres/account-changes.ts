// The numbers of each account in the spool, kept so that they need not be counted. Transactions that change messages tell what
// accounts have more or less; it is added up where that is filed (event-filer.ts).

import { addTallies } from '../core/tally-steps.ts';
import type { SpoolEntry } from '../spool.ts';
import { distinctRecipients } from '../stored-rows.ts';
import { type AccountTally, addTally, emptyTally, numbersOf, type Tally, tallyColumns, tallyOf } from '../tally.ts';
import { sizeOf } from './added-messages.ts';
import { listsOf, type Send } from './server/postgres-session.ts';

const change = addTallies(
  `SELECT * FROM unnest($1::text[], ${tallyColumns.map((_, index) => `$${index + 2}::bigint[]`).join(', ')})`,
);
const clear =
  'DELETE FROM spool_counts WHERE account = ANY ($1::text[]) AND queued_messages = 0 AND failed_messages = 0';

/** Changes to the accounts' numbers. */
export class AccountChanges {
  readonly #changes = new Map<string, Tally>();

  /** Notes what an account has more. */
  add(account: string, more: Tally): void {
    this.#changes.set(account, addTally(this.#changes.get(account) ?? emptyTally, more));
  }

  /** Notes a new message. */
  addMessage(entry: SpoolEntry): void {
    const counts = { queued: distinctRecipients(entry).length, delivered: 0, failed: 0 };
    this.add(entry.account, tallyOf(sizeOf(entry), counts));
  }

  /** What each account has more; less where it is negative. */
  get all(): readonly AccountTally[] {
    return [...this.#changes].map(([account, tally]) => ({ account, ...tally }));
  }
}

/** Sends the statements that add what accounts have more. */
export function sendTallies(send: Send, more: readonly AccountTally[]): void {
  const sum = new AccountChanges();
  for (const tally of more) sum.add(tally.account, tally);
  // Accounts in one order: two transactions never wait for each other's.
  const changes = sum.all.toSorted((left, right) => (left.account < right.account ? -1 : 1));
  if (changes.length === 0) return;
  const accounts = changes.map(({ account }) => account);
  void send(change, [accounts, ...listsOf(changes.map(numbersOf))]);
  // An account without messages has no row, so that accounts that come and go leave nothing behind.
  void send(clear, [accounts]);
}
