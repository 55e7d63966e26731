import { describe, expect, test } from 'vitest';
import {
  writeClockMarks,
  writeCounted,
  writeDistance,
  writeDuration,
  writeExactTime,
  writeMark,
  writeOctets,
  writeTime,
} from '../../../../src/web/console/web/text/amounts.ts';
import { changeFilters, readFilters, sinceOf } from '../../../../src/web/console/web/text/filters.ts';
import { headerPath, matchPath, writePath } from '../../../../src/web/console/web/text/route-path.ts';
import { cutAt, visiblePieces } from '../../../../src/web/console/web/text/visible-text.ts';

describe('paths', () => {
  test.each([
    ['/console', '/', {}],
    ['/console/', '/', {}],
    ['/console/messages', '/messages', {}],
    ['/console/messages/', '/messages', {}],
    ['/console/messages/a%2Fb', '/messages/:id', { id: 'a/b' }],
    ['/console/messages/', '/messages/:id', undefined],
    ['/console/messages/a/b', '/messages/:id', undefined],
    ['/console/messages/%', '/messages/:id', undefined],
    ['/consoles', '/', undefined],
    ['/', '/', undefined],
  ])('%s is %s: %j', (path, pattern, wanted) => {
    expect(matchPath(path, pattern)).toEqual(wanted);
  });

  test('a path that was written is read again, whatever the id is', () => {
    for (const id of ['a b', 'ä/?#%', '..', "'<script>"]) {
      const path = new URL(writePath('/messages/:id', { id }), 'http://localhost').pathname;
      if (id !== '..') expect(matchPath(path, '/messages/:id')).toEqual({ id });
    }
  });
});

test('the page of a header can be linked, whatever its name is cut to', () => {
  expect([headerPath('X-Ä/..'), headerPath(`X-${'😀'.repeat(2)}`.slice(0, 3))]).toEqual([
    '/headers/X-%C3%84%2F..',
    '/headers/X-%EF%BF%BD',
  ]);
});

