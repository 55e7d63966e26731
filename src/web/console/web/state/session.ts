// Who is signed in, and whose mail is looked at.

import { batch, computed, signal } from '@preact/signals';
import type { ToldSession } from '../../session-routes.ts';
import { ask, isSignedOut } from './api.ts';
import { place } from './location.ts';

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

/**
 * The path of an endpoint of the account that is looked at.
 * @param rest such as `/email/sending/journal?per_page=50`; with all accounts, the same without an account
 */
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
