import { expect, test } from 'vitest';
import {
  type BodyFacts,
  createBodyScan,
  endWithCrlf,
  repairLineEndings,
  scanBody,
  sliceSize,
} from '../../../src/mail/mime/body-scan.ts';
import fc from '../../support/properties.ts';

/** The slow obvious reference. */
function reference(body: Buffer): BodyFacts {
  const text = body.toString('latin1');
  return {
    eightBit: [...body].some((octet) => octet > 127),
    nul: body.includes(0),
    bareCr: /\r(?!\n)/.test(text),
    bareLf: /(?<!\r)\n/.test(text),
    longestLine: Math.max(...text.split(/\r\n|\r|\n/).map((line) => line.length)),
  };
}

const octets = fc
  .array(fc.constantFrom(0, 9, 10, 10, 13, 13, 32, 65, 66, 200), { maxLength: 60 })
  .map((values) => Buffer.from(values));

test('any body, cut anywhere, gives what the slow reference gives', () => {
  fc.assert(
    fc.property(fc.array(octets, { maxLength: 6 }), (chunks) => {
      const scan = createBodyScan();
      for (const chunk of chunks) scan.push(chunk);
      expect(scan.result()).toEqual(reference(Buffer.concat(chunks)));
    }),
    { numRuns: 2000 },
  );
});

test.each([997, 998, 999])('a line of %i octets is measured', async (length) => {
  const facts = await scanBody(Buffer.from(`a\r\n${'x'.repeat(length)}\r\n`));
  expect(facts.longestLine).toBe(length);
});

test('a large body is scanned in slices and others get a turn', async () => {
  let turns = 0;
  const body = Buffer.from(`${'y'.repeat(70)}\r\n`.repeat(10_000));
  const facts = await scanBody(body, () => {
    turns += 1;
    return Promise.resolve();
  });
  expect(turns).toBe(Math.ceil(body.length / sliceSize) - 1);
  expect(facts).toMatchObject({ longestLine: 70, bareCr: false, bareLf: false });
});

test('repair turns bare CR and LF into CRLF and nothing else', async () => {
  await fc.assert(
    fc.asyncProperty(octets, async (body) => {
      const repaired = await repairLineEndings(body);
      const facts = reference(repaired);
      expect(facts.bareCr || facts.bareLf).toBe(false);
      expect(repaired.toString('latin1').split('\r\n')).toEqual(body.toString('latin1').split(/\r\n|\r|\n/));
    }),
  );
});

test('a CRLF across two slices stays one line end', async () => {
  const body = Buffer.concat([Buffer.alloc(sliceSize - 1, 'a'), Buffer.from('\r\nb\n')]);
  const repaired = await repairLineEndings(body);
  expect(repaired.subarray(sliceSize - 1).toString()).toBe('\r\nb\r\n');
});

test('a body ends with CRLF or is empty', () => {
  const whole = Buffer.from('a\r\n');
  expect(endWithCrlf(whole)).toBe(whole);
  expect(endWithCrlf(Buffer.from('a')).toString()).toBe('a\r\n');
  expect(endWithCrlf(Buffer.alloc(0))).toHaveLength(0);
});
