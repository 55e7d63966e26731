// Where events are kept and read. Each spool is its own event store, since an event shares the commit of the change that it
// reports; test/contract/events.ts holds all stores to the same behaviour.

import type { EventFacts, EventKind, MailEvent } from './mail-event.ts';
import type { Refuse } from './refusal.ts';

/** Which events are read. */
export interface EventQuery {
  /** Only events with a greater id; 0: from the first one. */
  readonly after: number;
  /** How many at most, 1 to 1000. */
  readonly limit: number;
  /** Only events of these kinds. */
  readonly kinds?: readonly EventKind[] | undefined;
  /** Only events of the account with this name. */
  readonly account?: string | undefined;
}

/** Some events, ordered by id. The cost of a page is bounded: it may hold few events or none while more follow. */
export interface EventPage {
  readonly events: readonly MailEvent[];
  /** All events up to this id were examined: the `after` of the next page. */
  readonly next: number;
  /** There were more events already when this page was read. */
  readonly hasMore: boolean;
}

/** Which events are followed. */
export interface FollowQuery extends Pick<EventQuery, 'kinds' | 'account'> {
  /** Only events with a greater id; absent: only those that come from now on. */
  readonly after?: number;
  /** Ends the iteration. */
  readonly signal: AbortSignal;
}

/**
 * Called for each event of this process: for those of a commit right after it and before its caller gets the result, for a
 * refusal as soon as it is made. Errors that it throws are logged.
 */
export type EventListener = (event: EventFacts) => void;

/** How long events are kept and how many; the oldest are removed first, a few at a time. */
export interface EventLimits {
  readonly ageMilliseconds: number;
  /** Events of one account about its accepted mail. */
  readonly mail: number;
  /** Refusals of one account. A client can cause any number of them, so they never push out other events. */
  readonly refusals: number;
}

/** 30 days; for each account a million events and fifty thousand refusals, about 700 MB and 25 MB. */
export const defaultEventLimits: EventLimits = {
  ageMilliseconds: 30 * 24 * 60 * 60 * 1000,
  mail: 1_000_000,
  refusals: 50_000,
};

/** The events of a spool. Methods that ask the store reject when it fails or is closed. */
export interface EventStore {
  /** Reads events behind a cursor, oldest first. */
  read(query: EventQuery): Promise<EventPage>;
  /** The id of the newest event; 0 where there was none. */
  newest(): Promise<number>;
  /**
   * Gives events behind a cursor and then new ones: those of this process at once, those of others within a second. It ends
   * when the signal is aborted, and throws when the store fails.
   */
  follow(query: FollowQuery): AsyncGenerator<MailEvent, void>;
  /** Calls a listener for each event from now on; gives the function that ends this. */
  listen(listener: EventListener): () => void;
  /**
   * Tells the listeners of a refusal and writes it within a second, in one commit with others of that time. Refusals that
   * cannot be written, or are too many, are counted in `droppedRefusals` and not kept.
   */
  readonly refuse: Refuse;
  /** Refusals since the start that were not kept. */
  readonly droppedRefusals: number;
  /** Refusals that are not written yet. */
  readonly waitingRefusals: number;
}
