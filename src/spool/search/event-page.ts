// Makes a page of events from rows of the stores' tables. A page is made of parts, each read from one index in the order of
// the ids; a part ends early once it has enough, so that the cost of a page is bounded.

import type { EncodedPage } from '../encoded-event.ts';
import { isEventKind } from '../events/mail-event.ts';

/** Rows that are examined for one page, in each part. */
export const examinedAtOnce = 2000;
/** Events of one page at most. */
export const mostAtOnce = 1000;
/** Characters of JSON after which a page is full. */
const pageCharacters = 2_097_152;

/** A row of mail_events. */
export type EventRow = Readonly<Record<string, unknown>>;

/** The order of a page's ids. */
export type PageOrder = 'newest' | 'oldest';

/** A part of a page that was read. */
export interface PagePart {
  readonly events: EncodedPage['events'];
  /** All rows up to this id were examined. */
  readonly until: number;
}

/** Gathers the events of one part, row by row. */
export class PartReader {
  readonly #most: number;
  readonly #fits: (row: EventRow) => boolean;
  readonly #events: { readonly id: number; readonly json: string }[] = [];
  #examined = 0;
  #characters = 0;
  #last = 0;

  /**
   * @param most events at most
   * @param fits whether a row's event is wanted; asked only about kinds that this program knows
   */
  constructor(most: number, fits: (row: EventRow) => boolean) {
    this.#most = most;
    this.#fits = fits;
  }

  /** The id of the row that was examined last. */
  get last(): number {
    return this.#last;
  }

  /** The part has enough, or has cost enough. */
  get isFull(): boolean {
    const { length } = this.#events;
    return length >= this.#most || this.#examined >= examinedAtOnce || this.#characters >= pageCharacters;
  }

  /** Examines rows with id, kind and event until it is full. */
  lookAt(rows: readonly EventRow[]): void {
    for (const row of rows) {
      if (this.isFull) return;
      this.#look(row);
    }
  }

  #look(row: EventRow): void {
    this.#examined += 1;
    this.#last = Number(row['id']);
    // A newer release may have written kinds that this one does not know; they are skipped.
    if (!isEventKind(String(row['kind'])) || !this.#fits(row)) return;
    const found = { id: this.#last, json: String(row['event']) };
    this.#events.push(found);
    this.#characters += found.json.length;
  }

  /** The part as it was read. @param end the id up to which all rows were examined where the part is not full */
  part(end: number): PagePart {
    return { events: this.#events, until: this.isFull ? this.#last : end };
  }
}

/**
 * Joins the parts of a page. They have been examined to different ids; what is behind the nearest of them is left to the next
 * page.
 * @param query.end the id up to which everything was examined where no part is full
 * @returns the events, and the id up to which everything was examined
 */
export function joinParts(
  parts: readonly PagePart[],
  query: { readonly order: PageOrder; readonly most: number; readonly end: number },
): { readonly events: EncodedPage['events']; readonly next: number } {
  const isOldest = query.order === 'oldest';
  const isBefore = (left: number, right: number): boolean => (isOldest ? left < right : left > right);
  const reached = parts.reduce((near, { until }) => (isBefore(until, near) ? until : near), query.end);
  const events = parts
    .flatMap((part) => part.events)
    .filter(({ id }) => !isBefore(reached, id))
    .toSorted((left, right) => (isOldest ? left.id - right.id : right.id - left.id))
    .slice(0, query.most);
  return { events, next: events.length === query.most ? (events.at(-1)?.id ?? reached) : reached };
}
