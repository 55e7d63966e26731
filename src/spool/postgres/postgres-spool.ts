// The spool in PostgreSQL (D91): any number of processes on any number of hosts work on it at once.

import { openPostgres } from '../../base/database/postgres-database.ts';
import { isOfOneStatement } from '../../base/database/postgres-errors.ts';
import { errorMessage, Unavailable } from '../../base/errors.ts';
import { BrokenClaim } from '../broken-claim.ts';
import { doVerb, PlainSpool, type PlainVerb } from '../core/plain-verbs.ts';
import type { StoreSteps } from '../core/steps.ts';
import { readTallies } from '../core/tally-steps.ts';
import { encodeEvent } from '../encoded-event.ts';
import type { OutcomeEvent } from '../events/mail-event.ts';
import { KeyUsed } from '../idempotency-keys.ts';
import { acceptedRow } from '../journal/writer/journal-of-event.ts';
import { journalMigrations } from '../journal/writer/journal-tables.ts';
import type { EventFeed } from '../search/event-feed.ts';
import { plainVerbs, type Spool, type SpoolEntry } from '../spool.ts';
import { acceptedEvent } from '../spool-events.ts';
import { type AccountTally, totalOf } from '../tally.ts';
import { sizeOf, uuidOf } from './added-messages.ts';
import { tellDue } from './events/written-events.ts';
import { isId } from './postgres-queue.ts';
import { filingMigrations, postgresSpoolMigrations } from './postgres-schema.ts';
import { stepsOver } from './server/postgres-session.ts';
import { makeParts, type PostgresSpoolOptions, type SpoolParts } from './spool-parts.ts';

/** A spool in a database of PostgreSQL. */
export class PostgresSpool extends PlainSpool implements Spool {
  readonly events: EventFeed;
  /** The free room of the server's disk is not known. */
  readonly freeBytes = Number.NaN;
  readonly #parts: SpoolParts;
  #closing: Promise<void> | undefined;

  /** Opens a spool and makes its tables. @throws Error where the server cannot be used as it is, or has newer tables */
  static async open(options: PostgresSpoolOptions): Promise<PostgresSpool> {
    const database = await openPostgres({ url: options.url, connections: 1 });
    try {
      for (const one of [postgresSpoolMigrations, filingMigrations, journalMigrations]) await database.migrate(one);
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
    super((verb, asked) => this.#plain(verb, asked));
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
      await this.#ask(({ writer }) =>
        writer.write({
          octets: sizeOf(kept),
          run: (group) => {
            group.added.push({ entry: kept, claimUntil });
            group.events.push(packed);
            if (journal) group.journal.push(journal);
          },
        }),
      );
    } catch (thrown) {
      throw storedAlready(thrown, entry);
    } finally {
      this.#parts.quotas.giveBack(entry);
    }
    if (journal) contentGauge?.wrote('accepted', 1);
    this.events.committed([event]);
  }

  expect(change: 1 | -1): void {
    this.#parts.writer.adding.expect(change);
  }

  readonly claimDue: Spool['claimDue'] = (query) => this.#ask(({ claims }) => claims.claimDue(query));
  readonly turns: Spool['turns'] = (query) => this.#read(({ claims }) => claims.turns(query));
  readonly giveTransports: Spool['giveTransports'] = (query) => this.#ask(({ claims }) => claims.giveTransports(query));
  readonly load: Spool['load'] = (id) => this.#read(({ queue }) => queue.load(id));

  async record(outcomes: readonly OutcomeEvent[]): Promise<void> {
    await this.#ask(({ writer, clock }) => {
      const now = clock.now();
      return writer.write({
        reads: outcomes.map(({ queueId }) => queueId).filter(isId),
        isPatient: true,
        outcomes,
        run: (group) => {
          const unwritten = outcomes.filter((outcome) => !writer.isKept(outcome));
          for (const outcome of unwritten) group.events.push(encodeEvent(outcome));
          group.messages.record(unwritten, now);
        },
      });
    });
    this.events.committed(outcomes);
  }

  async recover(): Promise<number> {
    await this.#parts.tender.prune();
    await this.#parts.register.releaseOwn();
    await this.#parts.register.releaseDead();
    return totalOf(await this.tallies()).messages.queued;
  }

  readonly retryMany: Spool['retryMany'] = async (picks, times) => {
    const known = picks.filter(({ id }) => isId(id));
    const count = await this.#ask(({ writer }) =>
      writer.write({
        reads: known.map(({ id }) => id),
        readsEntries: true,
        run: ({ messages, events, others }) => {
          others.push((send) => void send(tellDue));
          const { events: made, ...counted } = messages.retryMany(known, times);
          for (const event of made) events.push(encodeEvent(event));
          return counted;
        },
      }),
    );
    this.events.committed([]);
    return count;
  };

  async drop(id: string): Promise<boolean> {
    if (!isId(id)) return false;
    const isDropped = await this.#ask(({ writer, clock }) =>
      writer.write({
        reads: [id],
        readsEntries: true,
        run: ({ messages, events }) => {
          const event = messages.drop(id, clock.now());
          if (event) events.push(encodeEvent(event));
          return event !== undefined;
        },
      }),
    );
    this.events.committed([]);
    return isDropped;
  }

  async tallies(): Promise<readonly AccountTally[]> {
    await this.#parts.filer.caughtUp();
    return await this.#read(({ session }) => session.steps(readTallies()));
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

  /** Does a verb that is only passed on. */
  #plain(verb: PlainVerb, asked: readonly unknown[]): Promise<unknown> {
    const { reads } = plainVerbs[verb];
    return this.#ask(
      async (parts) => {
        const { session, clock } = parts;
        const run = (work: StoreSteps<unknown>) =>
          reads ? session.steps(work) : session.transaction((send) => stepsOver(send, work));
        return await doVerb(verb, asked, { ...parts, run, times: clock, now: clock.now(), threadKeyOf: uuidOf });
      },
      reads ? isOfOneStatement : undefined,
    );
  }

  /** Asks something that changes nothing. Where that took too long, or others hold a table, mail is taken all the same. */
  #read<T>(ask: (parts: SpoolParts) => Promise<T>): Promise<T> {
    return this.#ask(ask, isOfOneStatement);
  }

  /** Asks something after a look at the clock; notices a failing server. @param isHarmless failures that stop no mail */
  async #ask<T>(ask: (parts: SpoolParts) => Promise<T>, isHarmless?: (thrown: Unavailable) => boolean): Promise<T> {
    this.#parts.clock.observe();
    try {
      return await ask(this.#parts);
    } catch (thrown) {
      const cause = thrown instanceof BrokenClaim ? thrown.cause : thrown;
      if (cause instanceof Unavailable && !isHarmless?.(cause)) this.#parts.tender.failed(cause);
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
