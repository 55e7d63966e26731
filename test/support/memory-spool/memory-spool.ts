// The spool in memory, for tests and trials: it behaves like the durable stores, but ends with the process.

import { type Clock, type ClockReading, clockStep, readClock, systemClock } from '../../../src/base/clock.ts';
import { silentLog } from '../../../src/base/log.ts';
import type { EventLimits } from '../../../src/spool/events/event-store.ts';
import type { OutcomeEvent } from '../../../src/spool/events/mail-event.ts';
import type { Hold, HoldRule } from '../../../src/spool/hold.ts';
import { idempotencyMilliseconds, KeyUsed, type UsedKey } from '../../../src/spool/idempotency-keys.ts';
import type { DueReport, ReportKey, ReportLimits } from '../../../src/spool/reports/report.ts';
import { EventFeed } from '../../../src/spool/search/event-feed.ts';
import type {
  ClaimQuery,
  ClaimTurn,
  DueMessage,
  ListQuery,
  QueueItem,
  QueuePage,
  RetryCount,
  RetryPick,
  Spool,
  SpoolEntry,
  WaitingLine,
} from '../../../src/spool/spool.ts';
import { acceptedEvent, droppedEvent, requeuedEvent } from '../../../src/spool/spool-events.ts';
import { failedRetentionMilliseconds } from '../../../src/spool/spool-limits.ts';
import { distinctRecipients } from '../../../src/spool/stored-rows.ts';
import { type AccountTally, totalOf } from '../../../src/spool/tally.ts';
import { matchesSearch } from './matches-search.ts';
import { claimed } from './memory-claims.ts';
import { MemoryEvents } from './memory-events.ts';
import { MemoryLines } from './memory-lines.ts';
import {
  type Held,
  type HeldRecipient,
  isDue,
  isQueued,
  itemOf,
  movedBy,
  recorded,
  requeued,
  retryCount,
  tallyOfHeld,
} from './memory-messages.ts';
import { MemoryReports } from './memory-reports.ts';
import { MemoryThreads } from './memory-threads.ts';

/** A spool that keeps everything in memory. @public for tests of what stands on a spool. */
export class MemorySpool implements Spool {
  readonly #messages = new Map<string, Held>();
  /** The use of each key, and when it was used. */
  readonly #keys = new Map<string, UsedKey & { readonly createdAt: number }>();
  #singles = 0; // claims of a single message
  readonly #clock: Clock;
  readonly #events: MemoryEvents;
  readonly #feed: EventFeed;
  readonly #threads = new MemoryThreads();
  readonly #reports: MemoryReports;
  readonly unavailable = undefined;
  #seen: ClockReading;
  #closed = false;
  readonly #lines = new MemoryLines(this.#messages);

  constructor(clock: Clock = systemClock, eventLimits?: EventLimits, reportLimits?: ReportLimits) {
    this.#reports = new MemoryReports(reportLimits);
    this.#clock = clock;
    this.#events = new MemoryEvents(eventLimits);
    this.#feed = new EventFeed({ table: this.#events, clock, log: silentLog });
    this.#seen = readClock(clock);
  }

  get events(): EventFeed {
    return this.#feed;
  }

  /** Messages that a commit would wait for. */
  expected = 0;

  expect(change: 1 | -1): void {
    this.expected += change;
  }

