// Writes to the spool: gathers what comes while groups are being committed, and writes each group in one transaction. No transaction of
// a message locks anything that another gateway's needs, but for rows of the same message. New messages have ways of their own, so
// that they wait neither for outcomes, which are read before they are changed, nor long for one another.

import { setTimeout as sleep } from 'node:timers/promises';
import { isRace, storeError } from '../../base/database/postgres-errors.ts';
import { Unavailable } from '../../base/errors.ts';
import { Part } from '../../base/part.ts';
import { GroupQueue } from '../core/group-queue.ts';
import type { GroupMessage } from '../core/message-group.ts';
import { noteReports } from '../core/report-steps.ts';
import { type EncodedEvent, encodeEvent } from '../encoded-event.ts';
import type { WrittenJournal } from '../journal/writer/journal-of-event.ts';
import { sendContent } from '../journal/writer/postgres-journal.ts';
import type { NotedMail } from '../reports/report.ts';
import type { KeptSettings, SpoolOptions } from '../spool-limits.ts';
import { distinctRecipients } from '../stored-rows.ts';
import { type AccountTally, TallyChanges, tallyOfNew } from '../tally.ts';
import { type AddedMessage, sendAdded, sizeOf } from './added-messages.ts';
import { type EventFiler, sendTold, type Told } from './events/event-filer.ts';
import { tellDue } from './events/written-events.ts';
import { MessageChanges } from './message-changes.ts';
import { type BatchKey, type ProcessRegister, releaseWhere } from './process-register.ts';
import type { ServerParts } from './server/database-clock.ts';
import { InDoubt, lostConnection, type Send, stepsOver } from './server/postgres-session.ts';
import { sendAllLines } from './spool-lines.ts';

/** Groups of new messages that are written at once. */
const addingWays = 3;
/** How long callers wait to hear what became of a transaction whose end was not heard of, in milliseconds. */
const defaultDoubtMs = 10_000;
/** How often that is asked for, in milliseconds. */
const askAgainMs = 250;
/** How often a transaction is tried that the server breaks off because it and another's waited for each other. */
const mostTries = 3;

// What reports need of the octets of a message, and what keeps other gateways off meanwhile.
const reportTables = {
  head: `m.head_length,
    (SELECT substring(o.octets FOR 131072) FROM spool_octets o WHERE o.message = m.id AND o.part = 0) AS octets`,
  locks: {
    // Whoever is ending the report is waited for: what comes after that begins another.
    report: ' FOR UPDATE',
    // How many are begun is read and counted by one transaction at a time for each account.
    counts: "SELECT pg_advisory_xact_lock(hashtext('postern reports ' || current_schema()), hashtext(?1))",
  },
  keyOf: ({ id }: GroupMessage): string => id,
};

const releaseMessages = releaseWhere('message = ANY ($1::uuid[]) AND state = 0 AND claimed_by = $2::bigint');

/** What the operations of a group are handed: they say what is to be written, and nothing is until all have. */
interface WriteGroup {
  readonly added: AddedMessage[];
  readonly events: EncodedEvent[];
  readonly journal: WrittenJournal[];
  readonly messages: MessageChanges;
  /** Further statements, sent behind those for messages. */
  readonly others: ((send: Send) => void)[];
}

interface PostgresWrite<Result> {
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

interface WriterParts
  extends ServerParts,
    Pick<KeptSettings, 'reportLimits' | 'hasJournal'>,
    Required<Pick<SpoolOptions, 'onCommitted' | 'log'>> {
  readonly register: ProcessRegister;
  readonly filer: EventFiler;
  /** Told of what accounts have more after each commit. */
  readonly onTallies: (more: readonly AccountTally[]) => void;
  /** How long callers wait to hear what became of a transaction, in milliseconds; 10,000 if absent. */
  readonly doubtMs?: number | undefined;
}

interface Waiting extends PostgresWrite<unknown> {
  readonly octets: number;
  readonly isPatient: boolean;
  /** `value` gives the result; asked for once everything is on disk. */
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

interface Sent {
  readonly results: readonly unknown[];
  readonly added: readonly AddedMessage[];
  readonly unreported: number;
  readonly told: Told;
}

/** The messages of a transaction in doubt: their senders hear that they were not taken. */
interface Disowned {
  /** The sender will hand the message in again, so that this one must not leave. */
  readonly unwanted: readonly string[];
  /** Handed in again it is known by its Idempotency-Key, or it is a report that is made once: this one must leave. */
  readonly wanted: readonly string[];
}

interface InQuestion extends BatchKey, Disowned {
  readonly outcomes: readonly object[];
}

/** A way to write, a transaction at a time. `onKept` is told of outcomes that were kept though whoever recorded them heard otherwise. */
class WriteWay extends Part<WriterParts & { readonly way: number; readonly onKept: (outcome: object) => void }> {
  /** Outcomes that are not reported to their senders because there were too many. */
  unreported = 0;
  /** The transaction before, where nobody knows yet whether it was kept. */
  #doubt: InQuestion | undefined;
  /** The same once it turned out to be kept, until that is put right. */
  #disowned: InQuestion | undefined;
  #last: Promise<void> = Promise.resolve();

