// Finds, opens and ends sessions. Each request looks the session's token up again: one that is revoked ends it at once.

import type { FastifyRequest } from 'fastify';
import { hasScope, type Submitter } from '../../accounts/account.ts';
import type { Accounts } from '../../accounts/accounts.ts';
import type { Clock } from '../../base/clock.ts';
import type { BrowserSessions } from '../http/authorization.ts';
import { refusal } from '../http/envelope.ts';
import type { SessionStore, StoredSession } from './session-store.ts';

// Cookies go along from other sites, and SameSite takes hosts of one domain for one: what the browser says of the page is judged.

/** The header field that the pages send with every change. Other sites cannot send it without being asked first (CORS). */
const consoleHeader = 'x-postern-console';

const reading: ReadonlySet<string> = new Set(['GET', 'HEAD']);

/** Judges where a request comes from. @returns why it is refused */
function originFault({ headers, protocol, host }: FastifyRequest, publicUrl: string | undefined): string | undefined {
  const { origin } = headers;
  if (origin === undefined) {
    return headers['sec-fetch-site'] === 'same-origin'
      ? undefined
      : 'A change needs an Origin, which this request lacks';
  }
  if (origin === publicUrl || origin === `${protocol}://${host}`) return undefined;
  const told = JSON.stringify(origin.slice(0, 200));
  return `Origin ${told} is not the console's own; set console.publicUrl if people reach it there`;
}

// RFC 6265, rfc6265bis: no script reads the cookie, no other site sends it, and over HTTPS no host beside sets one.

/** Over plain HTTP. */
const plainName = 'postern_session';
/** Over HTTPS: a browser takes a cookie of this name only from this very host, over HTTPS (the prefix `__Host-`). */
const secureName = '__Host-postern_session';

const secretForm = /^[\w-]{43}$/;

function valuesOf(header: string, name: string): string[] {
  return header
    .split(';')
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(`${name}=`))
    .map((pair) => pair.slice(name.length + 1));
}

/** The secret that a request shows; '' where it cannot be one, or several are shown: somebody else may have set one. */
function shownSecret({ headers, protocol }: Pick<FastifyRequest, 'headers' | 'protocol'>): string | undefined {
  const { cookie } = headers;
  if (cookie === undefined) return undefined;
  const secure = valuesOf(cookie, secureName);
  // Over HTTPS the plain name is not read: any host of the same domain could have set it.
  const found = secure.length > 0 || protocol === 'https' ? secure : valuesOf(cookie, plainName);
  const [secret] = found;
  if (secret === undefined) return undefined;
  return found.length === 1 && secretForm.test(secret) ? secret : '';
}

/** Writes the cookie of a new session. @param maxAgeSeconds after how long the browser forgets it */
export function sessionCookie(secret: string, isSecure: boolean, maxAgeSeconds: number): string {
  const traits = `Path=/; Max-Age=${maxAgeSeconds}; HttpOnly; SameSite=Strict`;
  return isSecure ? `${secureName}=${secret}; ${traits}; Secure` : `${plainName}=${secret}; ${traits}`;
}

/** Writes the cookies that make the browser forget a session. */
export function forgottenCookies(): string[] {
  return [sessionCookie('', false, 0), sessionCookie('', true, 0)];
}

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

  /** Judges a request that shows a session, or asks for one. @throws Refusal 403 where it may come from another site */
  refuseForeign(request: FastifyRequest): void {
    const { headers, method } = request;
    const site = headers['sec-fetch-site'];
    // `none` is a person who typed an address; a browser sends it only where no page was involved.
    if (site !== undefined && site !== 'same-origin' && !(site === 'none' && reading.has(method))) {
      throw refusal('E_FORBIDDEN', 'A page of another origin sent this request');
    }
    if (reading.has(method)) return;
    if (headers[consoleHeader] !== '1')
      throw refusal('E_FORBIDDEN', 'A change by a session needs the header X-Postern-Console: 1');
    const fault = originFault(request, this.#parts.publicUrl);
    if (fault !== undefined) throw refusal('E_FORBIDDEN', fault);
  }

  /** Opens a session and ends the one that is shown, which somebody else may know. @param token its hash; absent: a link signs in */
  async open(request: FastifyRequest, submitter: Submitter, token?: string): Promise<OpenSession & { secret: string }> {
    await this.end(request);
    const { store, clock } = this.#parts;
    const now = clock.now();
    const expiresAt = now + sessionMs;
    const signIn = { account: submitter.account.id, credential: submitter.credential.name, now, expiresAt };
    const secret = await store.open({ ...signIn, token });
    return { submitter, expiresAt, secret };
  }

  async end(request: FastifyRequest): Promise<void> {
    const secret = shownSecret(request);
    if (secret !== undefined && secret !== '') await this.#parts.store.end(secret);
  }
}
