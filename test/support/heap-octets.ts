// What values keep in V8's heap: for tests of what is held in memory by something much smaller.

import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Collects all of this process that nothing holds any more. */
export function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
}

/** Makes so many values and keeps them. @returns the octets of the heap that each of them takes, about, when all else is collected */
export function heapOctetsOfEach(count: number, make: (index: number) => unknown): number {
  const kept: unknown[] = Array.from({ length: count }).fill(undefined);
  const held = (): number => {
    collectGarbage();
    return process.memoryUsage().heapUsed;
  };
  make(0);
  const before = held();
  for (let index = 0; index < count; index += 1) kept[index] = make(index);
  const octets = (held() - before) / count;
  if (kept.length !== count) throw new Error('The values must be kept until here');
  return octets;
}
