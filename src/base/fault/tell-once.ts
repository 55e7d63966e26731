// Tells the log of work that is tried again and again and fails for a while: once for each reason, and once when it works again.

import { errorMessage } from '../errors.ts';

/** Reasons of one fault that are told at most: some of them may have a number in it that is another each time. */
const mostReasons = 5;

/** How the work ended now. */
export interface FaultTeller {
  readonly failed: (error: unknown) => void;
  readonly worked: () => void;
}

/** Makes it. @param tell.fault gets an error of each reason @param tell.over is called where a fault that was told is over */
export function tellOnce({ fault, over }: { fault: (error: unknown) => void; over: () => void }): FaultTeller {
  const reasons = new Set<string>();
  return {
    failed(error) {
      const reason = errorMessage(error);
      if (reasons.has(reason) || reasons.size >= mostReasons) return;
      reasons.add(reason);
      fault(error);
    },
    worked() {
      if (reasons.size === 0) return;
      reasons.clear();
      over();
    },
  };
}
