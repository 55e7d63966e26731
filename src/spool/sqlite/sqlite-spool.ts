// The main thread's part of the spool in SQLite (D90, D94). The octets of body files never pass to the spool's thread.

import { dirname, join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { type Clock, systemClock } from '../../base/clock.ts';
import { errorMessage, Unavailable } from '../../base/errors.ts';
import { type Logger, silentLog } from '../../base/log.ts';
import { BodyFiles, bodyError, bodyFileThreshold, bufferOver } from '../body-files.ts';
import type { GivenOutcome } from '../core/message-group.ts';
import { PlainSpool } from '../core/plain-verbs.ts';
import { encodeEvent } from '../encoded-event.ts';
import type { OutcomeEvent } from '../events/mail-event.ts';
import type { ContentGauge } from '../journal/content-gauge.ts';
import { acceptedRow, type WrittenJournal } from '../journal/writer/journal-of-event.ts';
import { EventFeed, type EventTable } from '../search/event-feed.ts';
import { plainVerbs, type Spool, type SpoolEntry } from '../spool.ts';
import { acceptedEvent } from '../spool-events.ts';
import { keptSettings, type SpoolOptions } from '../spool-limits.ts';
import { encodeJournal, type SpoolFault, type SpoolWorkerData } from './sqlite-protocol.ts';
import type { Behind } from './sqlite-store.ts';
import { retryAfterSeconds, SpoolThread } from './sqlite-thread.ts';

/** Where the spool is stored, and its settings. */
export interface SqliteSpoolOptions extends SpoolOptions {
  /** Path of the database. */
  readonly file: string;
  /** Folder of the large bodies (D94); `bodies` beside the database if absent. */
  readonly bodiesFolder?: string;
  /** Called once, when the thread ended without `close`: the spool no longer works. */
  readonly onLost?: (error: Error) => void;
}

/** The row of a refusal for another thread, in memory of its own: of a view, that would get all that is behind it. */
function inOwnMemory(refusal: WrittenJournal): WrittenJournal {
  const { receivedHead: head, receivedBody: body } = refusal;
  return { ...refusal, receivedHead: head && new Uint8Array(head), receivedBody: body && new Uint8Array(body) };
}

function eventsOf(thread: SpoolThread): EventTable {
  return {
    read: (query) => thread.ask('events', query),
    search: (query) => thread.ask('searchEvents', query),
    newest: () => thread.ask('newestEvent'),
    catchUp: () => thread.ask('catchUp'),
    news: (after) => thread.ask('eventNews', after),
    write: (events, refused) =>
      refused ? thread.run('refusals', events, refused.map(inOwnMemory)) : thread.run('writeEvents', events),
  };
}

/** A spool in one SQLite file with a thread of its own. Several processes may have the same file open (D94). */
export class SqliteSpool extends PlainSpool implements Spool {
  readonly #thread: SpoolThread;
  readonly #bodies: BodyFiles;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #contentGauge: ContentGauge | undefined;
  #fault: SpoolFault | undefined;
  /** Free octets of the file system with the least free room that the spool writes to, at most a second old. */
  freeBytes = Number.NaN;
  /** How far what readers of events need is behind the commits, at most a second old. */
  behind: Behind = { unfiled: 0, passedOver: 0, fault: undefined };
  unreported = 0;
  readonly events: EventFeed;
  readonly #fileWork = new Set<Promise<void>>();

  /** Opens a spool, creating the file and its tables. @throws Error when it cannot be opened or is of a newer version */
  static async open(options: SqliteSpoolOptions): Promise<SqliteSpool> {
    const spool = new SqliteSpool(options);
    await spool.#thread.opened;
    return spool;
  }

  private constructor(options: SqliteSpoolOptions) {
    super((verb, asked) =>
      plainVerbs[verb].reads
        ? this.#thread.ask('plain', verb, asked, this.#clock.now())
        : this.#thread.run('plain', verb, asked, this.#clock.now()),
    );
    const { file, bodiesFolder = join(dirname(file), 'bodies'), contentGauge } = options;
    const { clock, log, onLost, onRemoved, onCommitted } = options;
    const data: SpoolWorkerData = { file, bodies: bodiesFolder, ...keptSettings(options) };
    const thread = new Worker(new URL('./sqlite-worker.ts', import.meta.url), { workerData: data });
    this.#clock = clock ?? systemClock;
    this.#log = log ?? silentLog;
    this.#contentGauge = contentGauge;
    this.#bodies = new BodyFiles(bodiesFolder);
    this.#thread = new SpoolThread(thread, {
      clock: this.#clock,
      listener: {
        onWritten: ({ outcomes, orphanedBodies, removed }) => {
          onCommitted?.(outcomes.length);
          for (const id of orphanedBodies) this.#removeBody(id);
          for (const failures of removed) {
            this.#log.warn({ ...failures }, 'failed messages removed: the account has more than are kept');
            onRemoved?.(failures);
          }
        },
        onHealth: (freeBytes, fault, behind) => {
          this.freeBytes = freeBytes;
          this.#setBehind(behind);
          this.#setFault(fault);
        },
        onLost: (error) => onLost?.(error),
      },
    });
    const kept = { clock: this.#clock, log: this.#log, hasJournal: data.hasJournal, contentGauge };
    this.events = new EventFeed({ table: eventsOf(this.#thread), ...kept, fault: () => this.unavailable });
  }

  get unavailable(): Unavailable | undefined {
    if (!this.#fault) return undefined;
    return new Unavailable(this.#fault.text, { reason: this.#fault.reason, retryAfterSeconds });
  }

  async add(entry: SpoolEntry, claimUntil: number): Promise<void> {
    const { unavailable } = this;
    if (unavailable && !this.#thread.ended) throw unavailable;
    if (entry.body.length <= bodyFileThreshold) return await this.#add(entry, claimUntil, entry.body);
    if (this.#thread.ended) throw this.#thread.ended;
    const work = this.#addLarge(entry, claimUntil);
    this.#track(work);
    await work;
  }

  async #addLarge(entry: SpoolEntry, claimUntil: number): Promise<void> {
    // Without the lock, another process that starts would treat the file as an orphan.
    await this.#thread.run('hold');
    await this.#bodies.write(entry.id, entry.body).catch((thrown: unknown) => {
      throw bodyError(thrown, retryAfterSeconds);
    });
    try {
      await this.#add(entry, claimUntil, undefined);
    } catch (thrown) {
      // With the thread gone it is unknown whether the row was committed; the next start finds out.
      if (!this.#thread.ended) await this.#bodies.remove(entry.id);
      throw thrown;
    }
  }

  expect(change: 1 | -1): void {
    this.#thread.expect(change);
  }

  readonly claimDue: Spool['claimDue'] = (query) => this.#thread.run('claimDue', query);
  readonly tallies: Spool['tallies'] = () => this.#thread.ask('tallies');
  readonly turns: Spool['turns'] = (query) => this.#thread.run('turns', query);

  async giveTransports({ transportOf, ...query }: Parameters<Spool['giveTransports']>[0]): Promise<number> {
    const { strays, looked } = await this.#thread.run('strays', query);
    if (strays.length === 0 && looked.length === 0) return 0;
    const given = strays.map((stray) => ({ ...stray, transport: transportOf(stray) }));
    await this.#thread.run('giveTransports', given, { looked, now: query.now });
    return strays.length;
  }

  async load(id: string): ReturnType<Spool['load']> {
    const row = await this.#thread.ask('load', id);
    if (!row) return undefined;
    const head = bufferOver(row.head);
    if (row.body) return { head, body: bufferOver(row.body) };
    const body = await this.#bodies.read(id);
    if (body) return { head, body };
    // The message may have been removed between the two reads. A body missing from a message that still exists is damage.
    if (!(await this.show(id))) return undefined;
    throw new Error(`The body of message ${id} is missing from "${this.#bodies.folder}"`);
  }

  async record(outcomes: readonly OutcomeEvent[]): Promise<void> {
    const packed = outcomes.map((outcome) => {
      const { queueId, recipient, kind, reply, host, nextAttemptAt, isUntried, handover }: GivenOutcome = outcome;
      return { queueId, recipient, kind, reply, host, nextAttemptAt, isUntried, handover, event: encodeEvent(outcome) };
    });
    const unreported = await this.#thread.run('record', packed, this.#clock.now());
    // Added only now: others may have ended while this one was awaited.
    this.unreported += unreported;
    this.events.committed(outcomes);
  }

  recover(): Promise<number> {
    return this.#thread.run('recover', this.#clock.now());
  }

  readonly retryMany: Spool['retryMany'] = async (picks, times) => {
    const made = await this.#thread.run('retryMany', picks, times);
    this.events.committed([]);
    return made;
  };

  async drop(id: string): Promise<boolean> {
    const isThere = await this.#thread.run('drop', id, this.#clock.now());
    this.events.committed([]);
    return isThere;
  }

  /** Finishes pending operations, deletes what is to be deleted, and ends the thread. */
  async close(): Promise<void> {
    if (this.#thread.ended) return;
    await this.events.close();
    await Promise.allSettled(this.#fileWork);
    await this.#thread.quiet();
    await Promise.allSettled(this.#fileWork);
    if (this.#thread.ended) return;
    await this.#thread.close();
  }

  async #add(entry: SpoolEntry, claimUntil: number, body: Buffer | undefined): Promise<void> {
    const { head, body: whole, received: _, journal: details, ...meta } = entry;
    const event = acceptedEvent(entry);
    const kept = details && acceptedRow(event, { details, sent: { head, body: whole } }, this.#contentGauge);
    // A body that is a file goes to the thread for the journal's sake alone.
    const forJournal = kept && ([kept.receivedHead, kept.receivedBody, body ? undefined : kept.sentBody] as const);
    await this.#thread.add(
      {
        ...{ kind: 'packed', entry: meta, event: JSON.stringify(event), claimUntil },
        ...{ size: head.length + whole.length, journal: kept && encodeJournal(kept) },
      },
      [head, body, ...(forJournal ?? [])],
    );
    if (kept) this.#contentGauge?.wrote('accepted', 1);
    this.events.committed([event]);
  }

  #setFault(fault: SpoolFault | undefined): void {
    const before = this.#fault;
    this.#fault = fault;
    if (before?.reason === fault?.reason && (before === undefined) === (fault === undefined)) return;
    if (fault) this.#log.error({ reason: fault.text }, 'the spool takes no mail');
    else this.#log.info('the spool takes mail again');
  }

  #setBehind(behind: Behind): void {
    const before = this.behind;
    this.behind = behind;
    if (behind.passedOver > before.passedOver)
      this.#log.warn({ passedOver: behind.passedOver }, 'damaged events are passed over: look with "postern db check"');
    if ((before.fault === undefined) === (behind.fault === undefined)) return;
    if (behind.fault === undefined) this.#log.info('events are filed again');
    else this.#log.error({ reason: behind.fault }, 'events cannot be filed: searches are slow, and old events stay');
  }

  #removeBody(id: string): void {
    this.#track(
      this.#bodies.remove(id).catch((error: unknown) => {
        // No caller waits for this, and the next start removes the file.
        this.#log.warn({ id, error: errorMessage(error) }, 'Cannot delete a body file');
      }),
    );
  }

  /** Makes `close` wait for the work; whoever began the work handles its failure. */
  #track(work: Promise<void>): void {
    this.#fileWork.add(work);
    void Promise.allSettled([work]).then(() => this.#fileWork.delete(work));
  }
}
