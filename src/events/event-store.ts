// Where events are kept and read. The stores are the spool's own, since an event shares the commit of what it tells of;
// test/contract/events.ts holds them to the same behaviour.

import type { EventFacts, EventKind, MailEvent } from './mail-event.ts';
import type { Refuse } from './refusal.ts';

/** Which events are read. */
export interface EventQuery {
  /** Those behind this id; 0: from the first. */
  readonly after: number;
  /** How many at most, 1 to 1000. */
  readonly limit: number;
  /** Only of these kinds. */
  readonly kinds?: readonly EventKind[] | undefined;
  /** Only of the account of this name. */
  readonly account?: string | undefined;
}

/** Some events, by their ids. A page costs a bounded look at the store: it may hold few or none while more follow. */
export interface EventPage {
  readonly events: readonly MailEvent[];
  /** Everything up to here was looked at: the `after` of the next page. */
  readonly next: number;
  /** More was there already when this was read. */
  readonly hasMore: boolean;
}

/** Which events are followed. */
export interface FollowQuery extends Pick<EventQuery, 'kinds' | 'account'> {
  /** Those behind this id; absent: what comes from now on. */
  readonly after?: number;
  /** Ends the iteration. */
  readonly signal: AbortSignal;
}

/**
 * Is told of what happened in this process: of what a commit holds right after it and before its caller hears of it, of a
 * refusal as soon as it is made. What it throws is logged.
 */
export type EventListener = (event: EventFacts) => void;

/** How long events are kept; the oldest go first, a few at a time. */
export interface EventLimits {
  readonly ageMilliseconds: number;
  /** Events of one account of what happened to its accepted mail. */
  readonly mail: number;
  /** Refusals of one account: they cost a client nothing, and push out none of the others. */
  readonly refusals: number;
}

/** 30 days; a million events and fifty thousand refusals of an account, some 700 and 25 MB. */
export const defaultEventLimits: EventLimits = {
  ageMilliseconds: 30 * 24 * 60 * 60 * 1000,
  mail: 1_000_000,
  refusals: 50_000,
};

/** The events of a spool. Methods that ask the store reject when it fails or is closed. */
export interface EventStore {
  /** Events behind a cursor, oldest first. */
  read(query: EventQuery): Promise<EventPage>;
  /** The id of the newest event; 0 where there was none. */
  newest(): Promise<number>;
  /**
   * Events behind a cursor and then whatever comes: at once what this process commits, within a second what others do.
   * It ends when the signal is given, and throws when the store fails.
   */
  follow(query: FollowQuery): AsyncGenerator<MailEvent, void>;
  /** Tells a listener from now on; gives the function that ends it. */
  listen(listener: EventListener): () => void;
  /**
   * Tells the listeners of a refusal and writes it within a second, in a commit of its own with the others of that time.
   * Where more come than are written, or nothing can be, those over are counted in `droppedRefusals` and not kept.
   */
  readonly refuse: Refuse;
  /** Refusals since the start that were not kept. */
  readonly droppedRefusals: number;
  /** Refusals that are not written yet. */
  readonly waitingRefusals: number;
}
