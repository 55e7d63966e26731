// What a page has asked for: the answer, or why there is none, and whether it is under way.

import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { ask, Problem } from './api.ts';

/** Something that was asked for. */
export interface Loaded<Value> {
  /** The last answer; it stays while the next is under way, and where the gateway could not give a newer one. */
  readonly value: Value | undefined;
  readonly problem: Problem | undefined;
  readonly isLoading: boolean;
  readonly reload: () => void;
}

/** Makes a problem of whatever was thrown. */
export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  return new Problem(0, [], error instanceof Error ? error.message : String(error));
}

interface State<Value> {
  readonly key: string | undefined;
  readonly value: Value | undefined;
  readonly problem: Problem | undefined;
  readonly isLoading: boolean;
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
  const [state, show] = useState<State<Value>>({
    ...{ key, value: undefined, problem: undefined },
    isLoading: key !== undefined,
  });
  const [turn, setTurn] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    if (key === undefined) return undefined;
    const abort = new AbortController();
    show((before) => ({
      key,
      value: before.key === key ? before.value : undefined,
      // A page that asks every few seconds does not take its problem away for as long as it asks.
      problem: before.key === key ? before.problem : undefined,
      isLoading: true,
    }));
    const run = async (): Promise<void> => {
      const next = await settle(() => latest.current(key, abort.signal));
      if (abort.signal.aborted) return;
      show((before) => ({
        ...next,
        ...{ key, isLoading: false },
        value: next.problem && isPassing(next.problem) && before.key === key ? before.value : next.value,
      }));
    };
    run().catch(reportError);
    return () => abort.abort();
  }, [key, turn]);
  const reload = useCallback(() => setTurn((before) => before + 1), []);
  const isCurrent = state.key === key;
  return {
    value: isCurrent ? state.value : undefined,
    problem: isCurrent ? state.problem : undefined,
    isLoading: isCurrent ? state.isLoading : key !== undefined,
    reload,
  };
}

/** Loads `result` of an endpoint. @param path undefined: nothing yet */
export function useAnswer<Result>(path: string | undefined): Loaded<Result> {
  return useLoaded(path, async (url, signal) => (await ask<Result>(url, { signal })).result);
}

/** Calls `again` every so many milliseconds while the page is looked at. */
export function useEvery(ms: number, again: () => void): void {
  const latest = useRef(again);
  latest.current = again;
  useEffect(() => {
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible') latest.current();
    }, ms);
    return () => clearInterval(timer);
  }, [ms]);
}
