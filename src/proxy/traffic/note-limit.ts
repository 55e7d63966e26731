// Keeps a flood out of the events and the log: a few refusals and errors a second are told, the others are only counted.

import type { MonotonicClock } from '../../base/clock.ts';
import type { ConnectionEvent } from '../application/application.ts';

/** How many events of each of the two kinds are told in one second. */
export const toldPerSecond = 10;

/** Tells events on to `tell`, refusals and errors at most ten of a kind a second; the next one says how many it hid. */
export function createNoteLimit(
  clock: MonotonicClock,
): (event: ConnectionEvent, tell: (event: ConnectionEvent) => void) => void {
  const windows = { refused: { start: 0, told: 0, hidden: 0 }, error: { start: 0, told: 0, hidden: 0 } };
  return (event, tell) => {
    if (event.kind !== 'refused' && event.kind !== 'error') return tell(event);
    const window = windows[event.kind];
    const now = clock.monotonic();
    if (now - window.start >= 1000) {
      window.start = now;
      window.told = 0;
    }
    if (window.told >= toldPerSecond) {
      window.hidden += 1;
      return undefined;
    }
    window.told += 1;
    const { hidden } = window;
    window.hidden = 0;
    return tell(hidden === 0 ? event : { ...event, reason: `${event.reason ?? ''} (and ${hidden} more before it)` });
  };
}
