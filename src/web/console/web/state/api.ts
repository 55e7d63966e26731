// The HTTP interface as the console uses it: JSON in the v4 envelope, with the session's cookie.

import { signal } from '@preact/signals';
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import type { V4Envelope } from '../../../http/envelope.ts';
import { cutAt } from '../text/visible-text.ts';

/** One item of `errors`. */
export type ApiError = Pick<V4Envelope['errors'][number], 'message' | 'source'> & { readonly code: number };

interface Envelope extends V4Envelope {
  readonly messages: readonly { readonly message?: string }[];
  readonly result_info?: { readonly cursor?: string | null };
}

/** An answer that succeeded. */
export interface Answer<Result> {
  readonly result: Result;
  /** The cursor of the next page; undefined where there is none. */
  readonly next: string | undefined;
  /** What the gateway says beside the result, such as that the journal is off. */
  readonly notes: readonly string[];
}

/** A request that failed, in words for the reader. */
export class Problem extends Error {
  /** The HTTP status; 0 where nothing answered. */
  readonly status: number;
  readonly errors: readonly ApiError[];

  constructor(status: number, errors: readonly ApiError[], message: string) {
    super(message);
    this.status = status;
    this.errors = errors;
  }
}

/** True once an answer said that there is no session, or that it has ended. */
export const isSignedOut = signal(false);

/** When the gateway last answered, in milliseconds since 1970, while it does not answer; else undefined. */
export const silentSince = signal<number | undefined>(undefined);

let answeredAt = Date.now();

interface Asked {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly body?: unknown;
  readonly signal?: AbortSignal;
}

function isEnvelope(value: unknown): value is Envelope {
  return typeof value === 'object' && value !== null && 'success' in value && 'errors' in value;
}

/** What to tell where the answer has no words of its own. */
const statusWords: Readonly<Record<number, string>> = {
  401: 'The session has ended. Sign in again.',
  403: 'This session may not do that. Sign in with a token that has the scope for it.',
  404: 'There is no such thing, or it belongs to another account.',
  429: 'Too many requests at the moment. Wait some seconds and try again.',
  500: 'The gateway met a fault of its own, which its log tells. Try again; if it stays, tell whoever runs it.',
  503: 'The gateway is starting, stopping or out of room. Try again in some seconds.',
};

