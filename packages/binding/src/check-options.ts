// What a program says about where and how to send, checked before anything is sent. A refusal names the option and its
// rule, and never quotes a value: it might be the token.

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

/** One account of one server, and how to reach it. */
export interface ServerAccess {
  /** The URL that the endpoints of sending stand under, without a slash at its end. */
  readonly url: string;
  readonly token: string;
  readonly fetch: typeof globalThis.fetch;
  /** Milliseconds of one attempt. */
  readonly timeoutMs: number;
}

/** Options of a binding before they are checked. */
export type GivenOptions = { readonly [Name in keyof EmailBindingOptions]?: unknown };

/** What a refusal calls the options that may come from elsewhere than an object of options. */
export interface OptionNames {
  readonly endpoint: string;
  readonly token: string;
  readonly account: string;
}

/** Names of the options themselves. */
export const optionNames: OptionNames = { endpoint: 'endpoint', token: 'token', account: 'account' };

const defaultTimeoutMs = 30_000;
/** A timer that is longer fires at once. */
const longestTimeoutMs = 2_000_000_000;

function isText(value: unknown, form: RegExp): value is string {
  return typeof value === 'string' && form.test(value);
}

function parseUrl(text: string): URL | undefined {
  try {
    return new URL(text); // the first releases of Node 20 have no URL.parse
  } catch {
    return undefined;
  }
}

function endpointPrefix(endpoint: unknown, name: string): string {
  const url = typeof endpoint === 'string' || endpoint instanceof URL ? parseUrl(String(endpoint)) : undefined;
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') {
    throw new TypeError(`${name} must be a URL that begins with http:// or https://`);
  }
  // fetch refuses these and quotes the whole URL in its error: a password would be in a log.
  if (url.username !== '' || url.password !== '') throw new TypeError(`${name} must not hold a user or a password`);
  if (url.search !== '' || url.hash !== '') throw new TypeError(`${name} must not hold a query or a fragment`);
  return `${url.origin}${url.pathname.replace(/\/+$/, '')}`;
}

function isFetch(value: unknown): value is typeof globalThis.fetch {
  return typeof value === 'function';
}

function fetchOf(given: unknown): typeof globalThis.fetch {
  const fetch = given === undefined ? globalThis.fetch : given;
  if (isFetch(fetch)) return fetch;
  throw new TypeError(given === undefined ? 'fetch must be given: there is no global one' : 'fetch must be a function');
}

function timeoutOf(given: unknown = defaultTimeoutMs): number {
  if (typeof given === 'number' && Number.isInteger(given) && given >= 1 && given <= longestTimeoutMs) return given;
  throw new TypeError(`timeoutMs must be a whole number from 1 to ${longestTimeoutMs}`);
}

/**
 * Checks the options of a binding.
 * @param names what a refusal calls them
 * @throws TypeError that names the option and its rule
 */
export function accessOf(options: GivenOptions, names: OptionNames): ServerAccess {
  if (typeof options !== 'object' || options === null) throw new TypeError('options must be an object');
  const { endpoint, token, account } = options;
  const prefix = endpointPrefix(endpoint, names.endpoint);
  // fetch quotes a header value that it refuses: the token is never quoted.
  if (!isText(token, /^[\x21-\x7e]+$/)) throw new TypeError(`${names.token} must be printable ASCII without blanks`);
  if (!isText(account, /^[A-Za-z0-9][A-Za-z0-9-]*$/)) {
    throw new TypeError(`${names.account} must be an account’s id or name: letters, digits and hyphens`);
  }
  const url = `${prefix}/client/v4/accounts/${account}/email/sending`;
  return { url, token, fetch: fetchOf(options.fetch), timeoutMs: timeoutOf(options.timeoutMs) };
}

/**
 * Checks the options of one message.
 * @throws TypeError that names the option and its rule
 */
export function checkSendOptions(options: SendOptions): void {
  if (typeof options !== 'object' || options === null) throw new TypeError('options must be an object');
  const { idempotencyKey, wait, signal } = options;
  if (idempotencyKey !== undefined && !isText(idempotencyKey, /^[\x21-\x7e]{1,255}$/)) {
    throw new TypeError('idempotencyKey must be 1 to 255 characters of printable ASCII without blanks');
  }
  if (wait !== undefined && !(Number.isInteger(wait) && wait >= 0 && wait <= 30)) {
    throw new TypeError('wait must be a whole number of seconds from 0 to 30');
  }
  if (signal !== undefined && !(signal instanceof AbortSignal)) throw new TypeError('signal must be an AbortSignal');
}