  async add(entry: SpoolEntry, claimUntil: number): Promise<void> {
    this.#checkOpen();
    if (this.#messages.has(entry.id)) throw new Error(`Message ${entry.id} is in the spool already`);
    if (entry.idempotency) {
      const key = `${entry.account} ${entry.idempotency.key}`;
      const used = this.#keys.get(key);
      if (used && used.createdAt > entry.acceptedAt - idempotencyMilliseconds) {
        throw new KeyUsed(entry.account);
      }
      const { messageId, recipients, acceptedAt: createdAt } = entry;
      this.#keys.set(key, { digest: entry.idempotency.digest, messageId, recipients, createdAt });
    }
    const recipients = distinctRecipients(entry).map(({ address, transport }) => ({
      address,
      transport,
      state: 'queued' as const,
      attempts: 0,
      nextAttemptAt: entry.acceptedAt,
      claimedUntil: claimUntil,
    }));
    if (entry.answers && !this.#reports.end(entry.answers)) throw new Error('What this report tells has changed');
    // The octets are copied, as every store does: the caller may change its buffers afterwards.
    const kept = { ...entry, head: Buffer.from(entry.head), body: Buffer.from(entry.body) };
    this.#messages.set(entry.id, { entry: kept, recipients });
    this.#threads.add(entry);
    const event = acceptedEvent(entry);
    this.#events.add(event);
    this.#feed.committed([event]);
  }

  async turns(query: Parameters<Spool['turns']>[0]): Promise<readonly ClaimTurn[]> {
    this.#checkOpen();
    return this.#lines.turns(query);
  }

  async postpone(turn: ClaimTurn, until: number): Promise<void> {
    this.#checkOpen();
    this.#lines.endTurn(turn, until);
  }

  async claimDue(query: ClaimQuery): Promise<readonly DueMessage[]> {
    this.#checkOpen();
    this.#prune(query.now);
    this.#lines.endTurn(query, query.now);
    if (query.limit === 1) this.#singles += 1;
    return claimed(this.#messages.values(), query, { holds: this.#lines.holds, singles: this.#singles });
  }

  async giveTransports(query: Parameters<Spool['giveTransports']>[0]): Promise<number> {
    this.#checkOpen();
    const { now, limit, transports, transportOf } = query;
    let given = 0;
    for (const held of this.#messages.values()) {
      this.#update(held, (recipient) => {
        if (given === limit || transports.includes(recipient.transport) || !isDue(recipient, now)) return recipient;
        given += 1;
        return { ...recipient, transport: transportOf({ account: held.entry.account, address: recipient.address }) };
      });
    }
    return given;
  }

  async load(id: string): Promise<{ readonly head: Buffer; readonly body: Buffer } | undefined> {
    this.#checkOpen();
    const held = this.#messages.get(id);
    return held && { head: Buffer.from(held.entry.head), body: Buffer.from(held.entry.body) };
  }

  async record(outcomes: readonly OutcomeEvent[]): Promise<void> {
    this.#checkOpen();
    const now = this.#clock.now();
    for (const outcome of outcomes) {
      this.#events.add(outcome);
      const held = this.#messages.get(outcome.queueId);
      if (!held) continue;
      const wasDelivered = held.recipients.some(
        ({ address, state }) => address === outcome.recipient && state === 'delivered',
      );
      this.#update(held, (recipient) =>
        recipient.address === outcome.recipient && recipient.state !== 'delivered'
          ? recorded(recipient, outcome, now)
          : recipient,
      );
      if (!wasDelivered) this.#reports.note(held.entry, outcome, { now, isLast: !isQueued(held) });
      if (held.recipients.every((recipient) => recipient.state === 'delivered')) this.#messages.delete(outcome.queueId);
    }
    this.#feed.committed(outcomes);
  }

  async release(id: string, recipients: readonly string[]): Promise<void> {
    this.#checkOpen();
    const held = this.#messages.get(id);
    const isNamed = ({ address }: HeldRecipient): boolean => recipients.includes(address);
    if (held) this.#update(held, (one) => (isNamed(one) ? { ...one, claimedUntil: 0 } : one));
  }

