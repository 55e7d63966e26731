// What all event stores share: it tells listeners, wakes followers, and gathers refusals for commits of their own.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../../base/clock.ts';
import { Counts } from '../../base/counts.ts';
import { FairFifo } from '../../base/fifo.ts';
import { uuidv7 } from '../../base/ids.ts';
import type { Logger } from '../../base/log.ts';
import { Part } from '../../base/part.ts';
import { decodePage, type EncodedEvent, type EncodedPage, encodeEvent } from '../encoded-event.ts';
import type {
  EventListener,
  EventPage,
  EventQuery,
  EventSearch,
  EventStore,
  FollowQuery,
} from '../events/event-store.ts';
import type { EventFacts, EventKind, MailEvent, ReturnEvent } from '../events/mail-event.ts';
import { type RefusalFacts, refusedEvent, type WrittenRefusal } from '../events/refusal.ts';
import { type JournalDetails, withoutContent, withoutLargeBody } from '../journal/journal-row.ts';
import { refusedRow, type WrittenJournal } from '../journal/writer/journal-of-event.ts';
import type { SpoolOptions } from '../spool-limits.ts';

/** Refusals of one account that may wait, and of all: from then on none has more than an equal part. A refusal has a few kilobytes. */
const [mostOfAccount, mostOfAll] = [256, 1024];

/** Whose room a refusal takes: its account's, which for copies of a shadow listener has room of its own. */
function ownerOf({ event }: WrittenRefusal): string {
  return `${event.kind} ${event.account}`;
}

/** The refusals that wait to be written: no account takes the room of others, nor copies that of refusals. */
class RefusalQueue {
  readonly #waiting = new FairFifo<WrittenRefusal>();
  readonly #owners = new Counts();
  /** Octets of the messages that wait with them, for the journal. */
  octets = 0;

  get length(): number {
    return this.#waiting.length;
  }

