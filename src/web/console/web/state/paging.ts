// A list that is loaded page by page, by the cursor that each answer names.

import { useEffect, useRef, useState } from 'preact/hooks';
import { ask, asProblem, isSignedOut, type Loaded, Problem } from './api.ts';
import { place } from './session.ts';

/** The most rows that one list holds. Who wants to go on is led to a list that begins where this one ends. */
const mostRows = 2000;

/** A list and how far it is loaded. */
export interface Pages<Row> extends Pick<Loaded<unknown>, 'problem' | 'isLoading' | 'reload'> {
  readonly rows: readonly Row[];
  readonly notes: readonly string[];
  /** Whether there are rows that are not loaded. */
  readonly hasMore: boolean;
  /** Whether the list is as long as it may become. */
  readonly isFull: boolean;
  readonly loadMore: () => void;
  /** Looks for rows that came or changed at the head of the list; what is loaded behind them stays. */
  readonly refresh: () => void;
  /** Changes the rows that are there, such as by some that have just come. @param most rows that stay; absent: all */
  readonly change: (change: (rows: readonly Row[]) => readonly Row[], most?: number) => void;
}

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

function useKept(path: string | undefined, state: State<Named>): void {
  const latest = useRef(state);
  latest.current = state;
  useEffect(() => {
    const { entry } = place.peek();
    return () => {
      const { current } = latest;
      if (path === undefined || current.path !== path || current.rows.length === 0) return;
      const key = keyOf(entry, path);
      left.delete(key);
      left.set(key, current);
      const [oldest] = left.keys();
      if (left.size > mostLeft && oldest !== undefined) left.delete(oldest);
    };
  }, [path]);
}

const nothing = { rows: [], next: undefined, notes: [], problem: undefined } as const;

function notYet<Row>(path: string | undefined): State<Row> {
  return { ...nothing, path, isLoading: path !== undefined };
}

function withCursor(path: string, cursor: string | undefined): string {
  if (cursor === undefined) return path;
  return `${path}${path.includes('?') ? '&' : '?'}cursor=${encodeURIComponent(cursor)}`;
}

/** Puts a page that was just loaded at the head of a list. @returns undefined where they share no row: there is a gap */
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

type Change<Row> = (change: (before: State<Row>) => State<Row>) => void;

/** Gives what begins one request after another: each ends the one before it, and another path the last one. */
function useOneAtATime(path: string | undefined): () => AbortSignal {
  const underWay = useRef<AbortController | undefined>(undefined);
  useEffect(() => () => underWay.current?.abort(), [path]);
  return () => {
    underWay.current?.abort();
    underWay.current = new AbortController();
    return underWay.current.signal;
  };
}

function useLoad<Row extends Named>(path: string | undefined, change: Change<Row>): (cursor?: string) => Promise<void> {
  const begin = useOneAtATime(path);
  return async (cursor) => {
    if (path === undefined) return;
    const signal = begin();
    const show: Change<Row> = (made) => {
      if (!signal.aborted) change(made);
    };
    const underWay = { problem: undefined, isLoading: true };
    show((before) => ({ ...(before.path === path ? before : { ...nothing, path }), ...underWay }));
    try {
      const { result, next, notes } = await ask<readonly Row[]>(withCursor(path, cursor), { signal });
      show((before) => {
        // The list has changed meanwhile and does not end any more where this page begins: it would leave a gap.
        if (cursor !== undefined && (before.next !== cursor || before.isCut)) return { ...before, isLoading: false };
        const rows = cursor === undefined ? result : withTail(before.rows, result);
        return { path, rows, next, notes, problem: undefined, isLoading: false };
      });
    } catch (error) {
      // What wants another session is loaded again once somebody has signed in.
      if (error instanceof Problem && error.status === 401) return;
      show((before) => ({ ...before, problem: asProblem(error), isLoading: false }));
    }
  };
}

/** Gives what looks for rows that came or changed at the head of a list. */
function useLook<Row extends Named>(path: string | undefined, change: Change<Row>): () => void {
  const begin = useOneAtATime(path);
  return () => {
    if (path === undefined) return;
    const signal = begin();
    ask<readonly Row[]>(path, { signal })
      .then(({ result, next }) => {
        if (signal.aborted) return;
        change((before) => {
          if (before.path !== path) return before;
          const rows = withHead(before.rows, result);
          return rows ? { ...before, rows } : { ...before, rows: result, next, isCut: false };
        });
      })
      // The rows that are there stay; a stream that opens again looks once more.
      .catch(() => undefined);
  };
}

/** Loads a list. @param path with its query; undefined: nothing yet @param turn another one loads the list anew */
export function usePages<Row extends Named>(path: string | undefined, turn = 0): Pages<Row> {
  const isBack = useRef(false);
  const [state, setState] = useState<State<Row>>(() => {
    const kept = comeBackTo<Row>(path);
    isBack.current = kept !== undefined;
    return kept ?? notYet(path);
  });
  useKept(path, state);
  const load = useLoad(path, setState);
  const look = useLook(path, setState);
  const isOut = isSignedOut.value;
  useEffect(() => {
    if (isOut) return;
    if (isBack.current) look();
    else void load();
    isBack.current = false;
  }, [path, turn, isOut]);
  const { rows, problem, notes, isLoading, next, isCut = false } = state.path === path ? state : notYet<Row>(path);
  const isToLook = useRef(false);
  useEffect(() => {
    if (isLoading || !isToLook.current) return;
    isToLook.current = false;
    look();
  }, [isLoading]);
  const isFull = rows.length >= mostRows || isCut;
  return {
    ...{ rows, problem, notes, isLoading, isFull, hasMore: next !== undefined || isCut },
    loadMore: () => {
      if (!isLoading && next !== undefined && !isFull) void load(next);
    },
    reload: () => void load(),
    // What is under way may have been read too early, and is not begun anew, so that a slow answer comes at all.
    refresh: () => (isLoading ? void (isToLook.current = true) : look()),
    change: (change, most = Number.POSITIVE_INFINITY) =>
      setState((before) => {
        if (before.path !== path) return before;
        const changed = change(before.rows);
        return { ...before, rows: changed.slice(0, most), isCut: before.isCut === true || changed.length > most };
      }),
  };
}
