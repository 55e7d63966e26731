// The journal as its readers see it: every message that was handed in, accepted or refused, newest first. Rows are written by
// the spool in the commits that it makes anyway; here they are read, searched and removed when they are too old.

import type { JournalContent, JournalFacts, JournalMore, JournalOutcome, JournalRow } from './journal-row.ts';

/** Which rows are wanted; all that is named must hold. */
export interface JournalQuery {
  /** Name of an account; absent: of all. */
  readonly account?: string | undefined;
  readonly outcome?: JournalOutcome | undefined;
  readonly credential?: string | undefined;
  /** The client's address, as it is kept. */
  readonly client?: string | undefined;
  /** An error's code. */
  readonly code?: string | undefined;
  /** Name of a header that a reason names, in any case. */
  readonly field?: string | undefined;
  /** Whether it was a copy that came to a shadow listener; absent: either. */
  readonly shadow?: boolean | undefined;
  /** Words that subject, addresses or mailer have, in any case; the last one may be the beginning of a word. */
  readonly text?: string | undefined;
  /** From this time on, and before that one; milliseconds since 1970. */
  readonly since?: number | undefined;
  readonly until?: number | undefined;
  /** The `next` of the page before. */
  readonly cursor?: number | undefined;
  /** Rows at most, 1 to 100. */
  readonly limit: number;
}

/** A row of a list. */
export interface JournalItem extends Pick<JournalRow, 'id' | 'at' | 'account'> {
  /** Later rows have greater numbers. */
  readonly seq: number;
  readonly outcome: JournalOutcome;
  readonly facts: JournalFacts;
  /** What the store has of it cannot be read, so that facts are missing. */
  readonly isDamaged?: boolean;
}

/** A page of rows, newest first. */
export interface JournalPage {
  readonly items: readonly JournalItem[];
  /** The `cursor` of the next page; absent on the last one. A page may have few rows while more follow: what it reads is bounded. */
  readonly next?: number | undefined;
}

/** One row with everything that is kept of it, except for the octets. */
export interface JournalEntry extends JournalItem {
  readonly more: JournalMore;
}

/** The journal of one store. Methods reject where the store cannot be asked. */
export interface Journal {
  /** Lists rows, newest first. */
  list(query: JournalQuery): Promise<JournalPage>;
  /** Finds one row. @param account its name; another's row is not found. Absent: of any account */
  find(id: string, account?: string): Promise<JournalEntry | undefined>;
  /** Finds rows by their ids, in the order of the rows; hand in no more than some hundreds. */
  rows(ids: readonly string[]): Promise<readonly JournalItem[]>;
  /** The octets that are kept of a row; undefined where nothing is. */
  content(seq: number): Promise<JournalContent | undefined>;
  /**
   * Does some of what is to be done behind the rows: fills the index of the search, removes what is too old or too much.
   * @param now milliseconds since 1970
   * @param isPressed whether more content is kept than should be, so that it is looked for now
   * @returns whether there is more to do
   */
  tend(now: number, isPressed?: boolean): Promise<boolean>;
  /** How much is kept: octets of all messages' content together. And how many rows are not in the index of the search yet, about. */
  state(): Promise<{ readonly octets: number; readonly waiting: number }>;
  close(): Promise<void>;
}

/** What is removed: rows that were too old, refusals or copies of accounts that had too many, the content of rows where it was too much. */
export type Removed = 'aged' | 'refusals' | 'copies' | 'content';

/** How much the journal keeps. */
export interface JournalLimits {
  readonly keepDays: number;
  /** Octets of all messages' content together; the oldest content goes first. */
  readonly maxOctets: number;
  /** Refusals of one account; a client can cause any number of them. */
  readonly refusals: number;
  /** Copies of one account that came to shadow listeners, whatever their verdict; they count as no refusals. */
  readonly copies: number;
}
