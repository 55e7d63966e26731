// The numbers of each account in the spool, kept so that they need not be counted. Transactions that change messages tell what
// accounts have more or less; it is added up where that is filed (event-filer.ts).

import type { Row } from '../../base/database/database.ts';
import type { SpoolEntry } from '../spool.ts';
import { distinctRecipients, integer, text } from '../stored-rows.ts';
import { type AccountTally, addTally, emptyTally, type Tally, tallyOf } from '../tally.ts';
import { sizeOf } from './added-messages.ts';
import type { PostgresSession, Send } from './server/postgres-session.ts';

/** The columns of an account's numbers. */
const numbers: Readonly<Record<string, (tally: Tally) => number>> = {
  queued_messages: ({ messages }) => messages.queued,
  failed_messages: ({ messages }) => messages.failed,
  queued_octets: ({ octets }) => octets.queued,
  failed_octets: ({ octets }) => octets.failed,
  queued_recipients: ({ recipients }) => recipients.queued,
  delivered_recipients: ({ recipients }) => recipients.delivered,
  failed_recipients: ({ recipients }) => recipients.failed,
};
const names = Object.keys(numbers);
const columns = ['account', ...names].join(', ');

// Accounts in one order: two transactions never wait for each other's.
const change = `INSERT INTO spool_counts AS kept (${columns})
  SELECT * FROM unnest($1::text[], ${names.map((_, index) => `$${index + 2}::bigint[]`).join(', ')})
  ON CONFLICT (account) DO UPDATE SET ${names.map((name) => `${name} = kept.${name} + excluded.${name}`).join(', ')}`;

const clear =
  'DELETE FROM spool_counts WHERE account = ANY ($1::text[]) AND queued_messages = 0 AND failed_messages = 0';
const all = `SELECT ${columns} FROM spool_counts ORDER BY account`;

function tallyOfRow(row: Row): AccountTally {
  return {
    account: text(row, 'account'),
    messages: { queued: integer(row, 'queued_messages'), failed: integer(row, 'failed_messages') },
    octets: { queued: integer(row, 'queued_octets'), failed: integer(row, 'failed_octets') },
    recipients: {
      queued: integer(row, 'queued_recipients'),
      delivered: integer(row, 'delivered_recipients'),
      failed: integer(row, 'failed_recipients'),
    },
  };
}

/** The numbers of every account that has a message, by name. */
export async function readTallies(session: PostgresSession): Promise<readonly AccountTally[]> {
  return (await session.query(all)).map(tallyOfRow);
}

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
  const changes = sum.all.toSorted((left, right) => (left.account < right.account ? -1 : 1));
  if (changes.length === 0) return;
  const accounts = changes.map(({ account }) => account);
  void send(change, [accounts, ...Object.values(numbers).map((pick) => changes.map(pick))]);
  // An account without messages has no row, so that accounts that come and go leave nothing behind.
  void send(clear, [accounts]);
}
