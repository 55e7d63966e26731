// The time of now, which texts such as "4 min ago" are written from. It moves every few seconds while anybody looks.

import { signal } from '@preact/signals';

/** Milliseconds since 1970. */
export const now = signal(Date.now());

/** Moves the time from now on. */
export function followClock(): void {
  setInterval(() => {
    if (document.visibilityState === 'visible') now.value = Date.now();
  }, 5000);
  document.addEventListener('visibilitychange', () => (now.value = Date.now()));
}
