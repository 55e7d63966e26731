// Where the reader is, who is signed in, whose mail is shown. Links change the URL alone; back and forward work.

import { batch, computed, signal } from '@preact/signals';
import type { ToldSession } from '../../session-routes.ts';
import { changeFilters } from '../text/filters.ts';
import { basePath, type RouteParameters, writePath } from '../text/route-path.ts';
import { ask, isSignedOut } from './api.ts';

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

function noteScrolled(): void {
  keepLatest(scrolled, place.value.entry, lastScrollY, mostScrolled);
}

/** Puts an entry behind the others of a map, and takes the oldest ones out beyond `most`. */
export function keepLatest<Key, Value>(map: Map<Key, Value>, key: Key, value: Value, most: number): void {
  map.delete(key);
  map.set(key, value);
  for (const oldest of map.keys()) {
    if (map.size <= most) break;
    map.delete(oldest);
  }
}

/** By the last scroll event. When the browser tells of another entry of its history, it may have scrolled already. */
let lastScrollY = 0;

function first(): PageLocation {
  const shown = current();
  return { ...shown, scrolled: leftAt(shown.entry) };
}

/** Where the reader is now. Whoever reads it while drawing is drawn again when it changes. */
export const place = signal<PageLocation>(first());

/** Parameters of the query that go along to every page: whose mail is looked at. */
const lasting = ['account'] as const;

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
export function setFilters(changes: Readonly<Record<string, string | undefined>>): void {
  goTo(place.value.path + changeFilters(place.value.search, changes));
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

/** The session; undefined before it is known, null where nobody is signed in. */
export const session = signal<ToldSession | null | undefined>(undefined);

/** Whether the session may see every account. */
export const isAdmin = computed(() => session.value?.scopes.includes('admin') ?? false);

/** Whether the session may change anything. */
export const mayEdit = computed(() => isAdmin.value || (session.value?.scopes.includes('console:edit') ?? false));

/** The name of the account that is looked at; `*` for all of them, which only `admin` may. */
export const account = computed(() => {
  const wanted = new URLSearchParams(place.value.search).get('account');
  const own = session.value?.account.name ?? '';
  if (wanted === null || wanted === '' || !isAdmin.value) return own;
  return wanted;
});

/** Whether all accounts are looked at together. */
export const isEveryAccount = computed(() => account.value === '*');

/** The path of an endpoint of the account that is looked at, or of all. @param rest such as `/email/sending/journal` */
export function accountPath(rest: string): string {
  if (isEveryAccount.value) return `/client/v4${rest}`;
  return accountOnlyPath(rest);
}

/** The path of an endpoint of a named account. */
export function pathOfAccount(name: string, rest: string): string {
  return `/client/v4/accounts/${encodeURIComponent(name)}${rest}`;
}

/** The same for endpoints that one account alone has: with all accounts, those of the session's own. */
export function accountOnlyPath(rest: string): string {
  const name = isEveryAccount.value ? (session.value?.account.name ?? '') : account.value;
  return pathOfAccount(name, rest);
}

/** Finds out who is signed in. @throws Problem where the gateway does not answer */
export async function loadSession(): Promise<void> {
  const { result } = await ask<ToldSession | null>('/console/session');
  batch(() => {
    session.value = result;
    isSignedOut.value = false;
  });
}

/** Signs in with a token. @throws Problem where the token is wrong or may not be used here */
export async function signIn(token: string): Promise<void> {
  await ask('/console/session', { method: 'POST', body: { token } });
  await loadSession();
}

/** Signs out: the session ends on the gateway too. */
export async function signOut(): Promise<void> {
  await ask('/console/session', { method: 'DELETE' });
  session.value = null;
}
