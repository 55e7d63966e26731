// Tells the log of work that is tried again and again and fails for a while: once for each reason, and once when it works again.

import { errorMessage } from '../errors.ts';

/** Reasons of one fault that are told at most: some of them may have a number in it that is another each time. */
const mostReasons = 5;

/**
 * Makes it. @param tell.fault gets an error of each reason @param tell.over is called where a fault that was told is over
 * @returns what is told how the work ended now
 */
export function tellOnce({ fault, over }: { fault: (error: unknown) => void; over: () => void }) {
  const reasons = new Set<string>();
  return {
    failed: (error: unknown): void => {
      const reason = errorMessage(error);
      if (reasons.has(reason) || reasons.size >= mostReasons) return;
      reasons.add(reason);
      fault(error);
    },
    worked: (): void => {
      if (reasons.size === 0) return;
      reasons.clear();
      over();
    },
  };
}
