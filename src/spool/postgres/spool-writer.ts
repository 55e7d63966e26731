// Writes to the spool: gathers what comes while the last group is being committed, and writes each group in one transaction.
// Every such transaction takes the one turn to write first (`takeTurn`) and locks everything else after it, so that no two
// of them, of whatever processes, can wait for each other.

import { setTimeout as sleep } from 'node:timers/promises';
import { Unavailable } from '../../base/errors.ts';
import { type PostgresJournalRow, sendJournal } from '../journal/postgres-journal.ts';
import type { PackedEvent } from '../packed-event.ts';
import type { AccountTally } from '../tally.ts';
import { AccountChanges } from './account-changes.ts';
import { type AddedMessage, sendAdded, sizeOf } from './added-messages.ts';
import { sendEvents, takeTurn, tellEvents } from './events/written-events.ts';
import { MessageChanges } from './message-changes.ts';
import type { PostgresReports } from './postgres-reports.ts';
import type { ProcessRegister } from './process-register.ts';
import type { DatabaseClock } from './server/database-clock.ts';
import { GroupQueue } from './server/group-queue.ts';
import { InDoubt, type PostgresSession, type Send } from './server/postgres-session.ts';

/** How long is asked what became of a transaction whose end was not heard of, in milliseconds, and how often. */
const doubtMs = 10_000;
const askAgainMs = 250;

/** What the operations of a group are handed: they say what is to be written, and nothing is until all have. */
export interface WriteGroup {
  readonly added: AddedMessage[];
  readonly events: PackedEvent[];
  readonly journal: PostgresJournalRow[];
  readonly messages: MessageChanges;
  /** Further statements, sent behind those for messages. */
  readonly others: ((send: Send) => void)[];
}

/** An operation that writes. */
export interface PostgresWrite<Result> {
  /** Messages that it may change: they are read before it is run. */
  readonly reads?: readonly string[];
  /** The whole of these messages is read, and not only their states. */
  readonly readsEntries?: boolean;
  readonly octets?: number;
  /** Nobody waits for the result. */
  readonly isPatient?: boolean;
  readonly run: (group: WriteGroup) => Result;
}

interface Waiting extends PostgresWrite<unknown> {
  readonly octets: number;
  readonly isPatient: boolean;
  /** `value` gives the result; asked for once everything is on disk. */
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/** What a group has sent. */
interface Sent {
  readonly results: readonly unknown[];
  readonly unreported: number;
  /** Answered with the transaction. */
  readonly tallies: Promise<readonly AccountTally[]>;
}

/** What a group has learnt beside its results. */
type Learnt = (tallies: readonly AccountTally[]) => void;

/** The writes of one process. */
export class SpoolWriter {
  readonly #session: PostgresSession;
  readonly #register: ProcessRegister;
  readonly #clock: DatabaseClock;
  readonly #reports: PostgresReports;
  readonly #hasJournal: boolean;
  readonly #onTallies: Learnt;
  #unreported = 0;
  readonly #onCommitted: (operations: number) => void;
  readonly #queue = new GroupQueue<Waiting>((group) => this.#write(group));

  constructor(parts: {
    readonly session: PostgresSession;
    readonly register: ProcessRegister;
    readonly clock: DatabaseClock;
    readonly reports: PostgresReports;
    /** Whether the journal is written. */
    readonly hasJournal: boolean;
    /** Told of the numbers of accounts that a group has changed. */
    readonly onTallies: Learnt;
    /** Told after each commit how many operations it had. */
    readonly onCommitted: (operations: number) => void;
  }) {
    this.#session = parts.session;
    this.#register = parts.register;
    this.#clock = parts.clock;
    this.#reports = parts.reports;
    this.#hasJournal = parts.hasJournal;
    this.#onTallies = parts.onTallies;
    this.#onCommitted = parts.onCommitted;
  }

  /** Outcomes that are not reported to their senders because there were too many. */
  get unreported(): number {
    return this.#unreported;
  }

  /** Runs an operation; resolves once what it writes is on disk. @throws Unavailable while the server is away */
  async write<Result>(operation: PostgresWrite<Result>): Promise<Result> {
    const result = await new Promise((resolve, reject) => {
      const { octets = 0, isPatient = false } = operation;
      this.#queue.put({ ...operation, octets, isPatient, resolve, reject });
    });
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- `#write` settles each operation with its own result
    return result as Result;
  }

