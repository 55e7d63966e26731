import { expect, test } from 'vitest';
import { diffLines, linesOf } from '../../../../src/web/console/web/text/line-diff.ts';
import fc from '../../../support/properties.ts';

const short = (left: string, right: string): string =>
  diffLines(left.split(''), right.split(''))
    .map(({ kind, text }) => ({ same: ' ', removed: '-', added: '+' })[kind] + text)
    .join('');

test.each([
  ['', '', ''],
  ['abc', 'abc', ' a b c'],
  ['', 'ab', '+a+b'],
  ['ab', '', '-a-b'],
  ['abc', 'axc', ' a-b+x c'],
  ['ac', 'abc', ' a+b c'],
  ['abcabba', 'cbabac', '-a-b c+b a b-b a+c'],
])('%j becomes %j by %j', (left, right, wanted) => {
  expect(short(left, right)).toBe(wanted);
});

const letters = fc.array(fc.constantFrom('a', 'b', 'c', 'd'), { maxLength: 40 });

test('both sides can be read from the difference, in their order and with their numbers', () => {
  fc.assert(
    fc.property(letters, letters, (left, right) => {
      const lines = diffLines(left, right);
      const ofLeft = lines.filter(({ kind }) => kind !== 'added');
      const ofRight = lines.filter(({ kind }) => kind !== 'removed');
      expect(ofLeft.map(({ text }) => text)).toEqual(left);
      expect(ofRight.map(({ text }) => text)).toEqual(right);
      expect(ofLeft.map((line) => line.left)).toEqual(left.map((_, index) => index + 1));
      expect(ofRight.map((line) => line.right)).toEqual(right.map((_, index) => index + 1));
    }),
  );
});

/** The length of the longest common subsequence, by the textbook's table. */
function longestCommon(left: readonly string[], right: readonly string[]): number {
  let above: number[] = [0, ...right.map(() => 0)];
  for (const one of left) {
    const row = [0];
    for (const [index, other] of right.entries()) {
      row.push(one === other ? (above[index] ?? 0) + 1 : Math.max(row[index] ?? 0, above[index + 1] ?? 0));
    }
    above = row;
  }
  return above.at(-1) ?? 0;
}

test('no line is told as changed that need not be', () => {
  fc.assert(
    fc.property(letters, letters, (left, right) => {
      const same = diffLines(left, right).filter(({ kind }) => kind === 'same').length;
      expect(same).toBe(longestCommon(left, right));
    }),
  );
});

test('texts that share nothing are told as replaced, however long they are', () => {
  const left = Array.from({ length: 20_000 }, (_, index) => `l${index}`);
  const right = Array.from({ length: 20_000 }, (_, index) => `r${index}`);
  const lines = diffLines(['same', ...left, 'end'], ['same', ...right, 'end']);
  expect(lines.length).toBe(40_002);
  expect([lines[0]?.kind, lines[1]?.kind, lines[20_001], lines.at(-1)]).toEqual([
    'same',
    'removed',
    { kind: 'added', text: 'r0', right: 2 },
    { kind: 'same', text: 'end', left: 20_002, right: 20_002 },
  ]);
});

test('lines end at CRLF, LF and CR', () => {
  expect(linesOf('a\r\nb\nc\rd\r\n')).toEqual(['a', 'b', 'c', 'd']);
  expect(linesOf('')).toEqual([]);
  expect(linesOf('a\r\n\r\n')).toEqual(['a', '']);
});
