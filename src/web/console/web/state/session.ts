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

/** The name of the entry of the history that is shown; one that has none yet is given one. */
function nameEntry(): string {
  const state: unknown = history.state;
  if (typeof state === 'string') return state;
  const name = crypto.getRandomValues(new Uint32Array(2)).join('-');
  history.replaceState(name, '');
  return name;
}

/** What the storage of the tab calls an entry, with how far down it was. */
function keyOf(entry: string): string {
  return `postern-left ${entry}`;
}

/** Notes how far down the page is, for whoever comes back to it by the browser's buttons or by loading it anew. */
function noteLeft(): void {
  try {
    sessionStorage.setItem(keyOf(place.value.entry), String(lastScrollY));
  } catch {
    // A browser that keeps nothing for this site shows the page from its beginning.
  }
}

/** The page of the URL, and how far down it was when the reader left it. */
function comeBack(): PageLocation {
  const entry = nameEntry();
  let left: string | null = null;
  try {
    left = sessionStorage.getItem(keyOf(entry));
  } catch {
    // As above.
  }
  return {
    path: location.pathname,
    search: location.search,
    entry,
    scrolled: left === null ? undefined : Number(left),
  };
}

/** By the last scroll event. When the browser tells of another entry of its history, it may have scrolled already. */
let lastScrollY = 0;

/** Where the reader is now. Whoever reads it while drawing is drawn again when it changes. */
export const place = signal<PageLocation>(comeBack());

/** Writes the URL of a page. @param pattern of the page, such as `/messages/:id` @param filters its query */
export function linkTo(
  pattern: string,
  parameters: RouteParameters = {},
  filters: Readonly<Record<string, string | undefined>> = {},
): string {
  // Whose mail is looked at goes along to every page.
  const account = new URLSearchParams(place.value.search).get('account') ?? undefined;
  return writePath(pattern, parameters) + changeFilters('', { account, ...filters });
}

/** Goes to a URL of the console. @param how `replace` leaves no entry in the history */
export function goTo(url: string, how: 'push' | 'replace' = 'push'): void {
  const target = new URL(url, location.href);
  if (target.href === location.href) return;
  if (how === 'push') {
    noteLeft();
    history.pushState(null, '', target);
  } else history.replaceState(history.state, '', target);
  place.value = comeBack();
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
    noteLeft();
    place.value = comeBack();
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
