// Cuts long work on the main thread into slices, of which one runs in a turn of the event loop, however much waits.

import { performance } from 'node:perf_hooks';

/** The clock and the scheduling that slices use; tests pass their own. */
export interface SliceParts {
  /** Monotonic milliseconds. */
  readonly now: () => number;
  /** Runs a function in the next turn of the event loop. */
  readonly defer: (run: () => void) => void;
  /** Runs a function in this turn, once the piece of work that goes on now waits for something. */
  readonly afterPiece: (run: () => void) => void;
}

/** How long a slice lasts, in milliseconds. The piece of work under way at its end is still finished. */
export const sliceMs = 8;

const real: SliceParts = {
  now: () => performance.now(),
  defer: (run) => void setImmediate(run),
  // Ticks run when no microtask is left, and a piece of work is a chain of microtasks.
  afterPiece: (run) => queueMicrotask(() => process.nextTick(run)),
};

/**
 * Makes the function that long work calls between two small pieces of it. It resolves at once while the running slice has
 * time left, and otherwise in a later turn of the event loop, in the order of asking. So it may be called often. Those who wait
 * share a slice: were there one in each turn, whoever asks in the meantime would pass them, and they would wait for as many turns as they are.
 */
export function createSlices({ now, defer, afterPiece }: SliceParts = real): () => Promise<void> {
  const goOn = Promise.resolve();
  const waiting: (() => void)[] = [];
  let sliceEnd = Number.NEGATIVE_INFINITY;
  let deferred = false;

  function begin(): void {
    sliceEnd = now() + sliceMs;
    runNext();
  }

  function runNext(): void {
    waiting.shift()?.();
    deferred = waiting.length > 0;
    if (deferred) afterPiece(goOnOrDefer);
  }

  function goOnOrDefer(): void {
    if (now() < sliceEnd) runNext();
    else defer(begin);
  }

  return () => {
    if (now() < sliceEnd) return goOn;
    return new Promise((resolve) => {
      waiting.push(resolve);
      if (deferred) return;
      deferred = true;
      defer(begin);
    });
  };
}

/** The slices of the whole process: however many messages and requests are worked on, by SMTP or HTTP, they share them. */
export const yieldToEventLoop: () => Promise<void> = createSlices();
