// Keeps the numbers of each account, so that they need not be counted. What a transaction changes is written to one row of each
// account before its COMMIT, so that numbers and messages always agree, whichever process changes them and however it ends.

import { type DatabaseSync, prepareAll } from '../../base/database/sqlite-file.ts';
import { Part } from '../../base/part.ts';
import { addTallies, countTallies, readTallies, tallyOfRow } from '../core/tally-steps.ts';
import { integer, stateNumbers } from '../stored-rows.ts';
import { type AccountTally, addTally, emptyTally, numbersOf, type Tally, TallyChanges, totalOf } from '../tally.ts';
import { stepsOn } from './file/sqlite-steps.ts';

/** Writes every row anew from the messages and recipients that are there. */
export const rebuildLedger = `
  DELETE FROM spool_counts;
  ${countTallies('seq')};
  DELETE FROM spool_failures;
  INSERT INTO spool_failures
  SELECT m.seq, m.account, max(r.ended_at), m.size FROM spool_messages m JOIN spool_recipients r ON r.message = m.seq
  GROUP BY m.seq HAVING count(*) FILTER (WHERE r.state = 0) = 0;`;

function prepare(database: DatabaseSync) {
  return prepareAll(database, {
    add: addTallies('VALUES (?, ?, ?, ?, ?, ?, ?, ?)'),
    // An account without messages has no row, so that accounts that come and go leave nothing behind.
    clear: 'DELETE FROM spool_counts WHERE account = ? AND queued_messages = 0 AND failed_messages = 0',
    of: 'SELECT * FROM spool_counts WHERE account = ?',
    messages: 'SELECT count(*) AS messages FROM spool_messages',
    recipients: 'SELECT state, count(*) AS recipients FROM spool_recipients GROUP BY state',
  });
}

/** The accounts' numbers on one connection. */
export class Ledger extends Part<{ readonly database: DatabaseSync }> {
  readonly #sql = prepare(this.parts.database);
  readonly #steps = stepsOn(this.parts.database);
  /** What the transaction makes of the numbers. Where it was undone they are to be cleared. */
  readonly changes = new TallyChanges();

  /** An account's numbers as they are inside this transaction. */
  of(account: string): Tally {
    const row = this.#sql.of.get(account);
    return addTally(row ? tallyOfRow(row) : emptyTally, this.changes.get(account) ?? emptyTally);
  }

  /** Writes the noted changes; to be called last before COMMIT. */
  write(): void {
    for (const [account, change] of this.changes) {
      const numbers = numbersOf(change);
      // As many messages may have come as have gone: then there is nothing to write.
      if (numbers.every((number) => number === 0)) continue;
      this.#sql.add.run(account, ...numbers);
      if (change.messages.queued < 0 || change.messages.failed < 0) this.#sql.clear.run(account);
    }
    this.changes.clear();
  }

  /** The numbers of every account; see `readTallies`. */
  read(): readonly AccountTally[] {
    return this.#steps(readTallies());
  }

  /** Counts everything, in a transaction that has changed nothing, and rewrites rows that differ. @returns false where they did */
  verify(): boolean {
    const { messages, recipients } = totalOf(this.read());
    const states = new Map(
      this.#sql.recipients.all().map((row) => [integer(row, 'state'), integer(row, 'recipients')]),
    );
    const isRight =
      messages.queued + messages.failed === integer(this.#sql.messages.get() ?? {}, 'messages') &&
      recipients.queued === (states.get(stateNumbers.queued) ?? 0) &&
      recipients.delivered === (states.get(stateNumbers.delivered) ?? 0) &&
      recipients.failed === (states.get(stateNumbers.failed) ?? 0);
    if (!isRight) this.parts.database.exec(rebuildLedger);
    return isRight;
  }
}
