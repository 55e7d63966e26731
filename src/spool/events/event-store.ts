// Where events are kept and read. Each spool is its own store: an event shares its change's commit (test/contract/events.ts).

import type { EventFacts, EventKind, MailEvent, ReturnEvent } from './mail-event.ts';
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
  /** Only events of the message with this id in the spool (`queueId`); the store has an index for it. */
  readonly message?: string | undefined;
}

/** Which events of an account are searched for. What is named must all hold; each has an index, and so has the time. */
export interface EventSearch extends Pick<EventQuery, 'limit' | 'kinds' | 'message'> {
  /** Name of the account. */
  readonly account: string;
  /** Which come first. */
  readonly order: 'newest' | 'oldest';
  /** The `next` of the page before; absent: from the first of this order. */
  readonly cursor?: number | undefined;
  /** An address in any spelling: the event's recipient, or one of those that it names. */
  readonly recipient?: string | undefined;
  /** The reverse-path that the client gave, in any spelling; outcomes of attempts are not found by it. */
  readonly sender?: string | undefined;
  /** The client's own Message-ID, with or without brackets; only acceptances are found by it. */
  readonly clientMessageId?: string | undefined;
  /** Only events from this time on, and before that one; milliseconds since 1970. */
  readonly since?: number | undefined;
  readonly until?: number | undefined;
}

/** Some events, ordered by id (of a search: in its order). The cost of a page is bounded: it may hold few events or none while more follow. */
export interface EventPage {
  readonly events: readonly MailEvent[];
  /** All events up to this id were examined: the `after` of the next page. */
  readonly next: number;
  /** There were more events already when this page was read. */
  readonly hasMore: boolean;
}

/** For whom there are new events. */
export interface EventNews {
  /** The id of the newest event; 0 where there was none. */
  readonly newest: number;
  /** Each account that has events behind the cursor, with each of their kinds; undefined: they are too many to be looked at. */
  readonly told: readonly { readonly account: string; readonly kind: EventKind }[] | undefined;
}

/** Events behind a cursor that `news` looks at. */
export const newsAtMost = 20_000;

/** Which events are followed. */
export interface FollowQuery extends Pick<EventQuery, 'kinds' | 'account'> {
  /** Only events with a greater id; absent: only those that come from now on. */
  readonly after?: number;
  /** Ends the iteration. */
  readonly signal: AbortSignal;
}

/**
 * Called for each event of this process, except for `requeued` and `dropped`, which most often come from a command beside it
 * and are told to followers alone: for those of a commit right after it and before its caller gets the result, for a
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
  /** Verdicts of one account on copies that came to shadow listeners, of which the same holds. */
  readonly copies: number;
}

/** 30 days; for each account a million events, as many of copies, and fifty thousand refusals, about 700 MB twice and 25 MB. */
export const defaultEventLimits: EventLimits = {
  ageMilliseconds: 30 * 24 * 60 * 60 * 1000,
  mail: 1_000_000,
  refusals: 50_000,
  copies: 1_000_000,
};

/** The events of a spool. Methods that ask the store reject when it fails or is closed. */
export interface EventStore {
  /** Reads events behind a cursor, oldest first. */
  read(query: EventQuery): Promise<EventPage>;
  /** Finds events of one account; the cost of a page does not grow with the number of events. */
  search(query: EventSearch): Promise<EventPage>;
  /** The id of the newest event; 0 where there was none. */
  newest(): Promise<number>;
  /** Tells which accounts have events behind a cursor, and of which kinds, without reading the events. */
  news(after: number): Promise<EventNews>;
  /** Resolves when what is made of events behind their commits is made of those that there are, or of as many as one reader waits for. */
  caughtUp(): Promise<void>;
  /** Gives events behind a cursor and then new ones, others' within a second, until the signal is aborted. Throws as the store does. */
  follow(query: FollowQuery): AsyncGenerator<MailEvent, void>;
  /** Calls a listener for each event from now on; gives the function that ends this. */
  listen(listener: EventListener): () => void;
  /** Writes events that report no change of the spool, all in one commit, and tells the listeners. */
  write(events: readonly ReturnEvent[]): Promise<void>;
  /** Tells the listeners of a refusal and writes it within a second; those that cannot be kept are counted in `droppedRefusals`. */
  readonly refuse: Refuse;
  /** Refusals since the start that were not kept. */
  readonly droppedRefusals: number;
  /** Refusals that are not written yet. */
  readonly waitingRefusals: number;
}
