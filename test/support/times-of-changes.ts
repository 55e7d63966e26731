// Measures how long changes that one gateway makes take to count at another one, beside how long a question to that one takes at
// the same moment, so that a busy machine is not taken for a slow gateway.

import { performance } from 'node:perf_hooks';
import { expect } from 'vitest';

/** How often a kind of change is made, and how often all of that is done once more where it took too long. */
const samples = 2;
const repeats = 2;
/** Within what time changes are to count elsewhere, in milliseconds (D94). */
const promisedMs = 1000;
/** The pause between two questions, in milliseconds. */
const pauseMs = 10;
/** Nothing is waited for longer than this, in milliseconds. */
const mostMs = 15_000;

/** A change and what shows that it counts. */
export interface Change {
  /** Makes it, at one gateway. */
  readonly make: () => Promise<unknown>;
  /** Whether it counts at the other one. */
  readonly counts: () => Promise<boolean>;
}

function median(times: readonly number[]): number {
  return times.toSorted((one, other) => one - other)[Math.floor(times.length / 2)] ?? Number.NaN;
}

/** Makes a change; gives the time until it counts, and the shortest time of a question about it. */
async function timeOf({ make, counts }: Change): Promise<{ readonly ms: number; readonly questionMs: number }> {
  await make();
  const made = performance.now();
  let questionMs = Number.POSITIVE_INFINITY;
  for (;;) {
    const asked = performance.now();
    const isThere = await counts();
    const now = performance.now();
    questionMs = Math.min(questionMs, now - asked);
    if (isThere || now - made > mostMs) return { ms: now - made, questionMs };
    await new Promise((wait) => setTimeout(wait, pauseMs));
  }
}

/**
 * Makes changes of a kind several times, and fails where the median of the times is over a second and what one question took, also
 * when that is done once more. Prints the times.
 * @param changes the changes of one time, in their order: such as one and its end
 */
export async function expectWithinASecond(kind: string, changes: readonly Change[]): Promise<void> {
  for (let round = 1; ; round += 1) {
    const taken: Awaited<ReturnType<typeof timeOf>>[] = [];
    for (let sample = 0; sample < samples; sample += 1) for (const change of changes) taken.push(await timeOf(change));
    const times = taken.map(({ ms }) => Math.round(ms));
    const allowedMs = promisedMs + 2 * median(taken.map(({ questionMs }) => questionMs));
    console.log(`${kind}: ${times.join(', ')} ms; a question takes ${Math.round((allowedMs - promisedMs) / 2)} ms`);
    if (median(times) < allowedMs) return;
    if (round === repeats) expect(median(times), kind).toBeLessThan(allowedMs);
  }
}
