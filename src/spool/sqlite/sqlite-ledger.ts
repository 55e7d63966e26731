// Keeps the numbers of each account in the spool, so that they need not be counted. The changes of a transaction are
// gathered here and written to one row for each account before its COMMIT, so that numbers and messages always agree,
// whichever process changes them and however it ends.

import type { Row } from '../../base/database/database.ts';
import { type DatabaseSync, prepareAll } from '../../base/database/sqlite-file.ts';
import { integer, text } from '../stored-rows.ts';
import { type AccountTally, addTally, emptyTally, type Tally } from '../tally.ts';

/** Writes every row anew from the messages and recipients that are there. */
export const rebuildLedger = `
  DELETE FROM spool_counts;
  INSERT INTO spool_counts
  SELECT account, sum(queued > 0), sum(queued = 0), sum(iif(queued > 0, size, 0)), sum(iif(queued = 0, size, 0)),
    sum(queued), sum(delivered), sum(failed)
  FROM (SELECT m.account, m.size, count(*) FILTER (WHERE r.state = 0) AS queued,
      count(*) FILTER (WHERE r.state = 1) AS delivered, count(*) FILTER (WHERE r.state = 2) AS failed
    FROM spool_messages m JOIN spool_recipients r ON r.message = m.seq GROUP BY m.seq)
  GROUP BY account;
  DELETE FROM spool_failures;
  INSERT INTO spool_failures
  SELECT m.seq, m.account, max(r.ended_at), m.size FROM spool_messages m JOIN spool_recipients r ON r.message = m.seq
  GROUP BY m.seq HAVING count(*) FILTER (WHERE r.state = 0) = 0;`;

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

function prepare(database: DatabaseSync) {
  return prepareAll(database, {
    add: `INSERT INTO spool_counts VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
      ON CONFLICT (account) DO UPDATE SET queued_messages = queued_messages + ?2, failed_messages = failed_messages + ?3,
        queued_octets = queued_octets + ?4, failed_octets = failed_octets + ?5,
        queued_recipients = queued_recipients + ?6, delivered_recipients = delivered_recipients + ?7,
        failed_recipients = failed_recipients + ?8`,
    // An account without messages has no row, so that accounts that come and go leave nothing behind.
    clear: 'DELETE FROM spool_counts WHERE account = ? AND queued_messages = 0 AND failed_messages = 0',
    of: 'SELECT * FROM spool_counts WHERE account = ?',
    all: 'SELECT * FROM spool_counts ORDER BY account',
    messages: 'SELECT count(*) AS messages FROM spool_messages',
    recipients: 'SELECT state, count(*) AS recipients FROM spool_recipients GROUP BY state',
  });
}

/** The accounts' numbers on one connection. */
export class Ledger {
  readonly #database: DatabaseSync;
  readonly #sql: ReturnType<typeof prepare>;
  readonly #changes = new Map<string, Tally>();

  /** @param database its tables are up to date */
  constructor(database: DatabaseSync) {
    this.#database = database;
    this.#sql = prepare(database);
  }

  /** Notes that a message of the account changes from the numbers `before` to the numbers `after`. */
  change(account: string, before: Tally, after: Tally): void {
    const sum = addTally(this.#changes.get(account) ?? emptyTally, before, -1);
    this.#changes.set(account, addTally(sum, after));
  }

  /** An account's numbers as they are inside this transaction. */
  of(account: string): Tally {
    const row = this.#sql.of.get(account);
    return addTally(row ? tallyOfRow(row) : emptyTally, this.#changes.get(account) ?? emptyTally);
  }

  /** Writes the noted changes; to be called last before COMMIT. */
  write(): void {
    for (const [account, { messages, octets, recipients }] of this.#changes) {
      // As many messages may have come as have gone: then there is nothing to write.
      if (![messages, octets, recipients].some((numbers) => Object.values(numbers).some((number) => number !== 0)))
        continue;
      this.#sql.add.run(
        account,
        messages.queued,
        messages.failed,
        octets.queued,
        octets.failed,
        recipients.queued,
        recipients.delivered,
        recipients.failed,
      );
      if (messages.queued < 0 || messages.failed < 0) this.#sql.clear.run(account);
    }
    this.#changes.clear();
  }

  /** Forgets the noted changes, since the transaction was undone. */
  undo(): void {
    this.#changes.clear();
  }

  /** The numbers of every account that has a message, by name. It reads one row for each account, however many messages. */
  read(): readonly AccountTally[] {
    return this.#sql.all.all().map(tallyOfRow);
  }

  /**
   * Counts all messages and recipients, and rewrites the rows where they differ from the count, because another program
   * has changed the tables. To be called inside a transaction that has changed nothing yet.
   * @returns false where they differed
   */
  verify(): boolean {
    const kept = this.read();
    const sum = (pick: (tally: Tally) => number): number => kept.reduce((total, tally) => total + pick(tally), 0);
    const states = new Map(
      this.#sql.recipients.all().map((row) => [integer(row, 'state'), integer(row, 'recipients')]),
    );
    const isRight =
      sum(({ messages }) => messages.queued + messages.failed) ===
        integer(this.#sql.messages.get() ?? {}, 'messages') &&
      sum(({ recipients }) => recipients.queued) === (states.get(0) ?? 0) &&
      sum(({ recipients }) => recipients.delivered) === (states.get(1) ?? 0) &&
      sum(({ recipients }) => recipients.failed) === (states.get(2) ?? 0);
    if (!isRight) this.#database.exec(rebuildLedger);
    return isRight;
  }
}
