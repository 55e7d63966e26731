// Query parameters that the endpoints of events and messages share: pages, order, times (D52).

import type { Fault } from '../../http/envelope.ts';
import { numberCursor, perPage, readTime, timeParameter } from '../schemas.ts';

const defaultPage = 100;

/** The parameters. */
export const pageParameters = {
  cursor: numberCursor,
  per_page: perPage(1000, defaultPage),
  since: timeParameter('Only from this time on (RFC 3339)'),
  until: timeParameter('Only before this time (RFC 3339)'),
};

/** What the parameters say. */
export interface WantedPage {
  readonly cursor?: number;
  readonly limit: number;
  readonly since?: number;
  readonly until?: number;
}

/** Reads the parameters. @returns what is wrong with the times where they are none */
export function readPage(query: {
  readonly cursor?: string;
  readonly per_page?: string;
  readonly since?: string;
  readonly until?: string;
}): WantedPage | readonly Fault[] {
  const since = query.since === undefined ? undefined : readTime(query.since, 'since');
  const until = query.until === undefined ? undefined : readTime(query.until, 'until');
  const faults = [since, until].filter((read) => typeof read === 'object');
  // Only faults of a body carry pointers.
  if (faults.length > 0) return faults.map(({ message }) => ({ token: 'E_VALIDATION_ERROR', message }));
  return {
    limit: Number(query.per_page ?? defaultPage),
    ...(query.cursor === undefined ? {} : { cursor: Number(query.cursor) }),
    ...(typeof since === 'number' ? { since } : {}),
    ...(typeof until === 'number' ? { until } : {}),
  };
}

/** Splits `a,b` into words. @returns what is wrong with the first that is not among those known */
export function readWords<T extends string>(
  text: string | undefined,
  isKnown: (word: string) => word is T,
  about: { readonly name: string; readonly known: readonly string[] },
): readonly T[] | undefined | Fault {
  if (text === undefined) return undefined;
  const words = text.split(',').map((word) => word.trim());
  const unknown = words.find((word) => !isKnown(word));
  if (unknown === undefined) return words.filter(isKnown);
  const message = `${about.name} must be some of ${about.known.join(', ')}, got ${JSON.stringify(unknown.slice(0, 60))}`;
  return { token: 'E_VALIDATION_ERROR', message };
}
