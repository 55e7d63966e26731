// Finds who calls, by bearer token (RFC 6750), global key or session, and judges scope and account (D85, D92, D93).

import type { FastifyRequest } from 'fastify';
import { hasScope, type Scope, type Submitter } from '../../accounts/account.ts';
import type { Accounts } from '../../accounts/accounts.ts';
import type { Guessing, Penalty } from '../../accounts/guessing.ts';
import type { Logger } from '../../base/log.ts';
import { type Fault, Refusal, refusal } from './envelope.ts';

const bearer = /^Bearer +([A-Za-z0-9._~+/-]{1,512}=*)$/i;

/** Finds who calls by what a browser sends with every request. */
export interface BrowserSessions {
  /** The submitter of the session that is shown, if any. @throws Refusal 401 where it has ended, 403 from another site */
  find(request: FastifyRequest): Promise<Submitter | undefined>;
}

/** What authorization needs. */
export interface AuthorizationParts {
  readonly accounts: Pick<Accounts, 'authenticate' | 'authenticateGlobalKey' | 'find'>;
  readonly guessing: Guessing;
  /** Id of the account that a zone belongs to (32 hex, lower case); absent: there are no zones. */
  readonly accountOfZone?: ((zone: string) => string | undefined) | undefined;
  /** The sessions of the console; absent: there are none, and only tokens and keys let in. */
  readonly sessions?: BrowserSessions | undefined;
  /** Called with every failed login, before its answer is delayed. */
  readonly onFailure: (request: FastifyRequest, penalty: Penalty) => void;
}

/** What is wrong with a token that lets nobody in. */
export const unknownToken = 'The token is unknown, expired or revoked';

/** What tells log and metrics of wrong logins. @param pathOf a path as the log may show it */
export function failureTeller(
  { log, onAuthFailure }: { readonly log: Logger; readonly onAuthFailure: () => void },
  pathOf: (request: FastifyRequest) => string,
): AuthorizationParts['onFailure'] {
  return (request, penalty) => {
    onAuthFailure();
    // A flood of guesses is only counted, not logged one by one.
    if (penalty.kind === 'turnedAway') return;
    log.warn({ session: request.id, client: request.ip, path: pathOf(request) }, 'authentication failed');
  };
}

/** Who a request says that it comes from. */
interface Login {
  /** Absent where nobody is known by what was shown. */
  readonly submitter: Submitter | undefined;
  /** Whether the caller showed a global key, which opens no other account than its own (D85). */
  readonly isGlobalKey: boolean;
  readonly fault: string;
}

/** Finds who calls, by hashes alone. @param pause waits before a token or a key is looked up @throws Refusal 401 where none is shown */
async function findLogin(
  request: FastifyRequest,
  { accounts, sessions }: AuthorizationParts,
  pause: () => Promise<void> | undefined = () => undefined,
): Promise<Login> {
  const { authorization, 'x-auth-email': email, 'x-auth-key': key } = request.headers;
  // A token or a key counts alone, whatever cookies a browser adds.
  const open = authorization === undefined && key === undefined ? await sessions?.find(request) : undefined;
  if (open) return { submitter: open, isGlobalKey: false, fault: '' };
  if (authorization === undefined && typeof email === 'string' && typeof key === 'string') {
    await pause();
    const fault = 'X-Auth-Email and X-Auth-Key are of no account';
    return { submitter: accounts.authenticateGlobalKey(email, key), isGlobalKey: true, fault };
  }
  if (authorization === undefined) throw refusal('E_UNAUTHORIZED', 'Authorization: Bearer TOKEN is missing');
  await pause();
  const token = bearer.exec(authorization)?.[1];
  if (token === undefined)
    return { submitter: undefined, isGlobalKey: false, fault: 'Authorization must be Bearer TOKEN' };
  return { submitter: await accounts.authenticate(token), isGlobalKey: false, fault: unknownToken };
}

