// The spool in PostgreSQL (D91): any number of processes on any number of hosts work on it at once.

import { openPostgres } from '../../base/database/postgres-database.ts';
import { errorMessage, Unavailable } from '../../base/errors.ts';
import { BrokenClaim } from '../broken-claim.ts';
import { findKey, keepAnswer } from '../core/key-steps.ts';
import { dueReports, endReport } from '../core/report-steps.ts';
import { readTallies } from '../core/tally-steps.ts';
import { encodeEvent } from '../encoded-event.ts';
import type { OutcomeEvent } from '../events/mail-event.ts';
import { KeyUsed } from '../idempotency-keys.ts';
import { acceptedRow } from '../journal/writer/journal-of-event.ts';
import { journalMigrations } from '../journal/writer/journal-tables.ts';
import type { EventFeed } from '../search/event-feed.ts';
import type { Spool, SpoolEntry } from '../spool.ts';
import { acceptedEvent } from '../spool-events.ts';
import { type AccountTally, totalOf } from '../tally.ts';
import { sizeOf } from './added-messages.ts';
import { tellDue } from './events/written-events.ts';
import { isId } from './postgres-queue.ts';
import { filingMigrations, postgresSpoolMigrations } from './postgres-schema.ts';
import { readReplacedIds } from './postgres-threads.ts';
import { stepsOver } from './server/postgres-session.ts';
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
    const packed = encodeEvent(event);
    const { journal: details } = entry;
    const { contentGauge } = this.#parts;
    // The octets are copied now: the caller may change its buffers afterwards.
    const kept = { ...entry, head: Buffer.from(entry.head), body: Buffer.from(entry.body) };
    const journal = details && acceptedRow(event, { details, sent: kept }, contentGauge);
    try {
      const written = this.#parts.writer.write({
        octets: sizeOf(kept),
        run: (group) => {
          group.added.push({ entry: kept, claimUntil });
          group.events.push(packed);
          if (journal) group.journal.push(journal);
        },
      });
      await this.#asked(written);
    } catch (thrown) {
      throw storedAlready(thrown, entry);
    } finally {
      this.#parts.quotas.giveBack(entry);
    }
    if (journal) contentGauge?.wrote('accepted', 1);
    this.events.committed([event]);
  }

  readonly claimDue: Spool['claimDue'] = (query) => this.#asked(this.#begin().claims.claimDue(query));
  readonly turns: Spool['turns'] = (query) => this.#asked(this.#begin().claims.turns(query));
  readonly postpone: Spool['postpone'] = (turns) => this.#asked(this.#begin().claims.postpone(turns));
  readonly giveTransports: Spool['giveTransports'] = (query) => this.#asked(this.#begin().claims.giveTransports(query));
  readonly addHold: Spool['addHold'] = (rule) => this.#asked(this.#begin().holds.add(rule));
  readonly liftHold: Spool['liftHold'] = (rule) => this.#asked(this.#parts.holds.lift(rule));
  readonly holds: Spool['holds'] = () => this.#asked(this.#parts.holds.read());
  readonly waiting: Spool['waiting'] = (limit) => this.#asked(this.#parts.queue.waiting(limit));
  readonly oldest: Spool['oldest'] = () => this.#asked(this.#parts.queue.oldest());
  readonly load: Spool['load'] = (id) => this.#asked(this.#parts.queue.load(id));
  readonly list: Spool['list'] = (query) => this.#asked(this.#begin().queue.list(query));
  readonly show: Spool['show'] = (id) => this.#asked(this.#begin().queue.show(id));
  readonly reportsDue: Spool['reportsDue'] = (query) => {
    const { session, clock } = this.#begin();
    return this.#asked(session.steps(dueReports(clock, query)));
  };
  readonly endReport: Spool['endReport'] = (report, until) => {
    const { session, clock } = this.#begin();
    return this.#asked(session.transaction((send) => stepsOver(send, endReport(clock, report, until))));
  };
  readonly replacedIds: Spool['replacedIds'] = (account, ids) =>
    this.#asked(readReplacedIds(this.#begin(), account, ids));
  readonly usedKey: Spool['usedKey'] = (account, key) =>
    this.#asked(this.#parts.session.steps(findKey({ account, key }, this.#parts.clock.now())));
  readonly answered: Spool['answered'] = (account, key, answer) =>
    this.#asked(this.#parts.session.steps(keepAnswer({ account, key }, answer)));

  async record(outcomes: readonly OutcomeEvent[]): Promise<void> {
    this.#begin();
    const now = this.#parts.clock.now();
    const written = this.#parts.writer.write({
      reads: outcomes.map(({ queueId }) => queueId).filter(isId),
      isPatient: true,
      outcomes,
      run: (group) => {
        const unwritten = outcomes.filter((outcome) => !this.#parts.writer.isKept(outcome));
        for (const outcome of unwritten) group.events.push(encodeEvent(outcome));
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

  readonly retryMany: Spool['retryMany'] = async (picks, times) => {
    this.#begin();
    const known = picks.filter(({ id }) => isId(id));
    const written = this.#parts.writer.write({
      reads: known.map(({ id }) => id),
      readsEntries: true,
      run: ({ messages, events, others }) => {
        others.push((send) => void send(tellDue));
        const { events: made, ...count } = messages.retryMany(known, times);
        events.push(...made.map(encodeEvent));
        return count;
      },
    });
    const count = await this.#asked(written);
    this.events.committed([]);
    return count;
  };

  async drop(id: string): Promise<boolean> {
    this.#begin();
    if (!isId(id)) return false;
    const written = this.#parts.writer.write({
      reads: [id],
      readsEntries: true,
      run: ({ messages, events }) => {
        const event = messages.drop(id, this.#parts.clock.now());
        if (event) events.push(encodeEvent(event));
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
    return await this.#asked(this.#parts.session.steps(readTallies()));
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

  /** Gives the parts, for an operation that has to do with times. */
  #begin(): SpoolParts {
    this.#parts.clock.observe();
    return this.#parts;
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
