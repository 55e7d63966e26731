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

/** The most rows of a live list, and the most that wait while the reader looks at older ones: beyond it they are counted alone. */
export const mostLive = 200;

/** How long rows are gathered before they are drawn together, in milliseconds: drawing costs the same for one and for many. */
const gatherMs = 250;
/** The most rows that are gathered. More come in that time where the browser slows a hidden tab down: the list is looked up then. */
const mostGathered = 500;

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
 * @param onRows called with rows that have come, four times a second at most and each message once; one that was told before tells
 *   what has become of it
 */
export function useLive(
  path: string | undefined,
  onRows: (rows: readonly JournalRow[]) => void,
  onGap: () => void,
): LiveState {
  const [state, setState] = useState<LiveState>('off');
  const latest = useRef(onRows);
  latest.current = onRows;
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
    let drawing: ReturnType<typeof setTimeout> | undefined;
    const gathered = new Map<string, JournalRow>();
    const draw = (): void => {
      drawing = undefined;
      const rows = [...gathered.values()];
      gathered.clear();
      if (rows.length >= mostGathered) gap.current();
      else latest.current(rows);
    };
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
      if (gathered.size >= mostGathered) return;
      const row = readRow(event.data);
      if (!row) return;
      gathered.set(row.id, row);
      drawing ??= setTimeout(draw, gatherMs);
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
      clearTimeout(drawing);
      source.close();
    };
  }, [path, isOut]);
  return state;
}