/** Counts a wrong login, and waits as long as its answer has to (D92). @returns 401, or 429 where too many wait already */
export async function refuseLogin(
  request: FastifyRequest,
  fault: string,
  parts: Pick<AuthorizationParts, 'guessing' | 'onFailure'>,
): Promise<Refusal> {
  const penalty = await parts.guessing.failed(request.ip);
  parts.onFailure(request, penalty);
  if (penalty.kind === 'turnedAway') {
    const { retryAfterSeconds } = penalty;
    const message = `${fault}, and too many wrong ones came from this address; try again in ${retryAfterSeconds} s`;
    return refusal('E_RATE_LIMIT_EXCEEDED', message, retryAfterSeconds);
  }
  await penalty.over;
  return refusal('E_UNAUTHORIZED', fault);
}

const unknownAccount: Fault = { token: 'E_NOT_FOUND', message: 'There is no such account, or it is another one’s' };

const unknownZone: Fault = { token: 'E_NOT_FOUND', message: 'There is no such zone, or it is another account’s' };

function isZonePath({ params }: FastifyRequest): boolean {
  return typeof params === 'object' && params !== null && 'zone_id' in params;
}

function pathAccount(request: FastifyRequest, parts: AuthorizationParts): string | undefined {
  const { params } = request;
  if (typeof params !== 'object' || params === null) return undefined;
  if ('account_id' in params) return String(params.account_id);
  if (!('zone_id' in params)) return undefined;
  const account = parts.accountOfZone?.(String(params.zone_id).toLowerCase());
  if (account === undefined) throw new Refusal([unknownZone]);
  return account;
}

/** Finds who calls, of the path's account or zone (D85); a wrong login may wait, a valid one passes (D92). @throws Refusal 401, 403, 404, 429 */
export async function authorize(
  request: FastifyRequest,
  scope: Scope | readonly Scope[],
  parts: AuthorizationParts,
): Promise<Submitter> {
  const { submitter, isGlobalKey, fault } = await findLogin(request, parts, () => parts.guessing.pause(request.ip));
  if (!submitter) throw await refuseLogin(request, fault, parts);
  return permitted({ submitter, isGlobalKey }, request, { scope, parts });
}

/** What would keep a request out now that was let in before, if anything. Counts no wrong login; rejects where the database cannot be asked. */
export async function refusalNow(
  request: FastifyRequest,
  scope: Scope | readonly Scope[],
  parts: AuthorizationParts,
): Promise<Refusal | undefined> {
  try {
    const { submitter, isGlobalKey, fault } = await findLogin(request, parts);
    if (!submitter) return refusal('E_UNAUTHORIZED', fault);
    permitted({ submitter, isGlobalKey }, request, { scope, parts });
    return undefined;
  } catch (thrown) {
    if (thrown instanceof Refusal) return thrown;
    throw thrown;
  }
}

/** The submitter that a request acts for, by who calls. @throws Refusal 403, 404 */
function permitted(
  { submitter, isGlobalKey }: Pick<Login, 'isGlobalKey'> & { readonly submitter: Submitter },
  request: FastifyRequest,
  { scope, parts }: { readonly scope: Scope | readonly Scope[]; readonly parts: AuthorizationParts },
): Submitter {
  const { account, credential } = submitter;
  const wanted = [scope].flat();
  if (!wanted.some((each) => hasScope(credential, each)))
    throw refusal('E_FORBIDDEN', `The token lacks the scope ${wanted.join(' or ')}`);
  const named = pathAccount(request, parts);
  if (named === undefined || named === account.id || named === account.name) return submitter;
  const other = parts.accounts.find(named);
  if (other?.id === account.id) return submitter;
  if (!other || isGlobalKey || !credential.scopes.has('admin'))
    throw new Refusal([isZonePath(request) ? unknownZone : unknownAccount]);
  return { account: other, credential };
}
