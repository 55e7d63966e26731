// The query of the journal's endpoints, from the filters of the page.

import { type Filters, sinceOf } from './filters.ts';

/** Names of the filters that the page of messages has in its URL. */
export const journalFilters = [
  ...(['q', 'outcome', 'span', 'credential', 'client', 'code', 'field', 'shadow', 'until'] as const),
] as const;

/**
 * Writes the query.
 * @param now milliseconds since 1970, from which a span is counted
 * @param perPage rows of a page
 */
export function journalQuery(filters: Filters, now: number, perPage: number): string {
  const query = new URLSearchParams();
  query.set('per_page', String(perPage));
  if (filters['q'] !== undefined) query.set('search', filters['q']);
  for (const name of ['outcome', 'credential', 'client', 'code', 'field', 'shadow'] as const) {
    const value = filters[name];
    if (value !== undefined) query.set(name, value);
  }
  // Whole minutes, so that the list is not another one each second.
  const since = sinceOf(filters['span'], Math.floor(now / 60_000) * 60_000);
  if (since !== undefined) query.set('since', since);
  const until = sinceOf(filters['until'], now);
  if (until !== undefined) query.set('until', until);
  return `?${query.toString()}`;
}
