// Filters of a list as they stand in the query of a URL, so that what somebody sees can be sent to somebody else as a link.

/** Filters by name. A name that is absent, or whose value is empty, does not filter. */
export type Filters = Readonly<Record<string, string>>;

/** The longest value that is read, in characters. A longer one is cut, so that a link cannot fill the page. */
const longestValue = 500;

/** Reads the filters of a query. @param names those that the page knows; others are left out */
export function readFilters<Name extends string>(
  search: string,
  names: readonly Name[],
): Readonly<Partial<Record<Name, string>>> {
  const query = new URLSearchParams(search);
  const found: Partial<Record<Name, string>> = {};
  for (const name of names) {
    const value = query.get(name)?.trim().slice(0, longestValue);
    if (value !== undefined && value !== '') found[name] = value;
  }
  return found;
}

/** Writes a query with its `?` and some filters changed; undefined or empty takes one away. @returns '' where nothing is left */
export function changeFilters(search: string, changes: Readonly<Record<string, string | undefined>>): string {
  const query = new URLSearchParams(search);
  for (const [name, value] of Object.entries(changes)) {
    const text = value?.trim().slice(0, longestValue) ?? '';
    if (text === '') query.delete(name);
    else query.set(name, text);
  }
  const text = query.toString();
  return text === '' ? '' : `?${text}`;
}

/** How long ago the choices of a list reach back: their word in the URL, what is shown, and minutes. */
export const spans = {
  '1h': { label: 'Last hour', minutes: 60 },
  '6h': { label: 'Last 6 hours', minutes: 360 },
  '24h': { label: 'Last 24 hours', minutes: 1440 },
  '7d': { label: 'Last 7 days', minutes: 10_080 },
  '30d': { label: 'Last 30 days', minutes: 43_200 },
} as const;

/** The same as a choice of one. */
export const spanChoices = Object.entries(spans).map(([value, { label }]) => ({ value, label }));

function isSpan(word: string): word is keyof typeof spans {
  return Object.hasOwn(spans, word);
}

/** The time, in RFC 3339, from which a list begins. @param word one of `spans`, or a time; undefined for any other */
export function sinceOf(word: string | undefined, now: number): string | undefined {
  if (word === undefined) return undefined;
  if (isSpan(word)) return new Date(now - spans[word].minutes * 60_000).toISOString();
  const time = Date.parse(word);
  return Number.isNaN(time) ? undefined : new Date(time).toISOString();
}

/** Names of the filters that the page of messages has in its URL. */
export const journalFilters = [
  ...(['q', 'outcome', 'span', 'credential', 'client', 'code', 'field', 'shadow', 'until'] as const),
] as const;

/** Writes the query. @param now milliseconds since 1970, from which a span is counted */
export function journalQuery({ q: search, span, until, ...same }: Filters, now: number, perPage: number): string {
  // Whole minutes, so that the list is not another one each second.
  const since = sinceOf(span, Math.floor(now / 60_000) * 60_000);
  return changeFilters('', { per_page: String(perPage), search, ...same, since, until: sinceOf(until, now) });
}