function wordsOf(status: number, errors: readonly ApiError[]): string {
  const told = errors.map(({ message }) => message.replace(/^E_[A-Z_]+: /, '')).join('; ');
  if (told !== '' && status !== 401) return told;
  return statusWords[status] ?? `The gateway answered ${status}, which the console does not expect here.`;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

async function read(response: Response, isChange: boolean): Promise<Envelope> {
  const text = await response.text().catch(() => undefined);
  // The answer broke off, or the rest of it never came.
  if (text === undefined) throw noAnswer(isChange, false);
  const body = parsed(text);
  if (isEnvelope(body) && body.success) return body;
  const errors = isEnvelope(body) ? body.errors : [];
  throw new Problem(response.status, errors, wordsOf(response.status, errors));
}

/** How long an answer may take, in milliseconds. The slowest that is asked for, the check of DNS, takes 8 s. */
const patienceMs = 30_000;

/** What to tell where nothing answered: a change may have been made all the same. */
function noAnswer(isChange: boolean, isLate: boolean): Problem {
  const what = isLate ? `The gateway has not answered for ${patienceMs / 1000} s.` : 'The gateway does not answer.';
  const next = isChange
    ? 'What you asked for may have been done all the same: look before you try again.'
    : 'Look whether it runs, then try again.';
  return new Problem(0, [], `${what} ${next}`);
}

/** Sends a request and gives the response, whatever its status. @throws Problem where nothing answers */
async function send(path: string, { method = 'GET', body, signal: abort }: Asked): Promise<Response> {
  // It also ends an answer that stops in its midst; one that is whole by then does not notice.
  const patience = new AbortController();
  const late = patience.signal;
  setTimeout(() => patience.abort(), patienceMs);
  try {
    const response = await fetch(path, {
      method,
      credentials: 'same-origin',
      redirect: 'error',
      headers: {
        accept: 'application/json',
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        // A page of another origin cannot set this field without being asked for it first.
        ...(method === 'GET' ? {} : { 'x-postern-console': '1' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: abort ? AbortSignal.any([abort, late]) : late,
    });
    answeredAt = Date.now();
    silentSince.value = undefined;
    return response;
  } catch (error) {
    if (abort?.aborted === true) throw error;
    silentSince.value ??= answeredAt;
    throw noAnswer(method !== 'GET', late.aborted);
  }
}

/** Asks an endpoint. @throws Problem where it refuses or nothing answers; what `fetch` throws where `signal` ended it */
export async function ask<Result>(path: string, asked: Asked = {}): Promise<Answer<Result>> {
  const response = await send(path, asked);
  if (response.status === 401) isSignedOut.value = true;
  const {
    result,
    result_info: info,
    messages,
  } = await read(response, asked.method !== undefined && asked.method !== 'GET');
  const next = info?.cursor ?? undefined;
  // The types of `shapes.ts` are those of the schemas by which the gateway describes its answers.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  return { result: result as Result, next, notes: messages.flatMap(({ message }) => message ?? []) };
}

/** Asks for text instead of JSON, such as a message as it came. @param most characters to read; the rest is not fetched */
export async function askText(
  path: string,
  most: number,
  abort: AbortSignal,
): Promise<{ readonly text: string; readonly isCut: boolean }> {
  const response = await send(path, { signal: abort });
  if (!response.ok) {
    if (response.status === 401) isSignedOut.value = true;
    await read(response, false);
  }
  // A message is octets. Most are text in UTF-8; others are shown with replacement characters.
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  while (text.length < most) {
    const piece = await reader?.read().catch((error: unknown) => {
      throw abort.aborted ? error : noAnswer(false, false);
    });
    if (!piece?.value) return { text, isCut: false };
    text += piece.value;
  }
  await reader?.cancel();
  return { text: cutAt(text, most).shown, isCut: true };
}

/** Something that was asked for. */
export interface Loaded<Value> {
  /** The last answer; it stays while the next is under way, and where the gateway could not give a newer one. */
  readonly value: Value | undefined;
  readonly problem: Problem | undefined;
  readonly isLoading: boolean;
  /** When the last answer came, in milliseconds since 1970. */
  readonly at: number | undefined;
  /** Loads anew; what is under way is ended. */
  readonly reload: () => void;
  /** Loads anew unless that is under way: for pages that ask from time to time, which would never see a slow answer. */
  readonly refresh: () => void;
}

/** Makes a problem of whatever was thrown. */
export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  return new Problem(0, [], error instanceof Error ? error.message : String(error));
}

interface State<Value> extends Omit<Loaded<Value>, 'reload' | 'refresh'> {
  readonly key: string | undefined;
}

function notYet<Value>(key: string | undefined): State<Value> {
  return { key, value: undefined, problem: undefined, at: undefined, isLoading: key !== undefined };
}

/** Whether an older answer is still true: the gateway did not answer or had no room, rather than saying no. */
function isPassing({ status }: Problem): boolean {
  return status === 0 || status === 429 || status >= 500;
}

/** Loads when the component appears and when `key` changes, which ends what is under way. @param key undefined: nothing yet */
export function useLoaded<Value>(
  key: string | undefined,
  load: (key: string, signal: AbortSignal) => Promise<Value>,
): Loaded<Value> {
  const [state, show] = useState(() => notYet<Value>(key));
  const [turn, setTurn] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  const underWay = useRef(false);
  // A session that has ended is asked nothing; once somebody has signed in again, the page goes on.
  const isOut = isSignedOut.value;
  useEffect(() => {
    if (key === undefined || isOut) return undefined;
    const abort = new AbortController();
    // A page that asks every few seconds does not take its problem away for as long as it asks.
    show((before) => ({ ...(before.key === key ? before : notYet<Value>(key)), isLoading: true }));
    const run = async (): Promise<void> => {
      const next: Pick<State<Value>, 'value' | 'problem'> = await latest.current(key, abort.signal).then(
        (value) => ({ value, problem: undefined }),
        (error: unknown) => ({ value: undefined, problem: asProblem(error) }),
      );
      if (abort.signal.aborted) return;
      underWay.current = false;
      // It is loaded again once somebody has signed in.
      if (next.problem?.status === 401) return;
      show((before) => {
        const isKept = next.problem !== undefined && isPassing(next.problem) && before.key === key;
        return {
          ...{ key, isLoading: false, problem: next.problem },
          ...(isKept ? { value: before.value, at: before.at } : { value: next.value, at: Date.now() }),
        };
      });
    };
    underWay.current = true;
    run().catch(reportError);
    return () => {
      underWay.current = false;
      abort.abort();
    };
  }, [key, turn, isOut]);
  const reload = useCallback(() => setTurn((before) => before + 1), []);
  const refresh = useCallback(() => {
    if (!underWay.current) reload();
  }, []);
  const { value, problem, isLoading, at } = state.key === key ? state : notYet<Value>(key);
  return { value, problem, isLoading, at, reload, refresh };
}

/** Loads `result` of an endpoint. @param path undefined: nothing yet */
export function useAnswer<Result>(path: string | undefined): Loaded<Result> {
  return useLoaded(path, async (url, signal) => (await ask<Result>(url, { signal })).result);
}

/** Does what takes a while once at a time. @returns why it was refused, whether it is under way, and what begins it */
export function useSubmit(send: () => Promise<void> | void) {
  const [problem, setProblem] = useState<Problem>();
  const [isBusy, setBusy] = useState(false);
  // Two presses may come before it is drawn as busy.
  const isSent = useRef(false);
  const submit = (event?: Event): void => {
    event?.preventDefault();
    const sent = isSent.current ? undefined : send();
    if (!sent) return;
    isSent.current = true;
    setBusy(true);
    setProblem(undefined);
    sent
      .catch((error: unknown) => setProblem(asProblem(error)))
      .finally(() => {
        isSent.current = false;
        setBusy(false);
      });
  };
  return { problem, isBusy, submit };
}

/** Calls `again` every so many milliseconds while the page is looked at. */
export function useEvery(ms: number, again: () => void): void {
  const latest = useRef(again);
  latest.current = again;
  useEffect(() => {
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible' && !isSignedOut.value) latest.current();
    }, ms);
    return () => clearInterval(timer);
  }, [ms]);
}
