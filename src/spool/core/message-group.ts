// The rules by which messages change: outcomes, retries, removals. A group takes messages as an engine has read them, and gives what has
// changed as values, which the engine writes in the same transaction (D90). It asks nobody; times are wall times since 1970.

import type { DroppedEvent, OutcomeEvent, RequeuedEvent } from '../events/mail-event.ts';
import type { NotedMail, NotedOutcome } from '../reports/report.ts';
import type { RetryCount, RetryPick, Spool, SpooledRecipient } from '../spool.ts';
import { droppedEvent, requeuedEvent } from '../spool-events.ts';
import type { EntryMeta } from '../stored-rows.ts';
import { addTally, countStates, emptyTally, type RecipientState, tallyOf } from '../tally.ts';

/** A recipient as it was read. */
export interface GroupRecipient extends Pick<SpooledRecipient, 'address' | 'state' | 'attempts'> {
  readonly position: number;
  /** Somebody holds it: `other` where that is another process than this one. */
  readonly claim: 'none' | 'own' | 'other';
  /** Which reports its sender wants: the sum of `reportBits`. */
  readonly wanted: number;
}

/** A message as it was read, with all of its recipients. Engines add what they find its rows by. */
export interface GroupMessage {
  readonly id: string;
  readonly account: string;
  /** Octets of head and body. */
  readonly size: number;
  readonly acceptedAt: number;
  /** How many reports about it were begun. */
  readonly begun: number;
  readonly recipients: readonly GroupRecipient[];
}

/** What an outcome changes. */
export type GivenOutcome = Pick<OutcomeEvent, 'queueId' | 'recipient' | 'kind' | 'reply' | 'host'> & {
  readonly nextAttemptAt?: number | undefined;
  /** The next hop was not reached, so that the attempt does not count. */
  readonly isUntried?: boolean | undefined;
  readonly handover?: NotedOutcome['handover'];
};

/** What a recipient becomes. */
export interface ChangedRecipient {
  readonly state: RecipientState;
  readonly attempts: number;
  readonly nextAttemptAt: number;
  /** null while it is queued. */
  readonly endedAt: number | null;
  /** Nobody holds it any more. */
  readonly isReleased: boolean;
  /** undefined leaves the last reply that is there. */
  readonly reply: Pick<OutcomeEvent, 'reply' | 'host'> | undefined;
}

type RetryTimes = Parameters<Spool['retryMany']>[1];

interface Work<Message extends GroupMessage> {
  readonly message: Message;
  readonly states: RecipientState[];
  readonly changed: (ChangedRecipient | undefined)[];
  readonly noted: NotedOutcome[];
  readonly positions: ReadonlyMap<string, number>;
  expiresAt: number | undefined;
  isGone: boolean;
}

/** The messages that one transaction has read and changes. */
export class MessageGroup<Message extends GroupMessage> {
  readonly #byId = new Map<string, Work<Message>>();
  readonly #entryOf: (id: string) => EntryMeta | undefined;

  /** @param entryOf gives messages whole that are made due or removed; absent: none is */
  constructor(entryOf: (id: string) => EntryMeta | undefined = () => undefined) {
    this.#entryOf = entryOf;
  }

  /** Whether a message was taken. */
  has(id: string): boolean {
    return this.#byId.has(id);
  }

