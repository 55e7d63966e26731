// Writes a range port by port, for formats that cannot add an offset to a port.

import type { CheckedPlan } from './exported.ts';

/** A range of more ports is left out: the file would be larger than anybody reads. */
const mostPorts = 256;

/** The bound ports of a plan and how far each is from the first; undefined where they are too many. */
export function eachPort({
  bound,
}: CheckedPlan): readonly { readonly port: number; readonly step: number }[] | undefined {
  const count = bound.last - bound.first + 1;
  if (count > mostPorts) return undefined;
  return Array.from({ length: count }, (_, step) => ({ port: bound.first + step, step }));
}

/** Why a longer range is left out. */
export const tooManyPorts = `its ports differ from the origin's, and each of them would need a section of its own, of which ${mostPorts} are the most`;
