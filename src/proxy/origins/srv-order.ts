// The order in which the records of a service are tried (RFC 2782, "Weight").

import type { ServiceRecord } from './resolver.ts';

/** One record by weight: RFC 2782, a number from 0 to the sum of the weights, the first whose running sum reaches it. */
function pickByWeight(records: readonly ServiceRecord[], random: () => number): number {
  const sum = records.reduce((total, { weight }) => total + weight, 0);
  const drawn = Math.floor(random() * (sum + 1));
  let running = 0;
  return Math.max(
    0,
    records.findIndex(({ weight }) => {
      running += weight;
      return running >= drawn;
    }),
  );
}

/**
 * Puts SRV records in the order to try them: lower priorities first, within one by weight at random. Records with
 * weight 0 stand first when one is drawn, so that they are taken rarely beside others (RFC 2782). A target of `.` means
 * that there is no such service: it is left out.
 * @param random 0 to less than 1
 */
export function orderServices(records: readonly ServiceRecord[], random: () => number): readonly ServiceRecord[] {
  const ordered: ServiceRecord[] = [];
  const offered = records.filter(({ target }) => target !== '.');
  const priorities = [...new Set(offered.map(({ priority }) => priority))].toSorted((left, right) => left - right);
  for (const priority of priorities) {
    const left = offered
      .filter((record) => record.priority === priority)
      .toSorted((one, other) => Math.sign(one.weight) - Math.sign(other.weight));
    while (left.length > 0) {
      for (const picked of left.splice(pickByWeight(left, random), 1)) ordered.push(picked);
    }
  }
  return ordered;
}
