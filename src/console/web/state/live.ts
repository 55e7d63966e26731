// Rows of the journal as they come: server-sent events. What came while no stream was open is looked up.

import { useEffect, useRef, useState } from 'preact/hooks';
import { isSignedOut } from './api.ts';
import type { JournalRow } from './shapes.ts';

/** How the stream is doing. */
export type LiveState = 'off' | 'connecting' | 'on' | 'lost';

/**
 * How long a stream may say nothing before it counts as gone, in milliseconds: it says every 15 s that it is alive, and a network
 * that goes away ends no connection.
 */
const silenceMs = 40_000;

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
 * @param onGap called where rows may have been missed, also when a stream has just opened: the list has to be looked up
 * @param onRow called with each row; one that was told before tells what has become of it
 */
export function useLive(path: string | undefined, onRow: (row: JournalRow) => void, onGap: () => void): LiveState {
  const [state, setState] = useState<LiveState>('off');
  const latest = useRef(onRow);
  latest.current = onRow;
  const gap = useRef(onGap);
  gap.current = onGap;
  const isOut = isSignedOut.value;
  useEffect(() => {
    if (path === undefined || isOut) {
      setState('off');
      return undefined;
    }
    setState('connecting');
    let source: EventSource;
    let again: ReturnType<typeof setTimeout> | undefined;
    let silence: ReturnType<typeof setTimeout> | undefined;
    const hear = (): void => {
      clearTimeout(silence);
      silence = setTimeout(() => {
        setState('lost');
        source.close();
        open();
      }, silenceMs);
    };
    const take = (event: MessageEvent<string>): void => {
      hear();
      const row = readRow(event.data);
      if (row) latest.current(row);
    };
    const open = (): void => {
      source = new EventSource(path);
      hear();
      source.addEventListener('open', () => {
        setState('on');
        hear();
        // The browser resumes behind the last row that it was told of, and there may have been none.
        gap.current();
      });
      source.addEventListener('row', take);
      source.addEventListener('alive', hear);
      source.addEventListener('reset', () => gap.current());
      source.addEventListener('error', () => {
        setState('lost');
        // The browser tries again by itself, unless the answer was a refusal: too many streams are open, or the session has
        // ended, which the look at the list shows.
        if (source.readyState !== EventSource.CLOSED) return;
        clearTimeout(silence);
        again = setTimeout(open, 10_000);
        gap.current();
      });
    };
    open();
    return () => {
      clearTimeout(again);
      clearTimeout(silence);
      source.close();
    };
  }, [path, isOut]);
  return state;
}
