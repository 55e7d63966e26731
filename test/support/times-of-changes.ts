// Waits until changes that one gateway makes count at another one, and prints how long that took.

import { performance } from 'node:perf_hooks';
import { expect } from 'vitest';

/** A change and what shows that it counts. */
export interface Change {
  /** Makes it, at one gateway. */
  readonly make: () => Promise<unknown>;
  /** Whether it counts at the other one. */
  readonly counts: () => Promise<boolean>;
}

/**
 * Makes changes of a kind, each once the one before counts, and fails where one does not count at all. D94 promises a second: the times
 * are printed, and no test asserts them.
 * @param changes such as one and its end
 */
export async function expectToCount(kind: string, changes: readonly Change[]): Promise<void> {
  const times: number[] = [];
  for (const { make, counts } of changes) {
    await make();
    const made = performance.now();
    await expect.poll(counts, { timeout: 15_000, interval: 10, message: kind }).toBe(true);
    times.push(Math.round(performance.now() - made));
  }
  console.log(`${kind}: ${times.join(', ')} ms`);
}
