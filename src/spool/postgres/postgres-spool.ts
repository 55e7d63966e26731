// The spool in PostgreSQL (D91): any number of processes on any number of hosts work on it at once.

import { openPostgres } from '../../base/database/postgres-database.ts';
import { errorMessage, Unavailable } from '../../base/errors.ts';
import type { EventFeed } from '../../events/event-feed.ts';
import type { OutcomeEvent } from '../../events/mail-event.ts';
import { BrokenClaim } from '../broken-claim.ts';
import { findKey, keepAnswer } from '../core/key-steps.ts';
import type { Hold, HoldRule } from '../hold.ts';
import { KeyUsed, type UsedKey } from '../idempotency-keys.ts';
import { journalMigrations } from '../journal/journal-tables.ts';
import { acceptedRow } from '../journal/pack-journal.ts';
import { packEvent } from '../packed-event.ts';
import type { DueReport, ReportKey } from '../reports/report.ts';
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
} from '../spool.ts';
import { acceptedEvent } from '../spool-events.ts';
import { type AccountTally, totalOf } from '../tally.ts';
import { readTallies } from './account-changes.ts';
import { filingMigrations } from './events/filing-schema.ts';
import { tellDue } from './events/written-events.ts';
import { isId } from './postgres-queue.ts';
import { postgresSpoolMigrations } from './postgres-schema.ts';
import { readReplacedIds } from './postgres-threads.ts';
import { makeParts, type PostgresSpoolOptions, type SpoolParts } from './spool-parts.ts';

/** A spool in a database of PostgreSQL. */
export class PostgresSpool implements Spool {
  readonly events: EventFeed;
  /** The free room of the server's disk is not known. */
  readonly freeBytes = Number.NaN;
  readonly #parts: SpoolParts;
  #closing: Promise<void> | undefined;

  /**
   * Opens a spool, making its tables where they are missing.
   * @throws Error where the server cannot be used as it is, or its tables are newer than this program
   */
  static async open(options: PostgresSpoolOptions): Promise<PostgresSpool> {
    const database = await openPostgres({ url: options.url, connections: 1 });
    try {
      await database.migrate(postgresSpoolMigrations);
      await database.migrate(filingMigrations);
      await database.migrate(journalMigrations);
    } finally {
      await database.close();
    }
    const spool = new PostgresSpool(options);
    try {
      await spool.#parts.tender.start();
      return spool;
    } catch (thrown) {
      await spool.close();
      throw thrown;
    }
  }

  private constructor(options: PostgresSpoolOptions) {
    this.#parts = makeParts(options);
    this.events = this.#parts.feed;
    options.changes?.on('mail_events', () => this.events.committed([]));
  }

  /** How far what readers of events need is behind the commits, in transactions of this process. */
  get behind(): { readonly unfiled: number; readonly passedOver: number } {
    return this.#parts.filer.behind;
  }

  get unavailable(): Unavailable | undefined {
    return this.#parts.tender.fault;
  }

  async add(entry: SpoolEntry, claimUntil: number): Promise<void> {
    this.#begin();
    if (this.unavailable) throw this.unavailable;
    this.#parts.quotas.take(entry);
    const event = acceptedEvent(entry);
    const { journal: details } = entry;
    const { contentGauge } = this.#parts;
    // The octets are copied now: the caller may change its buffers afterwards.
    const kept = { ...entry, head: Buffer.from(entry.head), body: Buffer.from(entry.body) };
    const journal = details && acceptedRow(event, { details, sent: kept }, contentGauge);
    try {
      await this.#asked(this.#parts.writer.add({ entry: kept, claimUntil }, packEvent(event), journal));
    } catch (thrown) {
      throw storedAlready(thrown, entry);
    } finally {
      this.#parts.quotas.giveBack(entry);
    }
    if (journal) contentGauge?.wrote('accepted', 1);
    this.events.committed([event]);
  }

  claimDue(query: ClaimQuery): Promise<readonly DueMessage[]> {
    this.#begin();
    return this.#asked(this.#parts.claims.claimDue(query));
  }

  turns(query: Parameters<Spool['turns']>[0]): Promise<readonly ClaimTurn[]> {
    this.#begin();
    return this.#asked(this.#parts.claims.turns(query));
  }

  async postpone(turns: Parameters<Spool['postpone']>[0]): Promise<void> {
    this.#begin();
    await this.#asked(this.#parts.claims.postpone(turns));
  }

  async addHold(rule: HoldRule): Promise<void> {
    this.#begin();
    await this.#asked(this.#parts.holds.add(rule));
  }

  liftHold(rule: Pick<HoldRule, 'kind' | 'value'>): Promise<boolean> {
    return this.#asked(this.#parts.holds.lift(rule));
  }

  holds(): Promise<readonly Hold[]> {
    return this.#asked(this.#parts.holds.read());
  }

  waiting(limit: number): Promise<readonly WaitingLine[]> {
    return this.#asked(this.#parts.queue.waiting(limit));
  }

  oldest(): Promise<number | undefined> {
    return this.#asked(this.#parts.queue.oldest());
  }

  giveTransports(query: Parameters<Spool['giveTransports']>[0]): Promise<number> {
    this.#begin();
    return this.#asked(this.#parts.claims.giveTransports(query));
  }

  load(id: string): Promise<{ readonly head: Buffer; readonly body: Buffer } | undefined> {
    return this.#asked(this.#parts.queue.load(id));
  }

