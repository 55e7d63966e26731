// Rows of the journal as they come: server-sent events, resumed by the browser itself after a break.

import { useEffect, useRef, useState } from 'preact/hooks';
import type { JournalRow } from './shapes.ts';

/** How the stream is doing. */
export type LiveState = 'off' | 'connecting' | 'on' | 'lost';

/** The most rows that wait while the reader looks at older ones; beyond it they are counted alone. */
export const mostFresh = 200;

function readRow(data: string): JournalRow | undefined {
  try {
    const row: unknown = JSON.parse(data);
    if (typeof row !== 'object' || row === null || !('id' in row) || !('outcome' in row)) return undefined;
    // The same shape as a row of the list (docs/openapi.json).
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion
    return row as JournalRow;
  } catch {
    return undefined;
  }
}

/**
 * Follows the stream while the component is there.
 * @param path of the endpoint with its filters; undefined: not now
 * @param onReset called where too much was missed: the list has to be loaded anew
 * @param onRow called with each row; one that was told before tells what has become of it
 */
export function useLive(path: string | undefined, onRow: (row: JournalRow) => void, onReset: () => void): LiveState {
  const [state, setState] = useState<LiveState>('off');
  const latest = useRef(onRow);
  latest.current = onRow;
  const reset = useRef(onReset);
  reset.current = onReset;
  useEffect(() => {
    if (path === undefined) {
      setState('off');
      return undefined;
    }
    setState('connecting');
    let source: EventSource;
    let again: ReturnType<typeof setTimeout> | undefined;
    const take = (event: MessageEvent<string>): void => {
      const row = readRow(event.data);
      if (row) latest.current(row);
    };
    const open = (): void => {
      source = new EventSource(path);
      source.addEventListener('open', () => setState('on'));
      source.addEventListener('row', take);
      source.addEventListener('reset', () => reset.current());
      source.addEventListener('error', () => {
        setState('lost');
        // The browser tries again by itself, unless the answer was a refusal, such as that too many streams are open.
        if (source.readyState === EventSource.CLOSED) again = setTimeout(open, 10_000);
      });
    };
    open();
    return () => {
      clearTimeout(again);
      source.close();
    };
  }, [path]);
  return state;
}
