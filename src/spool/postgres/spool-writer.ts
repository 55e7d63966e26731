// Writes to the spool: gathers what comes while the last group is being committed, and writes each group in one transaction.
// Every such transaction takes the one turn to write first (`takeTurn`) and locks everything else after it, so that no two
// of them, of whatever processes, can wait for each other.

import { setTimeout as sleep } from 'node:timers/promises';
import { storeError } from '../../base/database/postgres-errors.ts';
import { Unavailable } from '../../base/errors.ts';
import { type PostgresJournalRow, sendJournal } from '../journal/postgres-journal.ts';
import { type KeyedEvent, packKeyed } from '../packed-event.ts';
import type { AccountTally } from '../tally.ts';
import { AccountChanges } from './account-changes.ts';
import { type AddedMessage, sendAdded, sizeOf } from './added-messages.ts';
import { sendEvents, takeTurn, tellDue, tellEvents } from './events/written-events.ts';
import { MessageChanges } from './message-changes.ts';
import type { PostgresReports } from './postgres-reports.ts';
import { type BatchKey, type ProcessRegister, releaseWhere } from './process-register.ts';
import type { DatabaseClock } from './server/database-clock.ts';
import { GroupQueue } from './server/group-queue.ts';
import { InDoubt, type PostgresSession, type Send } from './server/postgres-session.ts';

/** How long callers wait to hear what became of a transaction whose end was not heard of, in milliseconds. */
const defaultDoubtMs = 10_000;
/** How often that is asked for, in milliseconds. */
const askAgainMs = 250;

const releaseMessages = releaseWhere('message = ANY ($1::uuid[]) AND state = 0 AND claimed_by = $2::bigint');

/** What the operations of a group are handed: they say what is to be written, and nothing is until all have. */
export interface WriteGroup {
  readonly added: AddedMessage[];
  readonly events: KeyedEvent[];
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
  /** What it writes down and is handed in again where it fails: `isKept` tells whether it was kept all the same. */
  readonly outcomes?: readonly object[];
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
  readonly disowned: Disowned;
  readonly unreported: number;
  /** Answered with the transaction. */
  readonly tallies: Promise<readonly AccountTally[]>;
}

/** The messages of a transaction in doubt: their senders hear that they were not taken. */
interface Disowned {
  /** The sender will hand the message in again, so that this one must not leave. */
  readonly unwanted: readonly string[];
  /** Handed in again it is known by its Idempotency-Key, or it is a report that is made once: this one must leave. */
  readonly wanted: readonly string[];
}