  async record(outcomes: readonly OutcomeEvent[]): Promise<void> {
    this.#begin();
    const now = this.#parts.clock.now();
    const written = this.#parts.writer.write({
      reads: outcomes.map(({ queueId }) => queueId).filter(isId),
      isPatient: true,
      outcomes,
      run: (group) => {
        const unwritten = outcomes.filter((outcome) => !this.#parts.writer.isKept(outcome));
        for (const outcome of unwritten) group.events.push(packEvent(outcome));
        group.messages.record(unwritten, now);
      },
    });
    await this.#asked(written);
    this.events.committed(outcomes);
  }

  async release(id: string, recipients: readonly string[]): Promise<void> {
    this.#begin();
    if (isId(id)) await this.#asked(this.#parts.claims.release(id, recipients));
  }

  async recover(): Promise<number> {
    this.#begin();
    await this.#parts.tender.prune();
    await this.#parts.register.releaseOwn();
    await this.#parts.register.releaseDead();
    return (await this.counts()).queued;
  }

  list(query: ListQuery): Promise<QueuePage> {
    this.#begin();
    return this.#asked(this.#parts.queue.list(query));
  }

  show(id: string): Promise<QueueItem | undefined> {
    this.#begin();
    return this.#asked(this.#parts.queue.show(id));
  }

  async retryMany(
    picks: readonly RetryPick[],
    times: { readonly now: number; readonly expiresAt: number },
  ): Promise<RetryCount> {
    const made = (await this.#retry(picks, times)).filter(({ recipients }) => recipients > 0);
    return {
      messages: made.length,
      recipients: made.reduce((sum, { recipients }) => sum + recipients, 0),
      failed: made.reduce((sum, { failed }) => sum + failed, 0),
    };
  }

  async #retry(
    picks: readonly RetryPick[],
    times: { readonly now: number; readonly expiresAt: number },
  ): Promise<readonly Omit<RetryCount, 'messages'>[]> {
    this.#begin();
    const known = picks.filter(({ id }) => isId(id));
    const written = this.#parts.writer.write({
      reads: known.map(({ id }) => id),
      readsEntries: true,
      run: ({ messages, events, others }) => {
        others.push((send) => void send(tellDue));
        return known.flatMap((pick) => {
          const made = messages.requeue(pick, times);
          if (made?.event) events.push(packEvent(made.event));
          return made ?? [];
        });
      },
    });
    const made = await this.#asked(written);
    this.events.committed([]);
    return made;
  }

  async drop(id: string): Promise<boolean> {
    this.#begin();
    if (!isId(id)) return false;
    const written = this.#parts.writer.write({
      reads: [id],
      readsEntries: true,
      run: ({ messages, events }) => {
        const event = messages.remove(id, this.#parts.clock.now());
        if (event) events.push(packEvent(event));
        return event !== undefined;
      },
    });
    const isDropped = await this.#asked(written);
    this.events.committed([]);
    return isDropped;
  }

  async counts(): Promise<{ readonly queued: number; readonly failed: number }> {
    return totalOf(await this.tallies()).messages;
  }

  async tallies(): Promise<readonly AccountTally[]> {
    await this.#parts.filer.caughtUp();
    return await this.#asked(readTallies(this.#parts.session));
  }

  usedKey(account: string, key: string): Promise<UsedKey | undefined> {
    return this.#asked(this.#parts.session.steps(findKey({ account, key }, this.#parts.clock.now())));
  }

  async answered(account: string, key: string, answer: string): Promise<void> {
    await this.#asked(this.#parts.session.steps(keepAnswer({ account, key }, answer)));
  }

  replacedIds(account: string, ids: readonly string[]): Promise<ReadonlyMap<string, string>> {
    this.#begin();
    const storedNow = this.#parts.clock.stored(this.#parts.clock.now());
    return this.#asked(readReplacedIds(this.#parts.session, { account, ids, storedNow }));
  }

  reportsDue(query: { readonly now: number; readonly limit: number }): Promise<readonly DueReport[]> {
    this.#begin();
    return this.#asked(this.#parts.reports.due(query));
  }

  endReport(report: ReportKey, until?: number): Promise<boolean> {
    this.#begin();
    return this.#asked(this.#parts.reports.end(report, until));
  }

  get unreported(): number {
    return this.#parts.writer.unreported;
  }

  abandon(): void {
    this.#parts.session.abandon();
  }

  /** Finishes what is under way and closes the connections. What this process still holds goes back to the others. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await this.events.close();
    await this.#parts.writer.quiet();
    await this.#parts.tender.stop();
    await this.#parts.writer.settleDoubt().catch(() => undefined);
    await this.#parts.filer.file().catch(() => undefined);
    // Where the server is away, the others find out by themselves.
    await this.#parts.register.leave().catch(() => undefined);
    await this.#parts.session.close();
  }

  /** To be called before each operation that has to do with times. */
  #begin(): void {
    this.#parts.clock.observe();
  }

  /** Has a failure of the server noticed at once. */
  async #asked<T>(asked: Promise<T>): Promise<T> {
    try {
      return await asked;
    } catch (thrown) {
      const cause = thrown instanceof BrokenClaim ? thrown.cause : thrown;
      if (cause instanceof Unavailable) this.#parts.tender.failed(cause);
      throw thrown;
    }
  }
}

/** Says in words what a message collided with. */
function storedAlready(thrown: unknown, { id, account }: SpoolEntry): unknown {
  const text = errorMessage(thrown);
  if (text.includes('idempotency_keys_pkey')) return new KeyUsed(account, { cause: thrown });
  if (text.includes('spool_messages_pkey'))
    return new Error(`Message ${id} is in the spool already`, { cause: thrown });
  // `endReports`
  if (text.includes('"changed ')) return new Error('What this report tells has changed', { cause: thrown });
  return thrown;
}
