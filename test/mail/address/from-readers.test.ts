// Whoever reads a message that left sees the mailbox that was judged as its sender, and no other (D4b, D50). Python and
// Ruby are asked in test/system/from-readers.test.ts.

import { simpleParser } from 'mailparser';
import addressparser from 'nodemailer/lib/addressparser';
import { expect, test } from 'vitest';
import { comparable, fromLine, hostileFrom, sendFrom } from '../../support/hostile-from.ts';
import fc from '../../support/properties.ts';

async function seen(head: Buffer): Promise<readonly (readonly string[])[]> {
  const { from } = await simpleParser(head);
  return [
    (from?.value ?? []).map(({ address = '' }) => comparable(address)),
    addressparser(fromLine(head), { flatten: true }).map(({ address }) => comparable(address)),
  ];
}

test('two readers see the mailbox that was judged, whatever From was given', async () => {
  let accepted = 0;
  let refused = 0;
  await fc.assert(
    fc.asyncProperty(hostileFrom, async (given) => {
      const sent = await sendFrom(given);
      if (!sent) {
        refused += 1;
        return;
      }
      accepted += 1;
      expect(sent.judged).toMatch(/@(?:[^@]+\.)?(?:example\.com|xn--bcher-kva\.example)$/);
      expect(await seen(sent.head)).toEqual([[sent.judged], [sent.judged]]);
    }),
    { numRuns: 1000 },
  );
  // Both verdicts are tried.
  expect(accepted).toBeGreaterThan(200);
  expect(refused).toBeGreaterThan(200);
}, 60_000);
