// Who is signed in: finds the submitter of a request's session, opens and ends sessions. A session holds no longer than what it was
// opened by: each request looks its token up again, so that one that is revoked or expires ends its sessions at once.

import type { FastifyRequest } from 'fastify';
import { hasScope, type Submitter } from '../../accounts/account.ts';
import type { Accounts } from '../../accounts/accounts.ts';
import type { Clock } from '../../base/clock.ts';
import type { BrowserSessions } from '../http/authorization.ts';
import { refusal } from '../http/envelope.ts';
import { refuseForeign } from './own-origin.ts';
import { shownSecret } from './session-cookie.ts';
import type { SessionStore, StoredSession } from './session-store.ts';

/** How long a session holds. */
export const sessionMs = 12 * 3_600_000;

/** What sessions are judged by. */
export interface SessionParts {
  readonly store: SessionStore;
  readonly accounts: Pick<Accounts, 'authenticateHash' | 'submitter'>;
  /** The credential that links sign in, by the id of its account; absent: sessions that a link opened do not count. */
  readonly linked?: { readonly account: string; readonly credential: string };
  /** The origin by which people reach the console. */
  readonly publicUrl?: string;
  /** Whether the console is served now: a stream outlives the configuration that it was opened under. */
  readonly isServed: () => boolean;
  readonly clock: Clock;
}

/** A session with whom it stands for. */
export interface OpenSession {
  readonly submitter: Submitter;
  /** Milliseconds since 1970. */
  readonly expiresAt: number;
}

function mayUseConsole({ credential }: Submitter): boolean {
  return hasScope(credential, 'console:read');
}

/** @throws Refusal 403 where a credential may not use the console */
export function refuseUse(submitter: Submitter): void {
  if (mayUseConsole(submitter)) return;
  throw refusal('E_FORBIDDEN', 'The token has none of the scopes console:read, console:edit and admin');
}

async function submitterOf(session: StoredSession, { accounts, linked }: SessionParts): Promise<Submitter | undefined> {
  const { account, credential, token } = session;
  if (token !== undefined) return await accounts.authenticateHash(token);
  if (linked?.account !== account || linked.credential !== credential) return undefined;
  return accounts.submitter(account, credential);
}

/** The sessions of requests. */
export class Sessions implements BrowserSessions {
  readonly #parts: SessionParts;

  constructor(parts: SessionParts) {
    this.#parts = parts;
  }

  /** The session that a request shows, as it is now; undefined where it shows none that counts. */
  async look(request: FastifyRequest): Promise<OpenSession | undefined> {
    const secret = shownSecret(request);
    const { store, clock, isServed } = this.#parts;
    if (secret === undefined || secret === '' || !isServed()) return undefined;
    const session = await store.find(secret, clock.now());
    const submitter = session && (await submitterOf(session, this.#parts));
    return submitter && mayUseConsole(submitter) ? { submitter, expiresAt: session.expiresAt } : undefined;
  }

  async find(request: FastifyRequest): Promise<Submitter | undefined> {
    if (shownSecret(request) === undefined) return undefined;
    this.refuseForeign(request);
    const open = await this.look(request);
    if (!open) throw refusal('E_UNAUTHORIZED', 'The session has ended; sign in again');
    return open.submitter;
  }

  /** @throws Refusal 403 where a request may come from another site */
  refuseForeign(request: FastifyRequest): void {
    refuseForeign(request, this.#parts.publicUrl);
  }

  /**
   * Opens a session and ends the one that the request shows, so that nobody goes on with a session that somebody else knows.
   * @param token the hash of the token that signs in; absent where a link does
   * @returns the secret of the new session
   */
  async open(request: FastifyRequest, submitter: Submitter, token?: string): Promise<OpenSession & { secret: string }> {
    await this.end(request);
    const { store, clock } = this.#parts;
    const now = clock.now();
    const expiresAt = now + sessionMs;
    const signIn = { account: submitter.account.id, credential: submitter.credential.name, now, expiresAt };
    const secret = await store.open({ ...signIn, token });
    return { submitter, expiresAt, secret };
  }

  /** Ends the session that a request shows. */
  async end(request: FastifyRequest): Promise<void> {
    const secret = shownSecret(request);
    if (secret !== undefined && secret !== '') await this.#parts.store.end(secret);
  }
}
