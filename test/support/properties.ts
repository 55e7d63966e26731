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

/** Characters below the surrogates, and surrogates, which are no characters. */
const belowSurrogates = 0xd800;
const surrogates = 0x800;

/**
 * Any character of Unicode, for `fc.string({ unit })`. It is what `unit: 'binary'` is, from the same seeds too; but for that
 * fast-check fills a table of a million characters, which takes each test file a second at its first use, and ten on a busy machine.
 */
export const anyCharacter: fc.Arbitrary<string> = fc.nat({ max: 0x10ffff - surrogates }).map(
  (number) => String.fromCodePoint(number < belowSurrogates ? number : number + surrogates),
  (value) => {
    const [first = '', ...others] = typeof value === 'string' ? value : '';
    if (first === '' || others.length > 0 || !first.isWellFormed()) throw new Error('It is not one character');
    const code = first.codePointAt(0) ?? 0;
    return code < belowSurrogates ? code : code - surrogates;
  },
);

export default fc;