/** A transaction in doubt. */
interface InQuestion extends BatchKey, Disowned {
  readonly outcomes: readonly object[];
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
  readonly #doubtMs: number;
  readonly #onDisowned: (messages: number) => void;
  /** The transaction before, where nobody knows yet whether it was kept. */
  #doubt: InQuestion | undefined;
  /** The same once it turned out to be kept, until that is put right. */
  #disowned: InQuestion | undefined;
  /** Outcomes that were kept although whoever recorded them heard otherwise. */
  readonly #kept = new WeakSet();
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
    /** Told how many messages turned out to be kept although their senders heard otherwise, once they are removed. */
    readonly onDisowned: (messages: number) => void;
    /** How long callers wait to hear what became of a transaction, in milliseconds; 10,000 if absent. */
    readonly doubtMs?: number | undefined;
  }) {
    this.#session = parts.session;
    this.#register = parts.register;
    this.#clock = parts.clock;
    this.#reports = parts.reports;
    this.#hasJournal = parts.hasJournal;
    this.#onTallies = parts.onTallies;
    this.#onCommitted = parts.onCommitted;
    this.#onDisowned = parts.onDisowned;
    this.#doubtMs = parts.doubtMs ?? defaultDoubtMs;
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
  async add(message: AddedMessage, event: KeyedEvent, journal?: PostgresJournalRow): Promise<void> {
    await this.write({
      octets: sizeOf(message.entry),
      run: (group) => {
        group.added.push(message);
        group.events.push(event);
        if (journal) group.journal.push(journal);
      },
    });
  }

  /** Whether an outcome (the object) was kept by an operation that failed. To be asked in `run`: then no transaction is in doubt. */
  isKept(outcome: object): boolean {
    return this.#kept.has(outcome);
  }

  /** Finds out what became of a transaction that is in doubt, if there is one. @throws Unavailable while the server is away */
  async settleDoubt(): Promise<void> {
    // Whatever is written next begins with that.
    if (this.#doubt || this.#disowned) await this.write({ run: () => undefined });
  }

  /** Resolves once everything is written. */
  quiet(): Promise<void> {
    return this.#queue.quiet();
  }

  async #write(group: readonly Waiting[]): Promise<void> {
    try {
      await this.#endOldDoubt();
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
      const { unwanted, wanted } = sent?.disowned ?? { unwanted: [], wanted: [] };
      const outcomes = group.flatMap(({ outcomes: handedIn = [] }) => handedIn);
      await this.#endDoubt({ id, batch, unwanted, wanted, outcomes }, thrown);
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
    return { results, unreported, disowned: disownedOf(made.added), tallies: accounts.write(send) };
  }

  /**
   * Finds out what became of a transaction.
   * @throws Unavailable where it was undone, or nobody can tell for now: then that is found out before anything else is written
   */
  async #endDoubt(doubt: InQuestion, cause: InDoubt): Promise<void> {
    const until = performance.now() + this.#doubtMs;
    this.#doubt = doubt;
    for (;;) {
      try {
        if (await this.#judge(doubt)) return;
        throw new NotKept(cause);
      } catch (thrown) {
        if (thrown instanceof NotKept || performance.now() >= until || this.#session.isAbandoned)
          throw new NotKept(cause);
        await sleep(askAgainMs);
      }
    }
  }

  /** Asks what became of a transaction. Where nobody can ever tell, its messages are disowned. @throws Unavailable */
  async #judge(doubt: InQuestion): Promise<boolean> {
    const wasKept = await this.#register.wasKept(doubt);
    this.#doubt = undefined;
    if (wasKept === undefined) this.#disown(doubt);
    return wasKept === true;
  }

  #disown(doubt: InQuestion): void {
    if (doubt.unwanted.length + doubt.wanted.length > 0) this.#disowned = doubt;
  }

  /** Finds out what became of a transaction whose callers wait no longer, and puts right what they heard. @throws Unavailable */
  async #endOldDoubt(): Promise<void> {
    const doubt = this.#doubt;
    if (doubt && (await this.#judge(doubt))) {
      for (const outcome of doubt.outcomes) this.#kept.add(outcome);
      this.#disown(doubt);
    }
    if (!this.#disowned) return;
    const { id, unwanted, wanted } = this.#disowned;
    let removed = 0;
    const putRight: Waiting = {
      ...{ octets: 0, isPatient: false, resolve: () => undefined, reject: () => undefined },
      reads: unwanted,
      readsEntries: true,
      run: ({ messages, events, others }) => {
        others.push((send) => {
          void send(releaseMessages, [wanted, id]);
          void send(tellDue);
        });
        const dropped = unwanted.flatMap((message) => messages.remove(message, this.#clock.now()) ?? []);
        for (const event of dropped) events.push(packKeyed(event));
        removed = dropped.length;
      },
    };
    await this.#commit([putRight]);
    this.#disowned = undefined;
    if (removed > 0) this.#onDisowned(removed);
  }
}

/** Whether a message that is handed in again is known: by its Idempotency-Key, or because its report is made once. */
function isKnownAgain({ entry: { idempotency, answers } }: AddedMessage): boolean {
  return Boolean(idempotency ?? answers);
}

/** The messages of a group by what is to become of them where their senders hear that they were not taken. */
function disownedOf(added: readonly AddedMessage[]): Disowned {
  return {
    unwanted: added.filter((one) => !isKnownAgain(one)).map(({ entry }) => entry.id),
    wanted: added.filter(isKnownAgain).map(({ entry }) => entry.id),
  };
}

/** The server went away before a transaction was kept. One whose log has no room says so before it ends itself. */
class NotKept extends Unavailable {
  constructor(cause: InDoubt) {
    const said = storeError(cause.cause);
    const isFull = said instanceof Unavailable && said.reason === 'room';
    const [reason, retryAfterSeconds] = isFull ? (['room', said.retryAfterSeconds] as const) : (['store', 2] as const);
    super(isFull ? said.message : 'The connection to the database was lost', { reason, retryAfterSeconds });
    this.cause = cause;
  }
}
