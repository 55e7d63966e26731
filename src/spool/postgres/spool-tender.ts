// What a spool in PostgreSQL does once a second: asks whether the server can be used, keeps its process known, removes what is old.

import { randomBytes, randomUUID } from 'node:crypto';
import type { Row } from '../../base/database/database.ts';
import { isOfOneStatement, isOutOfReach } from '../../base/database/postgres-errors.ts';
import { errorCode, errorMessage, Unavailable } from '../../base/errors.ts';
import { StoreFault } from '../../base/fault/fault-watch.ts';
import type { Logger } from '../../base/log.ts';
import { Part } from '../../base/part.ts';
import {
  askServer,
  risksOf,
  takesNoChanges,
  unusableServer,
  whyUnusable,
} from '../../base/postgres/server-settings.ts';
import { readTallies } from '../core/tally-steps.ts';
import type { EventFiler } from './events/event-filer.ts';
import type { EventPartitions } from './events/event-partitions.ts';
import type { EventRemoval } from './events/event-removal.ts';
import type { PostgresRetention, Quotas } from './postgres-retention.ts';
import type { ProcessRegister } from './process-register.ts';
import type { ServerParts } from './server/database-clock.ts';
import type { PostgresHolds } from './spool-lines.ts';
import type { SpoolWriter } from './spool-writer.ts';

/** How often it is done, in milliseconds. */
const everyMs = 1000;
/** How often old messages and keys are looked for, in milliseconds. */
const pruneEveryMs = 60 * 60 * 1000;
/** How often transactions of others are looked at, in milliseconds, and after how many minutes one is told of. */
const watchEveryMs = 10 * 60 * 1000;
const longMinutes = 30;
// Without the role pg_read_all_stats PostgreSQL shows those of the own user alone.
const oldestTransaction = `SELECT pid, application_name AS program, round(extract(epoch FROM clock_timestamp() - xact_start) / 60) AS minutes
  FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND backend_type = 'client backend'
    AND xact_start < clock_timestamp() - $1::integer * interval '1 minute' ORDER BY xact_start LIMIT 1`;
/** What a change of partitions may meet besides: others change the tables, DEFAULT has too many rows, or the user has no right. */
const partitionCodes: ReadonlySet<string> = new Set(['42P01', '42P07', '23514', '42501']);

function isPassing(thrown: unknown): boolean {
  return thrown instanceof Unavailable && isOfOneStatement(thrown);
}

function isPartitionFault(thrown: unknown): boolean {
  return (
    isPassing(thrown) || partitionCodes.has(errorCode(thrown instanceof Unavailable ? thrown.cause : thrown) ?? '')
  );
}

const tidying = { words: 'the spool cannot tidy up for now', isExpected: isPassing };
/** What mail does not wait for: what the log says where it cannot be done now, and which errors mean that. */
const laterWork = {
  filing: {
    words: 'events cannot be filed for now',
    isExpected: (thrown: unknown) => thrown instanceof Unavailable && !isOutOfReach(thrown),
  },
  partitions: { words: 'partitions could not be changed', isExpected: isPartitionFault },
  removal: { words: 'partitions could not be changed', isExpected: isPartitionFault },
  register: tidying,
  holds: tidying,
  tidying,
};

/** Seconds that a client is told to wait while the server cannot be used. */
const retryAfterSeconds = 5;

/** Written and undone to find out whether mail can be kept: a server that is full or locked still answers. */
const triedOctets = 65_536;
const tryOctets = 'INSERT INTO spool_octets (message, part, octets) VALUES ($1::uuid, 0, $2::bytea)';
const tryTables = [
  ...['spool_messages', 'spool_recipients'].map((table) => `INSERT INTO ${table} SELECT * FROM ${table} WHERE false`),
  'INSERT INTO spool_unfiled (told) SELECT told FROM spool_unfiled WHERE false',
];

interface TendedParts extends ServerParts {
  readonly register: ProcessRegister;
  readonly quotas: Quotas;
  readonly retention: PostgresRetention;
  readonly removal: EventRemoval;
  readonly partitions: EventPartitions;
  readonly holds: PostgresHolds;
  readonly writer: Pick<SpoolWriter, 'settleDoubt'>;
  readonly filer: EventFiler;
  readonly log: Logger;
  /** The time of the server's clock; absent: `time` of the row. */
  readonly serverTime?: ((row: Row) => number) | undefined;
}

/** Does it until it is stopped. */
export class SpoolTender extends Part<TendedParts> {
  readonly #fault = new StoreFault();
  /** All connections are younger than the fault. */
  #isRenewed = false;
  #timer: NodeJS.Timeout | undefined;
  #round: Promise<void> | undefined;
  #isStopped = false;
  /** The risks that the log tells of already. */
  #told: ReadonlySet<string> = new Set();
  #watchedAt = Number.NEGATIVE_INFINITY;
  /** What cannot be done for now, of which the log tells already. */
  readonly #failing = new Set<keyof typeof laterWork>();
  #prunedAt = Number.NEGATIVE_INFINITY;

  /** Why the spool takes no mail; undefined while it does. */
  get fault(): Unavailable | undefined {
    return this.#fault.current;
  }