describe('filters', () => {
  test('known names are read, trimmed and cut, others left out', () => {
    expect(readFilters(`?q=+a%20b+&code=&x=1&client=${'1'.repeat(600)}`, ['q', 'code', 'client'])).toEqual({
      q: 'a b',
      client: '1'.repeat(500),
    });
  });

  test('a change leaves the others as they are, and nothing leaves no question mark', () => {
    expect(changeFilters('?account=dev&q=a', { q: 'b&c', code: 'E_X' })).toBe('?account=dev&q=b%26c&code=E_X');
    expect(changeFilters('?q=a', { q: ' ' })).toBe('');
    expect(changeFilters('?q=a', { q: undefined })).toBe('');
  });

  test('a span is a time before now; any other word but a time is none', () => {
    const now = Date.parse('2026-11-22T12:00:00Z');
    expect(sinceOf('1h', now)).toBe('2026-11-22T11:00:00.000Z');
    expect(sinceOf('2026-11-21T12:00:00+01:00', now)).toBe('2026-11-21T11:00:00.000Z');
    expect([sinceOf('constructor', now), sinceOf('yesterday', now), sinceOf(undefined, now)]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
  });
});

describe('text of strangers', () => {
  const shown = (text: string, keep?: 'lines'): string =>
    visiblePieces(text, keep)
      .map((piece) => (piece.kind === 'mark' ? `[${piece.text}]` : piece.text))
      .join('');

  test.each([
    ['plain text, ä, 漢字, אבג', 'plain text, ä, 漢字, אבג'],
    ['', ''],
    ['gpj.\u202etxe', 'gpj.[RLO]txe'],
    ['a\0b\tc\r\nd', 'a[NUL]b[TAB]c[CR][LF]d'],
    ['zero\u200bwidth', 'zero[ZWSP]width'],
    ['lone \ud800 surrogate', 'lone [U+D800] surrogate'],
    ['tag \u{e0041}', 'tag [U+E0041]'],
    ['family 👨‍👩‍👧, man 👩🏽‍🚒', 'family 👨‍👩‍👧, man 👩🏽‍🚒'],
    ['join\u200der', 'join[ZWJ]er'],
    ['blank\u3000wide', 'blank[U+3000]wide'],
  ])('%j is shown as %j', (text, wanted) => {
    expect(shown(text)).toBe(wanted);
  });

  test('line ends and tabs stay where the text is shown in lines', () => {
    expect(shown('a\tb\nc\rd', 'lines')).toBe('a\tb\nc[CR]d');
  });

  test('text is cut between characters', () => {
    expect(cutAt('abc', 3)).toEqual({ shown: 'abc', left: 0 });
    expect(cutAt('abcd', 3)).toEqual({ shown: 'abc', left: 1 });
    expect(cutAt('ab😀', 3)).toEqual({ shown: 'ab', left: 2 });
  });
});

describe('amounts', () => {
  test.each([
    [0, '0 B'],
    [1023, '1023 B'],
    [1024, '1 KB'],
    [1536, '1.5 KB'],
    [1_048_575, '1 MB'],
    [5_242_880, '5 MB'],
    [150 * 1024, '150 KB'],
  ])('%i octets are %s', (octets, wanted) => {
    expect(writeOctets(octets)).toBe(wanted);
  });

  test.each([
    [4.4, '4 ms'],
    [1500, '1.5 s'],
    [59_990, '1 min'],
    [90 * 60_000, '1 h 30 min'],
    [49 * 3_600_000, '2 d'],
  ])('%d ms are %s', (ms, wanted) => {
    expect(writeDuration(ms)).toBe(wanted);
  });

  test('distances lie before and after now', () => {
    const distances = [0, 59_000, -120_000, 26 * 3_600_000].map((ago) => writeDistance(1e12 - ago, 1e12));
    expect(distances).toEqual(['just now', '59 s ago', 'in 2 min', '26 h ago']);
  });

  test('a count has its noun in the singular once', () => {
    expect([writeCounted(1, 'message'), writeCounted(20, 'message'), writeCounted(0, 'entry', 'entries')]).toEqual([
      '1 message',
      '20 messages',
      '0 entries',
    ]);
  });

  test('a time tells the day and the year where they are not those of today', () => {
    const now = Date.parse('2026-11-22T12:00:00Z');
    const at = (text: string): string => writeTime(Date.parse(text), now, 'Asia/Tokyo');
    expect(at('2026-11-22T11:59:58Z')).toBe('20:59:58');
    expect(at('2026-11-21T14:59:58Z')).toBe('21 Nov, 23:59:58');
    expect(at('2025-11-22T12:00:00Z')).toBe('22 Nov 2025, 21:00:00');
    expect(writeExactTime(now, 'UTC')).toBe('Sunday, 22 November 2026 at 12:00:00 UTC (2026-11-22T12:00:00.000Z)');
  });
});

describe('marks of an axis', () => {
  test.each([
    [1000, 5, '0 ms, 1 s, 2 s, 3 s, 4 s'],
    [500, 4, '0 ms, 500 ms, 1 s, 1.5 s'],
    [30_000, 6, '0 ms, 30 s, 1 min, 1 min 30 s, 2 min, 2 min 30 s'],
    [20_000, 6, '0 ms, 20 s, 40 s, 1 min, 1 min 20 s, 1 min 40 s'],
    [1_800_000, 5, '0 ms, 30 min, 1 h, 1 h 30 min, 2 h'],
    [43_200_000, 6, '0 ms, 12 h, 1 d, 1 d 12 h, 2 d, 2 d 12 h'],
  ])('each %i ms are told exactly', (step, count, wanted) => {
    expect(Array.from({ length: count }, (_, at) => writeMark(at * step)).join(', ')).toBe(wanted);
  });

  test.each([
    ['a minute and more apart', ['2026-11-23T10:00:00Z', '2026-11-23T10:15:00Z'], ['10:00', '10:15']],
    ['less', ['2026-11-23T10:00:00Z', '2026-11-23T10:00:30Z'], ['10:00:00', '10:00:30']],
    [
      'a day apart',
      ['2026-11-22T18:00:00Z', '2026-11-23T06:00:00Z', '2026-11-23T18:00:00Z'],
      ['22 Nov 18:00', '23 Nov 06:00', '23 Nov 18:00'],
    ],
  ])('times are told without one twice: %s', (_, times, wanted) => {
    const marks = writeClockMarks(
      times.map((time) => Date.parse(time) / 1000),
      'UTC',
    );
    expect(marks).toEqual(wanted);
  });
});
