// fast-check, as every property here imports it: with a seed that is the same at each run, so that a suite which passed passes
// again on the same code. `npm run test:properties` tries other seeds.

import fc from 'fast-check';

const asked = process.env['POSTERN_PROPERTY_SEED'];

/**
 * The seed of every property that names none of its own: an integer of 32 bits from `POSTERN_PROPERTY_SEED`, another one for each
 * property and run where that is `random`, or else 1. A failure prints the seed that it came with.
 * @throws Error where `POSTERN_PROPERTY_SEED` is anything else
 */
function configureSeed(): void {
  if (asked === 'random') return;
  const seed = asked === undefined ? 1 : Number(asked);
  if ((seed | 0) !== seed)
    throw new Error(`POSTERN_PROPERTY_SEED: ${asked} is neither an integer of 32 bits nor "random"`);
  fc.configureGlobal({ ...fc.readConfigureGlobal(), seed });
}

configureSeed();

export default fc;
