// Judges and prepares the largest Custom Error Rules that an account may put: node bench/custom-rules.ts [ROOT]. Prints what both take,
// and the longest time in which nothing else ran, in milliseconds. ROOT is a checkout whose `src` runs; this one if absent.

import { join, resolve } from 'node:path';
import type * as Rules from '../src/edge/custom/custom-error-rules.ts';

const root = resolve(process.argv[2] ?? join(import.meta.dirname, '..'));
// oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a checkout has the same file
const { compileRules, expressionFaults } = (await import(
  join(root, 'src/edge/custom/custom-error-rules.ts')
)) as typeof Rules;

let seed = 1;
function letter(): string {
  seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
  return String.fromCharCode(97 + (seed % 26));
}

const rules = Array.from({ length: 100 }, () => ({
  expression: `path contains "${Array.from({ length: 4070 }, letter).join('')}"`,
  content: 'x'.repeat(10_240),
  contentType: 'text/plain' as const,
}));

for (let round = 0; round < 4; round += 1) {
  const began = performance.now();
  expressionFaults(rules.map(({ expression }) => expression));
  const judged = performance.now();
  let [longest, last] = [0, judged];
  const timer = setInterval(() => {
    const now = performance.now();
    [longest, last] = [Math.max(longest, now - last), now];
  }, 1);
  await compileRules(rules, console.error);
  const prepared = performance.now();
  await new Promise((done) => setTimeout(done, 5));
  clearInterval(timer);
  const [first, second, third] = [judged - began, prepared - judged, longest].map((ms) => ms.toFixed(1));
  console.log(`judged in ${first} ms, prepared in ${second} ms, longest block meanwhile ${third} ms`);
}