  /** Puts a refusal in. @returns false where there is no room for it */
  put(refusal: WrittenRefusal): boolean {
    const owner = ownerOf(refusal);
    const room = this.length < mostOfAll ? mostOfAccount : Math.floor(mostOfAll / this.#owners.size);
    if (this.#owners.of(owner) >= room) return false;
    this.#waiting.push(owner, refusal);
    this.#count(refusal, 1);
    return true;
  }

  /** Takes up to `limit` refusals, one of each account in turn. */
  take(limit: number): readonly WrittenRefusal[] {
    const taken = Array.from({ length: Math.min(limit, this.length) }, () => this.#waiting.shift() ?? []).flat();
    for (const refusal of taken) this.#count(refusal, -1);
    return taken;
  }

  #count(refusal: WrittenRefusal, by: 1 | -1): void {
    this.#owners.add(ownerOf(refusal), by);
    this.octets += by * (refusal.journal?.octets?.length ?? 0);
  }
}

/** How often followers look for events that other processes wrote, in milliseconds. */
const pollMs = 500;
/** Events that a follower reads at once. */
const followedAtOnce = 200;
/** How long refusals gather before a commit, in milliseconds. */
const gatherMs = 100;
/** Refusals in one commit: so few that an accept that waits for it does not wait long. */
const refusalsAtOnce = 256;

/** Octets of refused messages that wait for the journal at most. */
const octetsAtOnce = 16_777_216;

/** The table of events behind a feed, in an engine's words. */
export interface EventTable extends Pick<EventStore, 'newest' | 'news'> {
  read(query: EventQuery): Promise<EncodedPage>;
  search(query: EventSearch): Promise<EncodedPage>;
  /** Makes what readers need of events beside them, within a bound; absent: that is made in their commits. */
  readonly catchUp?: () => Promise<void>;
  /** Writes events that report no change, in a commit of their own, or rejects. @param refused the journal's rows of refusals */
  write(events: readonly EncodedEvent[], refused?: readonly WrittenJournal[]): Promise<void>;
}

interface FeedParts extends Pick<SpoolOptions, 'hasJournal' | 'contentGauge'> {
  readonly clock: Clock;
  readonly log: Logger;
  /** Why the spool takes no mail, and so no refusals; undefined while it does. Absent: it always does. */
  readonly fault?: () => Error | undefined;
}

interface Follower {
  /** What is followed; absent: everything. */
  readonly kinds: readonly EventKind[] | undefined;
  /** A commit came since the last read, which may have what is followed. */
  isBehind: boolean;
  /** Ends its sleep; does nothing while it reads. */
  wake: () => void;
}

/** The events of one process's spool, for its listeners and followers. */
export class EventFeed extends Part<FeedParts & { readonly table: EventTable }> implements EventStore {
  readonly #listeners = new Set<EventListener>();
  readonly #refusals = new RefusalQueue();
  readonly #hasJournal: boolean = this.parts.hasJournal ?? true;
  droppedRefusals = 0;
  #gathering: NodeJS.Timeout | undefined;
  #writing: Promise<void> | undefined;
  #isClosed = false;
  readonly #followers = new Set<Follower>();

  get waitingRefusals(): number {
    return this.#refusals.length;
  }

  async read(query: EventQuery): Promise<EventPage> {
    return decodePage(await this.parts.table.read(query));
  }

  async search(query: EventSearch): Promise<EventPage> {
    return decodePage(await this.parts.table.search(query));
  }

  readonly newest: EventStore['newest'] = () => this.parts.table.newest();
  readonly news: EventStore['news'] = (after) => this.parts.table.news(after);

  async caughtUp(): Promise<void> {
    // Where it cannot be made now, readers get what there is; why is told in the log and in a metric.
    await this.parts.table.catchUp?.().catch(() => undefined);
  }

  async *follow({ after, signal, kinds, account }: FollowQuery): AsyncGenerator<MailEvent, void> {
    const follower: Follower = { kinds, isBehind: false, wake: () => undefined };
    this.#followers.add(follower);
    try {
      let cursor = after ?? (await this.parts.table.newest());
      while (!signal.aborted) {
        follower.isBehind = false;
        const page = await this.read({ after: cursor, limit: followedAtOnce, kinds, account });
        for (const event of page.events) {
          if (signal.aborted) return;
          yield event;
        }
        cursor = page.next;
        if (!page.hasMore && !follower.isBehind) await this.#nextCommit(follower, signal);
      }
    } finally {
      this.#followers.delete(follower);
    }
  }

  listen(listener: EventListener): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  async write(events: readonly ReturnEvent[]): Promise<void> {
    if (events.length === 0) return;
    await this.parts.table.write(events.map(encodeEvent));
    this.committed(events);
  }

  readonly refuse = (refusal: RefusalFacts): void => {
    const now = this.parts.clock.now();
    const { journalId = uuidv7(now), ...facts } = refusal;
    const event = refusedEvent(this.#hasJournal ? { ...facts, journalId } : facts, now);
    this.#tell(event);
    if (this.#isClosed || !this.#refusals.put({ event, journal: this.#bounded(refusal.journal) }))
      this.droppedRefusals += 1;
    this.#gather();
  };

  /** Tells listeners of events on disk, in order, and lets followers read on. @param events none: for followers alone */
  committed(events: readonly EventFacts[]): void {
    for (const event of events) this.#tell(event);
    this.#wake(events);
  }

  /** Writes the waiting refusals and takes no more. The store must stay open until this resolves. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#gathering);
    this.#gathering = undefined;
    await this.#writing;
    while (this.#refusals.length > 0) await this.#write();
    this.#wake();
  }

  #tell(event: EventFacts): void {
    for (const listener of this.#listeners) {
      try {
        listener(event);
      } catch (thrown) {
        // A listener's fault must not fail the commit: the event has happened.
        this.parts.log.error(
          { err: thrown, event: event.kind, session: event.sessionId },
          'A listener for events failed',
        );
      }
    }
  }

  /** What waits with a refusal for the journal: no large body, and nothing of the message where too much waits already. */
  #bounded(details: JournalDetails | undefined): JournalDetails | undefined {
    const kept = this.#hasJournal && details ? withoutLargeBody(details) : undefined;
    if (!kept || this.#refusals.octets + (kept.octets?.length ?? 0) <= octetsAtOnce) return kept;
    return withoutContent(kept, 'too many refusals came at once');
  }

  #gather(): void {
    if (this.#gathering || this.#writing || this.#refusals.length === 0) return;
    this.#gathering = setTimeout(() => {
      this.#gathering = undefined;
      this.#writing = this.#write().finally(() => {
        this.#writing = undefined;
        if (!this.#isClosed) this.#gather();
      });
    }, gatherMs);
  }

  async #write(): Promise<void> {
    const refusals = this.#refusals.take(refusalsAtOnce);
    try {
      const fault = this.parts.fault?.();
      if (fault) throw fault;
      const { contentGauge } = this.parts;
      const rows = refusals.flatMap((refusal) => refusedRow(refusal, contentGauge) ?? []);
      const events = refusals.map(({ event }) => encodeEvent(event));
      await this.parts.table.write(events, rows);
      contentGauge?.wrote('refused', rows.length);
      this.#wake();
    } catch (thrown) {
      // They are not kept for later: more come while nothing can be written, and the log has a line for each.
      this.droppedRefusals += refusals.length;
      this.parts.log.debug({ err: thrown, refusals: refusals.length }, 'refusals are not kept');
    }
  }

  /** Wakes those who follow one of a commit's events, if these are known: who follows rare ones would read at each commit. */
  #wake(events: readonly EventFacts[] = []): void {
    for (const follower of [...this.#followers]) {
      const { kinds } = follower;
      if (kinds && events.length > 0 && !events.some(({ kind }) => kinds.includes(kind))) continue;
      follower.isBehind = true;
      follower.wake();
    }
  }

  /** Waits for a commit of this process that has what is followed, for at most `pollMs`. */
  async #nextCommit(follower: Follower, signal: AbortSignal): Promise<void> {
    const woken = new AbortController();
    follower.wake = () => woken.abort();
    await sleep(pollMs, undefined, { signal: AbortSignal.any([signal, woken.signal]) }).catch(() => undefined);
    follower.wake = () => undefined;
  }
}