  /** Writes a group, behind the ones before, and settles each of its operations. It never rejects. */
  write(group: readonly Waiting[]): Promise<void> {
    this.#last = this.#last.then(() => this.#write(group));
    return this.#last;
  }

  /** Finds out what became of a transaction that is in doubt, if there is one. @throws Unavailable while the server is away */
  async settleDoubt(): Promise<void> {
    // Whatever is written next begins with that.
    if (!this.#doubt && !this.#disowned) return;
    await new Promise((resolve, reject) => {
      void this.write([{ octets: 0, isPatient: false, resolve, reject, run: () => undefined }]);
    });
  }

  async #write(group: readonly Waiting[], tries = 1): Promise<void> {
    try {
      await this.#endOldDoubt();
      const results = await this.#commit(group);
      for (const [index, { resolve }] of group.entries()) resolve(results[index]);
      this.parts.onCommitted(group.length);
    } catch (thrown) {
      if (thrown instanceof Unavailable && isRace(thrown.cause) && tries < mostTries) {
        await this.#write(group, tries + 1);
        return;
      }
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
    const key = await this.parts.register.nextBatch(this.parts.way);
    const { id } = key;
    let sent: Sent | undefined;
    try {
      await this.parts.session.transaction(async (send) => {
        this.parts.register.sendFence(send, key);
        sent = await this.#send(send, group, id);
      }, true);
      this.unreported += sent?.unreported ?? 0;
    } catch (thrown) {
      if (this.parts.register.isForgotten(thrown)) {
        await this.parts.register.renew(id);
        return await this.#commit(group);
      }
      if (!(thrown instanceof InDoubt)) throw thrown;
      const outcomes = group.flatMap(({ outcomes: handedIn = [] }) => handedIn);
      await this.#endDoubt({ ...key, ...disownedOf(sent?.added ?? []), outcomes }, thrown);
    }
    if (!sent) return [];
    const { tallies, events } = sent.told;
    this.parts.onTallies(tallies);
    if (events.length + tallies.length > 0) this.parts.filer.wrote();
    return sent.results;
  }

  /** Sends everything that a group writes, without waiting for answers but those that the group needs. */
  async #send(send: Send, group: readonly Waiting[], process: number): Promise<Sent> {
    const accounts = new TallyChanges();
    const messages = new MessageChanges({ accounts, clock: this.parts.clock, process });
    const made: WriteGroup = { added: [], events: [], journal: [], messages, others: [] };
    const reads = group.flatMap(({ reads: ids = [] }) => ids);
    if (reads.length > 0) {
      await messages.read(send, reads);
      const whole = group.flatMap(({ reads: ids = [], readsEntries }) => (readsEntries ? ids : []));
      await messages.readEntries(send, whole);
    }
    const results = group.map(({ run }) => run(made));
    const unreported = await this.#note(send, messages.noted);
    sendAdded(send, made.added, { clock: this.parts.clock, process });
    for (const { entry } of made.added)
      accounts.add(entry.account, tallyOfNew(sizeOf(entry), distinctRecipients(entry).length));
    messages.write(send);
    for (const other of made.others) other(send);
    const { clock, hasJournal } = this.parts;
    const told: Told = {
      events: made.events.map((event) => ({ ...event, at: clock.stored(event.at) })),
      rows: hasJournal ? made.journal.map(({ row }) => row) : [],
      tallies: [...accounts].map(([account, tally]) => ({ account, ...tally })),
    };
    if (hasJournal) sendContent(send, made.journal);
    sendTold(send, told);
    return { results, unreported, added: made.added, told };
  }

  /** Notes what is to be reported, before its messages are forgotten. @returns how much is not because of the limits */
  #note(send: Send, mails: readonly NotedMail<GroupMessage>[]): Promise<number> {
    const { clock, reportLimits: limits } = this.parts;
    const tables = { ...reportTables, times: clock, limits };
    // In one order, so that no two transactions wait for each other's accounts.
    const sorted = mails.toSorted((one, other) => (one.message.account < other.message.account ? -1 : 1));
    return stepsOver(send, noteReports(tables, sorted, clock.now()));
  }