  /** Does it once, and then every second. @throws what the first time meets */
  async start(): Promise<void> {
    await this.#look();
    await this.#tendRows();
    this.#timer = setInterval(() => {
      this.#round ??= this.#tend().finally(() => {
        this.#round = undefined;
      });
    }, everyMs);
  }

  /** Ends it; resolves when nothing is under way. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearInterval(this.#timer);
    await this.#round;
  }

  /** Something has failed because the server is away: no mail is taken until it has answered again. */
  failed(error: Unavailable): void {
    if (!this.#fault.current && !this.#isStopped)
      this.parts.log.error({ reason: error.message }, 'the spool takes no mail');
    this.#fault.failed(error);
    if (this.#isRenewed || errorCode(error.cause) !== takesNoChanges) return;
    // New connections are refused, and those of before may still write: mail would be taken by some of them, now and then.
    this.#isRenewed = true;
    this.parts.session.renew();
  }

  /** Removes what is too old or too many, some of it. */
  async prune(): Promise<void> {
    await this.#orLater('tidying', () => this.#prune());
  }

  async #prune(): Promise<void> {
    const mayHaveMore = await this.parts.retention.prune();
    this.#prunedAt = mayHaveMore ? Number.NEGATIVE_INFINITY : performance.now();
    await this.#pruneSome();
  }

  /** Removes events that are too old where nobody holds the tables, and failed messages that are too many. */
  async #pruneSome(): Promise<void> {
    const { retention, removal, quotas } = this.parts;
    await this.#orLater('removal', () => removal.prune());
    for (const [account, tally] of quotas.withSurplus()) await retention.removeSurplus(account, tally);
  }

  /** Does what mail does not wait for. What cannot be done is logged once and tried a second later. @throws what it does not expect */
  async #orLater(what: keyof typeof laterWork, work: () => Promise<unknown>): Promise<void> {
    const { words, isExpected } = laterWork[what];
    try {
      await work();
      this.#failing.delete(what);
    } catch (thrown) {
      if (!isExpected(thrown)) throw thrown;
      if (!this.#failing.has(what)) this.parts.log.warn({ error: errorMessage(thrown) }, words);
      this.#failing.add(what);
    }
  }

  /** Makes partitions, and files what others have told. Where somebody holds the tables, rows go into DEFAULT, and readers wait. */
  async #tendRows(): Promise<void> {
    await this.#orLater('partitions', () => this.parts.partitions.tend());
    await this.#orLater('filing', () => this.parts.filer.file());
  }

  /** Looks what keeps the server from clearing away, and removes what is not kept any longer. */
  async #tidy(): Promise<void> {
    const { session, log } = this.parts;
    if (performance.now() - this.#watchedAt >= watchEveryMs) {
      this.#watchedAt = performance.now();
      const [row] = await session.query(oldestTransaction, [longMinutes]);
      // Every table grows while such a transaction lasts.
      if (row) log.warn({ ...row }, 'a transaction keeps PostgreSQL from clearing away what is deleted');
    }
    if (performance.now() - this.#prunedAt > pruneEveryMs) await this.#prune();
    else await this.#pruneSome();
  }

  async #tend(): Promise<void> {
    const { register, log, holds, writer } = this.parts;
    const found = this.#fault.beginLook();
    try {
      await this.#look();
      await writer.settleDoubt();
      await this.#orLater('register', async () => {
        if (await register.tend()) log.warn('messages in the hands of a process that has ended are due again');
      });
      await this.#recover(found);
      await this.#orLater('holds', () => holds.settle());
      await this.#tendRows();
      await this.#orLater('tidying', () => this.#tidy());
    } catch (thrown) {
      if (thrown instanceof Unavailable) this.failed(thrown);
      else log.error({ err: thrown }, 'the spool cannot tidy up');
    }
  }

  /**
   * Takes mail again where a new connection is let in and what a message needs can be written. A server that is about to stop, or
   * has too many connections, lets nobody in and serves those who are.
   * @param found of the look that this is the end of
   */
  async #recover(found: () => boolean): Promise<void> {
    if (!this.#fault.current) return;
    try {
      await this.parts.session.tryConnecting();
      await this.#tryWriting();
      if (!found()) return;
      this.parts.log.info('the spool takes mail again');
      this.#isRenewed = false;
    } catch (thrown) {
      if (!(thrown instanceof Unavailable)) throw thrown;
      this.failed(thrown);
    }
  }

  /** Writes what a message needs, and undoes it. @throws Unavailable where that cannot be written now */
  async #tryWriting(): Promise<void> {
    // With a code it is none of the connection's failures.
    const undone = Object.assign(new Error('it was only tried'), { code: '00000' });
    const tried = this.parts.session.transaction(async (send) => {
      for (const sql of tryTables) void send(sql);
      await send(tryOctets, [randomUUID(), randomBytes(triedOctets)]);
      throw undone;
    });
    await tried.catch((thrown: unknown) => {
      if (thrown !== undone) throw thrown;
    });
  }

  /** Asks the server how it is. @throws Unavailable where it takes no changes */
  async #look(): Promise<void> {
    const { session, clock, quotas, log, serverTime } = this.parts;
    const [row = {}] = await session.query(askServer);
    const reason = whyUnusable(row);
    if (reason !== undefined)
      throw new Unavailable(reason, { reason: 'store', retryAfterSeconds, cause: unusableServer(reason) });
    const risks = risksOf(row);
    for (const risk of risks)
      if (!this.#told.has(risk)) log.warn({ reason: risk }, 'mail is not safe in this PostgreSQL');
    this.#told = new Set(risks);
    clock.compare(serverTime ? serverTime(row) : Number(row['time']));
    quotas.know(await session.steps(readTallies()));
  }
}
