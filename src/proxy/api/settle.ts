// Waits after a change until the listeners have followed it, so that the answer tells their true status.

import type { DataPlane } from '../plane/data-plane-interface.ts';

/** The longest time that an answer waits. */
const settleMs = 5000;

/** Waits for the listeners to follow, but not for ever: a status may still say `pending`. */
export async function settle(dataPlane: Pick<DataPlane, 'reconcile'>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, settleMs);
  });
  await Promise.race([dataPlane.reconcile(), late]);
  clearTimeout(timer);
}