  async recover(): Promise<number> {
    this.#checkOpen();
    this.#prune(this.#clock.now());
    for (const held of this.#messages.values()) this.#update(held, (recipient) => ({ ...recipient, claimedUntil: 0 }));
    return totalOf(await this.tallies()).messages.queued;
  }

  async list(query: ListQuery): Promise<QueuePage> {
    this.#checkOpen();
    const found = [...this.#messages.values()]
      .filter((held) => held.entry.id > (query.after ?? ''))
      .filter(({ recipients }) => query.state === undefined || recipients.some(({ state }) => state === query.state))
      .filter(({ entry }) => query.account === undefined || entry.account === query.account)
      .filter((held) => query.search === undefined || matchesSearch(held.entry, query.search))
      .toSorted((left, right) => (left.entry.id < right.entry.id ? -1 : 1));
    const items = found.slice(0, query.limit).map((held) => itemOf(held, this.#lines.holds));
    const last = items.at(-1)?.entry.id;
    return found.length > items.length && last !== undefined ? { items, next: last } : { items };
  }

  async show(id: string): Promise<QueueItem | undefined> {
    this.#checkOpen();
    const held = this.#messages.get(id);
    return held && itemOf(held, this.#lines.holds);
  }

  async retryMany(
    picks: readonly RetryPick[],
    times: { readonly now: number; readonly expiresAt: number },
  ): Promise<RetryCount> {
    const made = picks.map((pick) => this.#retry(pick, times) ?? { recipients: 0, failed: 0 });
    return retryCount(made);
  }

  #retry(
    { id, recipients, state }: RetryPick,
    times: { readonly now: number; readonly expiresAt: number },
  ): Omit<RetryCount, 'messages'> | undefined {
    this.#checkOpen();
    const held = this.#messages.get(id);
    if (!held) return undefined;
    const due: string[] = [];
    let failed = 0;
    this.#update(held, (recipient) => {
      if (recipient.state === 'delivered' || (state ?? recipient.state) !== recipient.state) return recipient;
      if (recipients?.includes(recipient.address) === false) return recipient;
      due.push(recipient.address);
      if (recipient.state === 'failed') failed += 1;
      return requeued(recipient, times.now);
    });
    if (due.length > 0) {
      this.#messages.set(id, { ...held, entry: { ...held.entry, expiresAt: times.expiresAt } });
      this.#events.add(requeuedEvent(held.entry, due, { failed, at: times.now }));
      this.#feed.committed([]);
    }
    return { recipients: due.length, failed };
  }

  async drop(id: string): Promise<boolean> {
    this.#checkOpen();
    const held = this.#messages.get(id);
    if (!held) return false;
    this.#events.add(droppedEvent(held.entry, held.recipients, this.#clock.now()));
    this.#feed.committed([]);
    return this.#messages.delete(id);
  }

  async tallies(): Promise<readonly AccountTally[]> {
    this.#checkOpen();
    const byAccount = Map.groupBy(this.#messages.values(), ({ entry }) => entry.account);
    return [...byAccount]
      .map(([account, messages]) => ({ account, ...totalOf(messages.map(tallyOfHeld)) }))
      .toSorted((left, right) => (left.account < right.account ? -1 : 1));
  }

  async addHold(rule: HoldRule): Promise<void> {
    this.#checkOpen();
    this.#lines.addHold(rule);
  }

  async liftHold(rule: Pick<HoldRule, 'kind' | 'value'>): Promise<boolean> {
    this.#checkOpen();
    return this.#lines.liftHold(rule);
  }

  async holds(): Promise<readonly Hold[]> {
    this.#checkOpen();
    return this.#lines.holds.all;
  }

  async oldest(): Promise<number | undefined> {
    this.#checkOpen();
    return [...this.#messages.values()].find(isQueued)?.entry.acceptedAt;
  }

  async waiting(limit: number): Promise<readonly WaitingLine[]> {
    this.#checkOpen();
    return this.#lines.waiting(limit);
  }

  async usedKey(account: string, key: string): Promise<UsedKey | undefined> {
    this.#checkOpen();
    const used = this.#keys.get(`${account} ${key}`);
    if (!used || used.createdAt <= this.#clock.now() - idempotencyMilliseconds) return undefined;
    const { createdAt: _, ...told } = used;
    return told;
  }

  async answered(account: string, key: string, answer: string): Promise<void> {
    this.#checkOpen();
    const used = this.#keys.get(`${account} ${key}`);
    if (used) this.#keys.set(`${account} ${key}`, { ...used, answer });
  }

  async replacedIds(account: string, ids: readonly string[]): Promise<ReadonlyMap<string, string>> {
    this.#checkOpen();
    return this.#threads.find(account, ids, this.#clock.now());
  }

  async reportsDue(query: { readonly now: number; readonly limit: number }): Promise<readonly DueReport[]> {
    this.#checkOpen();
    return this.#reports.due(query);
  }

  async endReport(report: ReportKey, until?: number): Promise<boolean> {
    this.#checkOpen();
    return until === undefined ? this.#reports.end(report) : this.#reports.postpone(report, until);
  }

  get unreported(): number {
    return this.#reports.unreported;
  }

  async close(): Promise<void> {
    await this.#feed.close();
    this.#closed = true;
  }

  #checkOpen(): void {
    if (this.#closed) throw new Error('The spool is closed');
    const now = readClock(this.#clock);
    const step = clockStep(this.#seen, now);
    this.#seen = now;
    if (step !== 0) this.#moveTimes(step);
  }

  /** The wall clock was set by `step`: moves all times by as much, so that every waiting time keeps its length. */
  #moveTimes(step: number): void {
    this.#reports.move(step);
    for (const [id, held] of this.#messages) {
      this.#update(held, (recipient) => movedBy(recipient, step));
      this.#messages.set(id, { ...held, entry: { ...held.entry, expiresAt: held.entry.expiresAt + step } });
    }
  }

  #update(held: Held, change: (recipient: HeldRecipient) => HeldRecipient): void {
    for (const [index, recipient] of held.recipients.entries()) held.recipients[index] = change(recipient);
  }

  #prune(now: number): void {
    for (const [id, held] of this.#messages) {
      const kept = now - failedRetentionMilliseconds;
      if (held.recipients.every(({ endedAt }) => endedAt !== undefined && endedAt < kept)) this.#messages.delete(id);
    }
    this.#events.prune(now);
    for (const [key, { createdAt }] of this.#keys) {
      if (createdAt <= now - idempotencyMilliseconds) this.#keys.delete(key);
    }
  }
}