  /** Takes a message as it was read in this transaction; one that is known already stays as it is. */
  take(message: Message): void {
    if (this.#byId.has(message.id)) return;
    const { recipients } = message;
    this.#byId.set(message.id, {
      ...{ message, noted: [], expiresAt: undefined, isGone: false },
      states: recipients.map(({ state }) => state),
      changed: recipients.map(() => undefined),
      positions: new Map(recipients.map(({ address }, at) => [address, at])),
    });
  }

  /** Writes down the outcomes of attempts; see `Spool.record`. */
  record(outcomes: readonly GivenOutcome[], now: number): void {
    const touched = new Set<Work<Message>>();
    for (const outcome of outcomes) {
      const work = this.#find(outcome.queueId);
      const at = work?.positions.get(outcome.recipient);
      // A command beside the server has dropped the message meanwhile (D94).
      if (!work || at === undefined || work.states[at] === 'delivered') continue;
      if (this.#recordOne(work, at, outcome, now)) touched.add(work);
    }
    for (const work of touched) work.isGone = work.states.every((state) => state === 'delivered');
  }

  #recordOne(work: Work<Message>, at: number, outcome: GivenOutcome, now: number): boolean {
    const recipient = work.message.recipients[at];
    const isDeferred = outcome.kind === 'deferred';
    // Another process has taken the recipient over: it alone says when the next attempt is.
    if (!recipient || (isDeferred && recipient.claim === 'other')) return false;
    const state = isDeferred ? 'queued' : outcome.kind;
    work.states[at] = state;
    work.changed[at] = {
      state,
      attempts: (work.changed[at]?.attempts ?? recipient.attempts) + (isDeferred && outcome.isUntried ? 0 : 1),
      nextAttemptAt: isDeferred ? (outcome.nextAttemptAt ?? now) : now,
      endedAt: isDeferred ? null : now,
      isReleased: true,
      reply: outcome,
    };
    const { position, address, wanted } = recipient;
    const { kind, handover, reply, host } = outcome;
    if (wanted > 0) work.noted.push({ kind, handover, reply, host, position, address, wanted });
    return true;
  }

  /** Makes recipients due; see `Spool.retryMany`. @returns how many, and an event for each message that has some */
  retryMany(
    picks: readonly RetryPick[],
    times: RetryTimes,
  ): RetryCount & { readonly events: readonly RequeuedEvent[] } {
    const made = picks.flatMap((pick) => this.#retry(pick, times) ?? []);
    return {
      messages: made.length,
      recipients: made.reduce((sum, { due }) => sum + due.length, 0),
      failed: made.reduce((sum, { failed }) => sum + failed, 0),
      events: made.map(({ entry, due, failed }) => requeuedEvent(entry, due, { failed, at: times.now })),
    };
  }

  /** @returns the addresses that are due now, and how many of them had failed; undefined where there are none */
  #retry({ id, recipients, state }: RetryPick, times: RetryTimes) {
    const work = this.#find(id);
    const entry = work && this.#entryOf(id);
    if (!entry) return undefined;
    const wanted = recipients && new Set(recipients);
    const due: string[] = [];
    let failed = 0;
    for (const [at, recipient] of work.message.recipients.entries()) {
      const before = work.states[at];
      if (before === undefined || before === 'delivered' || (state ?? before) !== before) continue;
      if (wanted?.has(recipient.address) === false) continue;
      due.push(recipient.address);
      if (before === 'failed') failed += 1;
      const known = work.changed[at];
      work.states[at] = 'queued';
      work.changed[at] = {
        state: 'queued',
        attempts: known?.attempts ?? recipient.attempts,
        nextAttemptAt: times.now,
        endedAt: null,
        // A claim is left alone: its holder may be speaking to the next hop right now.
        isReleased: before === 'failed' || recipient.claim === 'none' || known?.isReleased === true,
        reply: known?.reply,
      };
    }
    if (due.length === 0) return undefined;
    work.expiresAt = times.expiresAt;
    return { entry, due, failed };
  }

  /** Removes a message. @returns the event; undefined where there is no such message */
  drop(id: string, now: number): DroppedEvent | undefined {
    const work = this.#find(id);
    const entry = work && this.#entryOf(id);
    if (!entry) return undefined;
    work.isGone = true;
    const recipients = work.message.recipients.map(({ address, state }, at) => ({
      address,
      state: work.states[at] ?? state,
    }));
    return droppedEvent(entry, recipients, now);
  }

  /** Removes a message unless a recipient of it is queued. @returns its octets; undefined where it stays */
  forgetEnded(id: string): number | undefined {
    const work = this.#find(id);
    if (!work || work.states.includes('queued')) return undefined;
    work.isGone = true;
    return work.message.size;
  }

  /** The outcomes that may have to be reported to senders, by message. */
  get noted(): readonly NotedMail<Message>[] {
    return [...this.#byId.values()].flatMap(({ message, noted, states }) =>
      noted.length === 0 ? [] : [{ message, isLast: !states.includes('queued'), outcomes: noted }],
    );
  }

  /** What has changed. A message that is gone is in `gone` alone. */
  changes() {
    const all = [...this.#byId.values()];
    const [gone, kept] = [all.filter(({ isGone }) => isGone), all.filter(({ isGone }) => !isGone)];
    const changed = kept.filter((work) => work.changed.some((one) => one));
    const counted = changed.map(({ message, changed: own, states }) => {
      const before = countStates(message.recipients.map(({ state }) => state));
      const endedAt = own.reduce((last, one) => Math.max(last, one?.endedAt ?? 0), 0);
      return { message, endedAt, before, after: countStates(states) };
    });
    return {
      gone: gone.map(({ message }) => message),
      recipients: changed.flatMap(({ message, changed: own }) => {
        const all: readonly Message['recipients'][number][] = message.recipients;
        return all.flatMap((recipient, at) => {
          const one = own[at];
          return one ? [{ message, recipient, changed: one }] : [];
        });
      }),
      /** Messages that have no queued recipient any more and are kept as failed. */
      failed: counted.filter(({ after }) => after.queued === 0),
      /** Messages that were kept as failed and have a queued recipient again. */
      queuedAgain: counted.flatMap(({ message, before, after }) =>
        after.queued > 0 && before.queued === 0 ? [message] : [],
      ),
      extended: kept.flatMap(({ message, expiresAt }) => (expiresAt === undefined ? [] : [{ message, expiresAt }])),
      /** What accounts have more by the changes. */
      tallies: [
        ...gone.map(({ message }) => ({
          account: message.account,
          ...addTally(emptyTally, tallyOf(message.size, countStates(message.recipients.map(({ state }) => state))), -1),
        })),
        ...counted.map(({ message: { account, size }, before, after }) => ({
          account,
          ...addTally(tallyOf(size, after), tallyOf(size, before), -1),
        })),
      ],
    };
  }

  #find(id: string): Work<Message> | undefined {
    const work = this.#byId.get(id);
    return work?.isGone === true ? undefined : work;
  }
}
