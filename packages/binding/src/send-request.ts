// Sends one request to the REST API: its attempts, the server's answer, and when another attempt is of use (D44, D48).

import type { SendOptions, ServerAccess } from './check-options.ts';
import { EmailError, errorOfAnswer, membersOf } from './email-error.ts';

const maxAttempts = 4;
const firstBackoffMs = 500;
/** Seconds. Where the server asks for a longer wait, its answer is reported at once. */
const longestWaitSeconds = 30;

/** A message that was accepted. */
export interface SendResult {
  /** Message-ID without angle brackets. */
  readonly messageId: string;
  /** Recipients that the next hop has taken. This and the two members below are there only with `wait`. */
  readonly delivered?: readonly string[];
  /** Recipients whose delivery goes on. */
  readonly queued?: readonly string[];
  /** Recipients that were refused for good. */
  readonly permanentBounces?: readonly string[];
}

/** A request that is ready for any number of attempts. */
export interface Request {
  /** The endpoint, below the URL of its server. */
  readonly path: string;
  readonly body: Uint8Array<ArrayBuffer>;
  readonly options: SendOptions;
}

function requestHeaders(token: string, { idempotencyKey, wait }: SendOptions): Record<string, string> {
  return {
    authorization: `Bearer ${token}`,
    'content-type': 'application/json',
    accept: 'application/json',
    ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
    ...(wait === undefined ? {} : { prefer: `wait=${wait}` }),
  };
}

function listOf(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : [];
}

function resultOf(answer: unknown, withOutcome: boolean): SendResult | undefined {
  const { success, result } = membersOf(answer);
  const { message_id: messageId, delivered, queued, permanent_bounces: bounces } = membersOf(result);
  if (success !== true || typeof messageId !== 'string') return undefined;
  if (!withOutcome) return { messageId };
  return { messageId, delivered: listOf(delivered), queued: listOf(queued), permanentBounces: listOf(bounces) };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // a proxy's page, which is no answer of the API
  }
}

/** Causes of causes that are looked through, and characters of what the last one says. */
const mostCauses = 5;
const mostReason = 300;

/**
 * Why there was no answer, such as `connect ECONNREFUSED 127.0.0.1:8080`: what fetch throws says only that it failed, and the reason is
 * its cause, or of several addresses the first one's. Nothing that quotes the token is told.
 */
function reasonOf(thrown: unknown, token: string): string {
  let reason = '';
  let next = thrown;
  for (let depth = 0; depth < mostCauses && next !== undefined; depth += 1) {
    const { message, code, cause, errors } = membersIn(next);
    const said = typeof message === 'string' && message !== '' ? message : code;
    if (typeof said === 'string') reason = said;
    next = cause ?? (Array.isArray(errors) ? errors[0] : undefined);
  }
  return reason.includes(token) ? '' : reason.replace(/\s+/g, ' ').slice(0, mostReason);
}

/** Members of an error, its own and those of its kind. */
function membersIn(value: unknown): { readonly [name in 'message' | 'code' | 'cause' | 'errors']?: unknown } {
  return typeof value === 'object' && value !== null ? value : {};
}

/** Makes one attempt and gives what the server answered. */
async function exchange(access: ServerAccess, { path, body, options }: Request): Promise<SendResult | EmailError> {
  const time = AbortSignal.timeout(access.timeoutMs + (options.wait ?? 0) * 1000);
  const signal = options.signal ? AbortSignal.any([options.signal, time]) : time;
  try {
    const { fetch } = access;
    const response = await fetch(`${access.url}/${path}`, {
      method: 'POST',
      headers: requestHeaders(access.token, options),
      body,
      signal,
      // The token is sent to the endpoint and nowhere else, so redirects are not followed.
      redirect: 'manual',
    });
    const answer = parseJson(await response.text());
    return (response.ok && resultOf(answer, options.wait !== undefined)) || errorOfAnswer(response, answer);
  } catch (cause) {
    options.signal?.throwIfAborted();
    if (time.aborted) {
      const message = `No answer within ${access.timeoutMs} ms`;
      return new EmailError([{ code: 'E_TIMEOUT', message }], { cause });
    }
    const why = reasonOf(cause, access.token);
    const message = `No answer from ${new URL(access.url).host}${why === '' ? '' : `: ${why}`}`;
    return new EmailError([{ code: 'E_NETWORK_ERROR', message }], { cause });
  }
}

/** Milliseconds until the next attempt, or undefined where another would be of no use or not safe. */
function backoffMs(error: EmailError, attempt: number): number | undefined {
  const { status, retryAfterSeconds } = error;
  if (status === 429 && retryAfterSeconds === undefined) return undefined;
  // 409: an attempt with this key is still being worked on (D48).
  const passing = status === undefined || status === 409 || status === 429 || status >= 500;
  if (!passing || attempt === maxAttempts || (retryAfterSeconds ?? 0) > longestWaitSeconds) return undefined;
  const exponential = firstBackoffMs * 2 ** (attempt - 1) * (0.75 + Math.random() / 2);
  return Math.max(exponential, (retryAfterSeconds ?? 0) * 1000);
}

/** Waits so many milliseconds, or until the signal ends it. */
function sleep(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, milliseconds);
    signal?.addEventListener('abort', end);
    if (signal?.aborted) end();
  });
}

/**
 * Sends one request, and repeats it where an idempotency key makes that safe.
 * @throws EmailError with the last answer; the signal's reason when that ended it
 */
export async function sendRequest(access: ServerAccess, request: Request): Promise<SendResult> {
  const { signal, idempotencyKey } = request.options;
  for (let attempt = 1; ; attempt += 1) {
    const outcome = await exchange(access, request);
    if (!(outcome instanceof EmailError)) return outcome;
    const waitMs = idempotencyKey === undefined ? undefined : backoffMs(outcome, attempt);
    if (waitMs === undefined) throw outcome;
    await sleep(waitMs, signal);
    signal?.throwIfAborted();
  }
}
