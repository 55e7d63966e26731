// The package's public client: sends messages through Postern's REST door with the interface of a runtime binding (D49).
// Needs nothing but Node: global fetch, and Buffer for base64.

import { setTimeout as sleep } from 'node:timers/promises';
import { EmailError, errorOfAnswer, membersOf } from './binding/email-error.ts';
import { type EmailMessage, writeMessage } from './binding/email-message.ts';

export { EmailError, type EmailViolation } from './binding/email-error.ts';
export type {
  EmailAddress,
  EmailAddresses,
  EmailAttachment,
  EmailHeaders,
  EmailMessage,
} from './binding/email-message.ts';

/** Where and as whom to send. */
export interface EmailBindingOptions {
  /** Where Postern answers: scheme, host, port, and a path prefix if a proxy adds one. */
  readonly endpoint: string | URL;
  /** An API token with the scope `email:send`. */
  readonly token: string;
  /** The account's id or name. */
  readonly account: string;
  /** Used instead of the global fetch. */
  readonly fetch?: typeof globalThis.fetch | undefined;
  /** How long one attempt may take, milliseconds, `wait` not counted; 30,000 if absent. */
  readonly timeoutMs?: number | undefined;
}

/** How one message is sent. */
export interface SendOptions {
  /**
   * A text of yours that names this message: the same key and message within 24 hours is sent once (D48). With it, and
   * only with it, an attempt is repeated: up to 4 in all.
   */
  readonly idempotencyKey?: string | undefined;
  /** Ends the sending: `send` rejects with the signal's reason. What was accepted by then stays accepted. */
  readonly signal?: AbortSignal | undefined;
  /** Seconds, up to 30, to wait for the delivery; the result tells what is known by then (D44). */
  readonly wait?: number | undefined;
}

/** A message that was accepted. */
export interface SendResult {
  /** Message-ID without angle brackets. */
  readonly messageId: string;
  /** Recipients that the next hop has taken; with `wait` only, as the two below. */
  readonly delivered?: readonly string[];
  /** Recipients whose delivery goes on. */
  readonly queued?: readonly string[];
  /** Recipients that were refused for good. */
  readonly permanentBounces?: readonly string[];
}

/** Sends messages. */
export interface EmailBinding {
  /**
   * Sends one message; resolves when it is safe on the server's disk.
   * @throws EmailError with `.code` and `.violations`; the signal's reason when that ended it
   */
  send(message: EmailMessage, options?: SendOptions): Promise<SendResult>;
}

const maxAttempts = 4;
const firstBackoffMs = 500;
/** A server that asks for more patience gets its answer told instead. */
const longestWaitSeconds = 30;
const defaultTimeoutMs = 30_000;
/** A timer that is longer fires at once. */
const longestTimeoutMs = 2_000_000_000;

interface Route {
  readonly url: string;
  readonly token: string;
  readonly fetch: typeof globalThis.fetch;
  readonly timeoutMs: number;
}

/** What is to be sent, ready for any number of attempts. */
interface Request {
  readonly body: Uint8Array<ArrayBuffer>;
  readonly options: SendOptions;
}

function sendUrl(endpoint: string | URL, account: string): string {
  const url = URL.parse(String(endpoint));
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') {
    throw new TypeError('endpoint must be a URL that begins with http:// or https://');
  }
  // fetch refuses these and quotes the whole URL in its error: a password would be in a log.
  if (url.username !== '' || url.password !== '') throw new TypeError('endpoint must not hold a user or a password');
  if (!/^[A-Za-z0-9][A-Za-z0-9-]*$/.test(account)) throw new TypeError('account must be an account’s id or name');
  const prefix = url.pathname.replace(/\/+$/, '');
  return `${url.origin}${prefix}/client/v4/accounts/${account}/email/sending/send`;
}

function routeOf(options: EmailBindingOptions): Route {
  const { endpoint, token, account, timeoutMs = defaultTimeoutMs } = options;
  // fetch quotes a header value that it refuses: the token is never quoted.
  if (!/^[\x21-\x7e]+$/.test(token)) throw new TypeError('token must be printable ASCII without blanks');
  if (!Number.isInteger(timeoutMs) || timeoutMs < 1 || timeoutMs > longestTimeoutMs) {
    throw new TypeError(`timeoutMs must be a whole number from 1 to ${longestTimeoutMs}`);
  }
  return { url: sendUrl(endpoint, account), token, fetch: options.fetch ?? globalThis.fetch, timeoutMs };
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

/** One attempt: what the server answered. */
async function exchange(route: Route, { body, options }: Request): Promise<SendResult | EmailError> {
  const time = AbortSignal.timeout(route.timeoutMs + (options.wait ?? 0) * 1000);
  const signal = options.signal ? AbortSignal.any([options.signal, time]) : time;
  try {
    const { fetch } = route;
    const response = await fetch(route.url, {
      method: 'POST',
      headers: requestHeaders(route.token, options),
      body,
      signal,
      // The token goes to the endpoint and nowhere else.
      redirect: 'manual',
    });
    const answer = parseJson(await response.text());
    return (response.ok && resultOf(answer, options.wait !== undefined)) || errorOfAnswer(response, answer);
  } catch (cause) {
    options.signal?.throwIfAborted();
    if (time.aborted) {
      const message = `No answer within ${route.timeoutMs} ms`;
      return new EmailError([{ code: 'E_TIMEOUT', message }], { cause });
    }
    const message = `No answer from ${new URL(route.url).host}`;
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

async function sendRequest(route: Route, request: Request): Promise<SendResult> {
  const { signal, idempotencyKey } = request.options;
  for (let attempt = 1; ; attempt += 1) {
    const outcome = await exchange(route, request);
    if (!(outcome instanceof EmailError)) return outcome;
    const waitMs = idempotencyKey === undefined ? undefined : backoffMs(outcome, attempt);
    if (waitMs === undefined) throw outcome;
    await sleep(waitMs, undefined, signal && { signal }).catch((error: unknown) => {
      signal?.throwIfAborted();
      throw error;
    });
  }
}

function checkOptions({ idempotencyKey, wait }: SendOptions): void {
  if (idempotencyKey !== undefined && !/^[\x21-\x7e]{1,255}$/.test(idempotencyKey)) {
    throw new TypeError('idempotencyKey must be 1 to 255 characters of printable ASCII without blanks');
  }
  if (wait !== undefined && !(Number.isInteger(wait) && wait >= 0 && wait <= 30)) {
    throw new TypeError('wait must be a whole number of seconds from 0 to 30');
  }
}

/**
 * Makes a binding to one account of one Postern.
 * @throws TypeError for options that cannot work; it never quotes the token
 */
export function createEmailBinding(options: EmailBindingOptions): EmailBinding {
  const route = routeOf(options);
  return {
    async send(message, options = {}) {
      checkOptions(options);
      options.signal?.throwIfAborted();
      return await sendRequest(route, { body: writeMessage(message), options });
    },
  };
}
