// The numbers of each account in the spool, kept so that they need not be counted. Transactions that change messages tell what
// accounts have more or less; it is added up where that is filed (event-filer.ts).

import type { Row } from '../../base/database/database.ts';
import type { SpoolEntry } from '../spool.ts';
import { distinctRecipients, integer, text } from '../stored-rows.ts';
import { type AccountTally, addTally, emptyTally, type Tally, tallyOf } from '../tally.ts';
import { sizeOf } from './added-messages.ts';
import type { PostgresSession, Send } from './server/postgres-session.ts';

const columns = `account, queued_messages, failed_messages, queued_octets, failed_octets, queued_recipients,
  delivered_recipients, failed_recipients`;

// Accounts in one order: two transactions never wait for each other's.
const change = `INSERT INTO spool_counts AS kept (${columns})
  SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
    $8::bigint[])
  ON CONFLICT (account) DO UPDATE SET queued_messages = kept.queued_messages + excluded.queued_messages,
    failed_messages = kept.failed_messages + excluded.failed_messages,
    queued_octets = kept.queued_octets + excluded.queued_octets,
    failed_octets = kept.failed_octets + excluded.failed_octets,
    queued_recipients = kept.queued_recipients + excluded.queued_recipients,
    delivered_recipients = kept.delivered_recipients + excluded.delivered_recipients,
    failed_recipients = kept.failed_recipients + excluded.failed_recipients`;

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

  /** Notes that a message of the account changes from the numbers `before` to the numbers `after`. */
  change(account: string, before: Tally, after: Tally): void {
    this.add(account, addTally(after, before, -1));
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
  const numbers = (pick: (tally: Tally) => number): number[] => changes.map(pick);
  void send(change, [
    changes.map(({ account }) => account),
    numbers(({ messages }) => messages.queued),
    numbers(({ messages }) => messages.failed),
    numbers(({ octets }) => octets.queued),
    numbers(({ octets }) => octets.failed),
    numbers(({ recipients }) => recipients.queued),
    numbers(({ recipients }) => recipients.delivered),
    numbers(({ recipients }) => recipients.failed),
  ]);
  // An account without messages has no row, so that accounts that come and go leave nothing behind.
  void send(clear, [changes.map(({ account }) => account)]);
}
