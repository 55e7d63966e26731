// What a page has asked for: the answer, or why there is none, and whether it is under way.

import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { ask, isSignedOut, Problem } from './api.ts';

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

async function settle<Value>(load: () => Promise<Value>): Promise<Pick<State<Value>, 'value' | 'problem'>> {
  try {
    return { value: await load(), problem: undefined };
  } catch (error) {
    return { value: undefined, problem: asProblem(error) };
  }
}

/** Whether an older answer is still true: the gateway did not answer or had no room, rather than saying no. */
function isPassing({ status }: Problem): boolean {
  return status === 0 || status === 429 || status >= 500;
}

/**
 * Loads something when the component appears, and again when `key` changes; what is under way for another key is ended.
 * @param key names what is loaded, mostly its URL; undefined: nothing yet
 */
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
      const next = await settle(() => latest.current(key, abort.signal));
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

/** Sends what a form holds, once at a time. @returns why it was refused, whether it is under way, and what sends it */
export function useSubmit(send: () => Promise<void>) {
  const [problem, setProblem] = useState<Problem>();
  const [isBusy, setBusy] = useState(false);
  // Two presses may come before the form is drawn as busy.
  const isSent = useRef(false);
  const submit = (event: Event): void => {
    event.preventDefault();
    if (isSent.current) return;
    isSent.current = true;
    setBusy(true);
    setProblem(undefined);
    send()
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
