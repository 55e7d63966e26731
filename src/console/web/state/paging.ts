// A list that is loaded page by page, by the cursor that each answer names.

import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { ask, type Problem } from './api.ts';
import { asProblem } from './loading.ts';

/** The most rows that one list holds. Who wants to go on is led to a list that begins where this one ends. */
export const mostRows = 2000;

/** A list and how far it is loaded. */
export interface Pages<Row> {
  readonly rows: readonly Row[];
  readonly problem: Problem | undefined;
  /** What the gateway says beside the rows. */
  readonly notes: readonly string[];
  readonly isLoading: boolean;
  /** Whether there are rows that are not loaded. */
  readonly hasMore: boolean;
  /** Whether the list is as long as it may become. */
  readonly isFull: boolean;
  readonly loadMore: () => void;
  readonly reload: () => void;
  /** Changes the rows that are there, such as by one that has just come. */
  readonly change: (change: (rows: readonly Row[]) => readonly Row[]) => void;
}

interface State<Row> {
  readonly path: string | undefined;
  readonly rows: readonly Row[];
  readonly next: string | undefined;
  readonly notes: readonly string[];
  readonly problem: Problem | undefined;
  readonly isLoading: boolean;
}

const nothing = { rows: [], next: undefined, notes: [], problem: undefined } as const;

function withCursor(path: string, cursor: string | undefined): string {
  if (cursor === undefined) return path;
  return `${path}${path.includes('?') ? '&' : '?'}cursor=${encodeURIComponent(cursor)}`;
}

/**
 * Loads a list.
 * @param path of its endpoint with its query, without a cursor; undefined: nothing yet
 * @param turn another one loads the list anew
 */
export function usePages<Row>(path: string | undefined, turn = 0): Pages<Row> {
  const [state, setState] = useState<State<Row>>({ ...nothing, path, isLoading: path !== undefined });
  const underWay = useRef<AbortController | undefined>(undefined);

  const load = useCallback(
    (cursor: string | undefined) => {
      if (path === undefined) return;
      underWay.current?.abort();
      const abort = new AbortController();
      underWay.current = abort;
      setState((before) =>
        before.path === path
          ? { ...before, problem: undefined, isLoading: true }
          : { ...nothing, path, isLoading: true },
      );
      ask<readonly Row[]>(withCursor(path, cursor), { signal: abort.signal })
        .then(
          ({ result, next, notes }) =>
            (before: State<Row>): State<Row> => ({
              ...{ path, next, notes, problem: undefined, isLoading: false },
              rows: cursor === undefined ? result : [...before.rows, ...result],
            }),
          (error: unknown) =>
            (before: State<Row>): State<Row> => ({ ...before, problem: asProblem(error), isLoading: false }),
        )
        .then((change) => {
          if (!abort.signal.aborted) setState(change);
        })
        .catch(reportError);
    },
    [path],
  );

  useEffect(() => {
    load(undefined);
    return () => underWay.current?.abort();
  }, [load, turn]);

  const isCurrent = state.path === path;
  const shown = isCurrent ? state : { ...nothing, path, isLoading: path !== undefined };
  return {
    rows: shown.rows,
    problem: shown.problem,
    notes: shown.notes,
    isLoading: shown.isLoading,
    hasMore: shown.next !== undefined,
    isFull: shown.rows.length >= mostRows,
    loadMore: () => {
      if (!state.isLoading && state.next !== undefined && state.rows.length < mostRows) load(state.next);
    },
    reload: () => load(undefined),
    change: (change) =>
      setState((before) => (before.path === path ? { ...before, rows: change(before.rows) } : before)),
  };
}