  /** Finds out what became of a transaction. @throws Unavailable where it was undone, or nobody knows yet: the next write asks */
  async #endDoubt(doubt: InQuestion, cause: InDoubt): Promise<void> {
    const until = performance.now() + (this.parts.doubtMs ?? defaultDoubtMs);
    this.#doubt = doubt;
    for (;;) {
      try {
        if (await this.#judge(doubt)) return;
        break;
      } catch {
        if (performance.now() >= until || this.parts.session.isAbandoned) break;
        await sleep(askAgainMs);
      }
    }
    throw notKept(cause);
  }

  /** Asks what became of a transaction. Where nobody can ever tell, its messages are disowned. @throws Unavailable */
  async #judge(doubt: InQuestion): Promise<boolean> {
    const wasKept = await this.parts.register.wasKept(doubt);
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
      for (const outcome of doubt.outcomes) this.parts.onKept(outcome);
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
          sendAllLines(send);
          void send(releaseMessages, [wanted, id]);
          void send(tellDue);
        });
        const dropped = unwanted.flatMap((message) => messages.drop(message, this.parts.clock.now()) ?? []);
        for (const event of dropped) events.push(encodeEvent(event));
        removed = dropped.length;
      },
    };
    await this.#commit([putRight]);
    this.#disowned = undefined;
    if (removed > 0)
      this.parts.log.warn({ messages: removed }, 'removed what was kept although its senders heard that it was not');
  }
}

/** The messages of a group by what is to become of them where their senders hear that they were not taken. */
function disownedOf(added: readonly AddedMessage[]): Disowned {
  const disowned = { unwanted: [] as string[], wanted: [] as string[] };
  for (const { entry } of added) disowned[(entry.idempotency ?? entry.answers) ? 'wanted' : 'unwanted'].push(entry.id);
  return disowned;
}

/** The server went away before a transaction was kept. One whose log has no room says so before it ends itself. */
function notKept(cause: InDoubt): Unavailable {
  const said = storeError(cause.cause);
  if (!(said instanceof Unavailable) || said.reason !== 'room') return lostConnection(cause);
  return new Unavailable(said.message, { reason: 'room', retryAfterSeconds: said.retryAfterSeconds, cause });
}

/** The writes of one process. */
export class SpoolWriter {
  readonly #ways: readonly WriteWay[];
  /** New messages that wait. */
  readonly adding: GroupQueue<Waiting>;
  /** One way alone: outcomes that failed are handed in again behind the transaction that they failed in. */
  readonly #changing: GroupQueue<Waiting>;
  /** Outcomes that were kept although whoever recorded them heard otherwise. */
  readonly #kept = new WeakSet();

  constructor(parts: WriterParts) {
    const onKept = (outcome: object): void => void this.#kept.add(outcome);
    this.#ways = Array.from({ length: addingWays + 1 }, (_, way) => new WriteWay({ ...parts, way, onKept }));
    const [changing, ...adding] = this.#ways.map((way) => (group: readonly Waiting[]) => way.write(group));
    this.adding = new GroupQueue(adding);
    this.#changing = new GroupQueue(changing ? [changing] : []);
  }

  /** Outcomes that are not reported to their senders because there were too many. */
  get unreported(): number {
    return this.#ways.reduce((sum, { unreported }) => sum + unreported, 0);
  }

  /** Runs an operation; resolves once what it writes is on disk. @throws Unavailable while the server is away */
  async write<Result>(operation: PostgresWrite<Result>): Promise<Result> {
    const result = await new Promise((resolve, reject) => {
      const { octets = 0, isPatient = false, reads } = operation;
      const queue = reads ? this.#changing : this.adding;
      queue.put({ ...operation, octets, isPatient, resolve, reject });
    });
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- `WriteWay` settles each operation with its own result
    return result as Result;
  }

  /** Whether an outcome (the object) was kept by an operation that failed. To be asked in `run`: then no transaction is in doubt. */
  isKept(outcome: object): boolean {
    return this.#kept.has(outcome);
  }

  /** Finds out what became of transactions that are in doubt, if there are any. @throws Unavailable while the server is away */
  async settleDoubt(): Promise<void> {
    for (const way of this.#ways) await way.settleDoubt();
  }

  /** Resolves once everything is written. */
  async quiet(): Promise<void> {
    await Promise.all([this.adding.quiet(), this.#changing.quiet()]);
  }
}
