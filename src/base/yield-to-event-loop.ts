// Cuts long work on the main thread into slices, between which everything else gets its turn. Only one slice runs in a turn of
// the event loop, however much long work waits.

import { performance } from 'node:perf_hooks';

/** The clock and the scheduling that slices use; tests pass their own. */
export interface SliceParts {
  /** Monotonic milliseconds. */
  readonly now: () => number;
  /** Runs a function in the next turn of the event loop. */
  readonly defer: (run: () => void) => void;
}

/** How long a slice lasts, in milliseconds. The piece of work under way at its end is still finished. */
export const sliceMs = 8;

const real: SliceParts = { now: () => performance.now(), defer: (run) => void setImmediate(run) };

/**
 * Makes the function that long work calls between two small pieces of it. It resolves at once while the running slice has
 * time left, and otherwise in a later turn of the event loop, in the order of asking. So it may be called often.
 */
export function createSlices({ now, defer }: SliceParts = real): () => Promise<void> {
  const goOn = Promise.resolve();
  const waiting: (() => void)[] = [];
  let sliceEnd = Number.NEGATIVE_INFINITY;
  let deferred = false;

  function deferNext(): void {
    if (deferred || waiting.length === 0) return;
    deferred = true;
    defer(runNext);
  }

  function runNext(): void {
    deferred = false;
    const next = waiting.shift();
    sliceEnd = now() + sliceMs;
    next?.();
    deferNext();
  }

  return () => {
    if (now() < sliceEnd) return goOn;
    return new Promise((resolve) => {
      waiting.push(resolve);
      deferNext();
    });
  };
}

/** The slices of the whole process: however many messages and requests are worked on, by SMTP or HTTP, they share them. */
export const yieldToEventLoop: () => Promise<void> = createSlices();
