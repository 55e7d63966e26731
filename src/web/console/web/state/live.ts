// Rows of the journal as they come: server-sent events. What came while no stream was open is looked up.

import { useEffect, useRef, useState } from 'preact/hooks';
import { isSignedOut } from './api.ts';
import type { JournalRow } from './shapes.ts';

/** How the stream is doing. */
export type LiveState = 'off' | 'connecting' | 'on' | 'lost';

/** How long a stream may be silent, in milliseconds: it speaks every 15 s, and a network that goes away ends no connection. */
const silenceMs = 40_000;

/** The most rows of a live list. */
export const mostLive = 200;

/** How long rows are gathered before they are drawn together, in milliseconds: drawing costs the same for one and for many. */
const gatherMs = 250;
/** The most rows that are gathered. More come in that time where the browser slows a hidden tab down: the list is looked up then. */
const mostGathered = 500;

interface Listener {
  readonly onState: (state: LiveState) => void;
  readonly onRows: (rows: readonly JournalRow[]) => void;
  readonly onGap: () => void;
}

function gather({ onRows, onGap }: Listener) {
  const gathered = new Map<string, JournalRow>();
  let drawing: ReturnType<typeof setTimeout> | undefined;
  const draw = (): void => {
    drawing = undefined;
    const rows = [...gathered.values()];
    gathered.clear();
    if (rows.length >= mostGathered) onGap();
    else onRows(rows);
  };
  const take = (data: string): void => {
    if (gathered.size >= mostGathered) return;
    const row: JournalRow = JSON.parse(data);
    gathered.set(row.id, row);
    drawing ??= setTimeout(draw, gatherMs);
  };
  return { take, stop: () => clearTimeout(drawing) };
}

function follow(path: string, listener: Listener): () => void {
  const { onState, onGap } = listener;
  const { take, stop } = gather(listener);
  let source: EventSource;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const openIn = (ms: number): void => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      onState('lost');
      source.close();
      open();
    }, ms);
  };
  const hear = (): void => openIn(silenceMs);
  const open = (): void => {
    source = new EventSource(path);
    hear();
    for (const kind of ['open', 'row', 'alive']) source.addEventListener(kind, hear);
    source.addEventListener('open', () => {
      onState('on');
      // The browser resumes behind the last row that it was told of, and there may have been none.
      onGap();
    });
    source.addEventListener('row', ({ data }: MessageEvent<string>) => take(data));
    source.addEventListener('reset', onGap);
    source.addEventListener('error', () => {
      onState('lost');
      // The browser tries again, unless it was refused: too many streams, or no session, which the look at the list shows.
      if (source.readyState !== EventSource.CLOSED) return;
      openIn(10_000);
      onGap();
    });
  };
  open();
  return () => {
    clearTimeout(timer);
    stop();
    source.close();
  };
}

/** Follows the stream. @param path undefined: not now @param onGap rows may have been missed @param onRows each message once, gathered */
export function useLive(
  path: string | undefined,
  onRows: (rows: readonly JournalRow[]) => void,
  onGap: () => void,
): LiveState {
  const [state, setState] = useState<LiveState>('off');
  const latest = useRef({ onRows, onGap });
  latest.current = { onRows, onGap };
  const isOut = isSignedOut.value;
  useEffect(() => {
    const isFollowed = path !== undefined && !isOut;
    setState(isFollowed ? 'connecting' : 'off');
    if (!isFollowed) return undefined;
    return follow(path, {
      onState: setState,
      onRows: (rows) => latest.current.onRows(rows),
      onGap: () => latest.current.onGap(),
    });
  }, [path, isOut]);
  return state;
}
