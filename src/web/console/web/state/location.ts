// Where the reader is: the URL of the page. Links within the console change it without loading anything anew; back and forward
// work as they do everywhere.

import { signal } from '@preact/signals';
import { changeFilters } from '../text/filters.ts';
import { basePath, type RouteParameters, writePath } from '../text/route-path.ts';

/** The parts of the URL that the console reads. */
interface PageLocation {
  readonly path: string;
  readonly search: string;
  /** Stands for this entry of the browser's history: back and forward lead to it again. */
  readonly entry: string;
  /** How far down the page was when the reader left it, in CSS pixels; undefined: it is not come back to. */
  readonly scrolled?: number | undefined;
}

/** What a page is drawn with. */
export interface PageProps {
  /** What stands in the places of its pattern's names. */
  readonly parameters: RouteParameters;
}

/** How far down each page of the history was; of the latest ones. */
const scrolled = new Map<string, number>();
const mostScrolled = 100;

/** The name of the entry of the history that is shown; one that has none yet is given one. */
function nameEntry(): string {
  const state: unknown = history.state;
  if (typeof state === 'string') return state;
  const name = crypto.getRandomValues(new Uint32Array(2)).join('-');
  history.replaceState(name, '');
  return name;
}

/** Where the storage of the tab says how far down the page was that the reader left by loading it anew or going elsewhere. */
const leftKey = 'postern-left';

/** Notes for this tab how far down the page is, as an entry of the history and CSS pixels. */
function noteLeft(): void {
  try {
    sessionStorage.setItem(leftKey, `${place.value.entry} ${Math.round(scrollY)}`);
  } catch {
    // A browser that keeps nothing for this site shows the page from its beginning.
  }
}

/** How far down the entry was when the reader left the console for it to be loaded anew; undefined: it was not. */
function leftAt(entry: string): number | undefined {
  try {
    const [noted, y] = sessionStorage.getItem(leftKey)?.split(' ') ?? [];
    return noted === entry ? Number(y) : undefined;
  } catch {
    return undefined;
  }
}

function current(): PageLocation {
  return { path: location.pathname, search: location.search, entry: nameEntry() };
}

/** Notes how far down the page is that the reader leaves. */
function noteScrolled(): void {
  const { entry } = place.value;
  scrolled.delete(entry);
  scrolled.set(entry, lastScrollY);
  for (const oldest of scrolled.keys()) {
    if (scrolled.size <= mostScrolled) break;
    scrolled.delete(oldest);
  }
}

/** By the last scroll event. When the browser tells of another entry of its history, it may have scrolled already. */
let lastScrollY = 0;

/** Where the reader begins: where this entry of the history was left, if it was. */
function first(): PageLocation {
  const shown = current();
  return { ...shown, scrolled: leftAt(shown.entry) };
}

/** Where the reader is now. Whoever reads it while drawing is drawn again when it changes. */
export const place = signal<PageLocation>(first());

/** Parameters of the query that go along to every page: whose mail is looked at. */
const lasting = ['account'] as const;

/** The query of a link to another page: what goes along, and filters of that page. */
function searchFor(filters: Readonly<Record<string, string | undefined>>): string {
  const query = new URLSearchParams(place.value.search);
  const kept = Object.fromEntries(lasting.map((name) => [name, query.get(name) ?? undefined]));
  return changeFilters('', { ...kept, ...filters });
}

/** Writes the URL of a page. @param pattern of the page, such as `/messages/:id` @param filters its query */
export function linkTo(
  pattern: string,
  parameters: RouteParameters = {},
  filters: Readonly<Record<string, string | undefined>> = {},
): string {
  return writePath(pattern, parameters) + searchFor(filters);
}

/** Goes to a URL of the console. @param how `replace` leaves no entry in the history */
export function goTo(url: string, how: 'push' | 'replace' = 'push'): void {
  const target = new URL(url, location.href);
  if (target.href === location.href) return;
  if (how === 'push') {
    noteScrolled();
    history.pushState(null, '', target);
  } else history.replaceState(history.state, '', target);
  place.value = current();
}

/** Changes filters in the query of the page that is shown. */
export function setFilters(
  changes: Readonly<Record<string, string | undefined>>,
  how: 'push' | 'replace' = 'push',
): void {
  goTo(place.value.path + changeFilters(place.value.search, changes), how);
}

/** A click that asks for nothing special: no new tab, no download, no other button. */
function isPlainClick(event: MouseEvent): boolean {
  const { button, ctrlKey, metaKey, shiftKey, altKey, defaultPrevented } = event;
  return button === 0 && !ctrlKey && !metaKey && !shiftKey && !altKey && !defaultPrevented;
}

/** Leads a short link, as replies of refusals have it (`/m/ID`), to the page of the message. */
function followShortLink(): void {
  const id = /^\/m\/([^/]+)$/.exec(location.pathname)?.[1];
  if (id !== undefined) goTo(`${basePath}/messages/${id}${location.search}`, 'replace');
}

/** Follows links of the console and the buttons of the browser, from now on. */
export function followLocation(): void {
  followShortLink();
  // The page scrolls by itself, once the list that it shows is as long as it was.
  history.scrollRestoration = 'manual';
  addEventListener('scroll', () => (lastScrollY = scrollY), { passive: true });
  addEventListener('pagehide', noteLeft);
  addEventListener('popstate', () => {
    noteScrolled();
    const shown = current();
    place.value = { ...shown, scrolled: scrolled.get(shown.entry) };
  });
  document.addEventListener('click', (event) => {
    const link = event.target instanceof Element ? event.target.closest('a') : null;
    if (!link || !isPlainClick(event) || link.target !== '' || link.hasAttribute('download')) return;
    const isOfConsole = link.pathname === basePath || link.pathname.startsWith(`${basePath}/`);
    if (link.origin !== location.origin || !isOfConsole) return;
    // A link to a place within the page, such as the skip link, is the browser's own.
    if (link.pathname === location.pathname && link.search === location.search && link.hash !== '') return;
    event.preventDefault();
    goTo(link.href);
  });
}