  /** Adds a message with its event. */
  async add(message: AddedMessage, event: PackedEvent, journal?: PostgresJournalRow): Promise<void> {
    await this.write({
      octets: sizeOf(message.entry),
      run: (group) => {
        group.added.push(message);
        group.events.push(event);
        if (journal) group.journal.push(journal);
      },
    });
  }

  /** Resolves once everything is written. */
  quiet(): Promise<void> {
    return this.#queue.quiet();
  }

  async #write(group: readonly Waiting[]): Promise<void> {
    try {
      const results = await this.#commit(group);
      for (const [index, { resolve }] of group.entries()) resolve(results[index]);
      this.#onCommitted(group.length);
    } catch (thrown) {
      if (group.length === 1 || thrown instanceof Unavailable) {
        for (const { reject } of group) reject(thrown);
        return;
      }
      // One of them cannot be written, and only that one fails: each gets a transaction of its own.
      for (const one of group) await this.#write([one]);
    }
  }

  /** Writes a group; where the server has forgotten this process meanwhile, once more as a new one. */
  async #commit(group: readonly Waiting[]): Promise<readonly unknown[]> {
    const { id, batch } = await this.#register.nextBatch();
    let sent: Sent | undefined;
    try {
      await this.#session.transaction(
        async (send) => {
          this.#register.sendFence(send, { id, batch });
          sent = await this.#send(send, group, id);
        },
        { tellsDoubt: true },
      );
      if (sent) this.#onTallies(await sent.tallies);
      this.#unreported += sent?.unreported ?? 0;
    } catch (thrown) {
      if (this.#register.isForgotten(thrown)) {
        await this.#register.renew(id);
        return await this.#commit(group);
      }
      if (!(thrown instanceof InDoubt)) throw thrown;
      await this.#endDoubt({ id, batch }, thrown);
    }
    return sent?.results ?? [];
  }

  /** Sends everything that a group writes, without waiting for answers but those that the group needs. */
  async #send(send: Send, group: readonly Waiting[], process: number): Promise<Sent> {
    const accounts = new AccountChanges();
    const messages = new MessageChanges({ accounts, clock: this.#clock, process });
    const made: WriteGroup = { added: [], events: [], journal: [], messages, others: [] };
    const reads = group.flatMap(({ reads: ids = [] }) => ids);
    if (reads.length > 0) {
      void send(takeTurn, [0]);
      await messages.read(send, reads);
      const whole = group.flatMap(({ reads: ids = [], readsEntries }) => (readsEntries ? ids : []));
      await messages.readEntries(send, whole);
    }
    const results = group.map(({ run }) => run(made));
    const unreported = await this.#reports.note(send, messages.noted, this.#clock.now());
    if (reads.length === 0 || made.events.length > 0) void send(takeTurn, [made.events.length]);
    sendAdded(send, made.added, { clock: this.#clock, process });
    for (const { entry } of made.added) accounts.add(entry);
    messages.write(send);
    for (const other of made.others) other(send);
    sendEvents(send, made.events, this.#clock);
    if (this.#hasJournal) sendJournal(send, made.journal, made.events);
    if (made.events.length > 0) void send(tellEvents);
    return { results, unreported, tallies: accounts.write(send) };
  }

  /** Finds out what became of a transaction. @throws Unavailable where it was undone, or nobody can tell */
  async #endDoubt(transaction: { readonly id: number; readonly batch: number }, doubt: InDoubt): Promise<void> {
    const until = performance.now() + doubtMs;
    for (;;) {
      try {
        if (await this.#register.wasKept(transaction)) return;
        throw new NotKept(doubt);
      } catch (thrown) {
        if (thrown instanceof NotKept || performance.now() >= until || this.#session.isAbandoned)
          throw new NotKept(doubt);
        await sleep(askAgainMs);
      }
    }
  }
}

/** The server went away before a transaction was kept. */
class NotKept extends Unavailable {
  constructor(cause: Error) {
    super('The connection to the database was lost', { reason: 'store', retryAfterSeconds: 2 });
    this.cause = cause;
  }
}
