// A list that is loaded page by page, by the cursor that each answer names.

import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { ask, isSignedOut, Problem } from './api.ts';
import { asProblem } from './loading.ts';
import { place } from './location.ts';

/** The most rows that one list holds. Who wants to go on is led to a list that begins where this one ends. */
const mostRows = 2000;

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
  /** Looks for rows that came or changed at the head of the list; what is loaded behind them stays. */
  readonly refresh: () => void;
  /** Changes the rows that are there, such as by some that have just come. @param most rows that stay; absent: all */
  readonly change: (change: (rows: readonly Row[]) => readonly Row[], most?: number) => void;
}

/** Every row has an id. */
interface Named {
  readonly id: string;
}

interface State<Row> extends Pick<Pages<Row>, 'rows' | 'notes' | 'problem' | 'isLoading'> {
  readonly path: string | undefined;
  readonly next: string | undefined;
  /** Rows were left out at its end, so that `next` leads past them. */
  readonly isCut?: boolean;
}

/** Lists that were left, by the entry of the history and their endpoint: who comes back finds the list as long as it was. */
const left = new Map<string, State<Named>>();
const mostLeft = 10;

function keyOf(entry: string, path: string): string {
  return `${entry} ${path.split('?', 1)[0] ?? ''}`;
}

/** The list that the reader comes back to; undefined: none was there, or the reader comes by a link. */
function comeBackTo<Row extends Named>(path: string | undefined): State<Row> | undefined {
  const { entry, scrolled } = place.peek();
  const kept = path === undefined || scrolled === undefined ? undefined : left.get(keyOf(entry, path));
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the rows of one endpoint are alike
  return kept && ({ ...kept, path, problem: undefined, isLoading: false } as State<Row>);
}

/** Keeps a list when it is left. */
function useKept(path: string | undefined, state: State<Named>): void {
  const latest = useRef(state);
  latest.current = state;
  useEffect(() => {
    const { entry } = place.peek();
    return () => {
      const { current } = latest;
      if (path !== undefined && current.path === path && current.rows.length > 0) leave(keyOf(entry, path), current);
    };
  }, [path]);
}

function leave(key: string, state: State<Named>): void {
  left.delete(key);
  left.set(key, state);
  for (const oldest of left.keys()) {
    if (left.size <= mostLeft) break;
    left.delete(oldest);
  }
}

const nothing = { rows: [], next: undefined, notes: [], problem: undefined } as const;

function withCursor(path: string, cursor: string | undefined): string {
  if (cursor === undefined) return path;
  return `${path}${path.includes('?') ? '&' : '?'}cursor=${encodeURIComponent(cursor)}`;
}

/**
 * Puts a page that was just loaded at the head of a list whose rows are in the same order.
 * @returns undefined where the two have no row in common: what lies between them is not known
 */
function withHead<Row extends Named>(rows: readonly Row[], head: readonly Row[]): readonly Row[] | undefined {
  const ids = new Set(head.map(({ id }) => id));
  const last = rows.findLastIndex(({ id }) => ids.has(id));
  return last === -1 ? undefined : [...head, ...rows.slice(last + 1)];
}

/** Puts a page behind a list, but for rows that the list has already. */
function withTail<Row extends Named>(rows: readonly Row[], tail: readonly Row[]): readonly Row[] {
  const ids = new Set(rows.map(({ id }) => id));
  return [...rows, ...tail.filter(({ id }) => !ids.has(id))];
}

/**
 * Loads a list.
 * @param path of its endpoint with its query, without a cursor; undefined: nothing yet
 * @param turn another one loads the list anew
 */
export function usePages<Row extends Named>(path: string | undefined, turn = 0): Pages<Row> {
  const isBack = useRef(false);
  const [state, setState] = useState<State<Row>>(() => {
    const kept = comeBackTo<Row>(path);
    isBack.current = kept !== undefined;
    return kept ?? { ...nothing, path, isLoading: path !== undefined };
  });
  useKept(path, state);
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
              rows: cursor === undefined ? result : withTail(before.rows, result),
            }),
          (error: unknown) =>
            // What wants another session is loaded again once somebody has signed in.
            (before: State<Row>): State<Row> =>
              error instanceof Problem && error.status === 401
                ? before
                : { ...before, problem: asProblem(error), isLoading: false },
        )
        .then((change) => {
          if (!abort.signal.aborted) setState(change);
        })
        .catch(reportError);
    },
    [path],
  );

  const isOut = isSignedOut.value;
  useEffect(() => {
    if (isOut) return undefined;
    if (isBack.current) {
      isBack.current = false;
      look().catch(reportError);
      return undefined;
    }
    load(undefined);
    return () => underWay.current?.abort();
  }, [load, turn, isOut]);

  const looking = useRef<AbortController | undefined>(undefined);
  useEffect(() => () => looking.current?.abort(), [path]);
  const look = async (): Promise<void> => {
    if (path === undefined) return;
    looking.current?.abort();
    const abort = new AbortController();
    looking.current = abort;
    try {
      const { result, next } = await ask<readonly Row[]>(path, { signal: abort.signal });
      if (abort.signal.aborted) return;
      setState((before) => {
        if (before.path !== path) return before;
        const rows = withHead(before.rows, result);
        return rows ? { ...before, rows } : { ...before, rows: result, next, isCut: false };
      });
    } catch {
      // The rows that are there stay; a stream that opens again looks once more.
    }
  };

  const shown = state.path === path ? state : { ...nothing, path, isLoading: path !== undefined };
  const { rows, problem, notes, isLoading } = shown;
  const isToLook = useRef(false);
  useEffect(() => {
    if (isLoading || !isToLook.current) return;
    isToLook.current = false;
    look().catch(reportError);
  }, [isLoading]);
  return {
    ...{ rows, problem, notes, isLoading },
    hasMore: shown.next !== undefined || shown.isCut === true,
    isFull: rows.length >= mostRows || shown.isCut === true,
    loadMore: () => {
      const isOver = state.rows.length >= mostRows || state.isCut === true;
      if (!state.isLoading && state.next !== undefined && !isOver) load(state.next);
    },
    reload: () => load(undefined),
    refresh: () => {
      // What is under way may have been read too early, and is not begun anew, so that a slow answer comes at all.
      if (isLoading) isToLook.current = true;
      else look().catch(reportError);
    },
    change: (change, most = Number.POSITIVE_INFINITY) =>
      setState((before) => {
        if (before.path !== path) return before;
        const rows = change(before.rows);
        return rows.length > most ? { ...before, rows: rows.slice(0, most), isCut: true } : { ...before, rows };
      }),
  };
}
