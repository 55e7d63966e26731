// The time of log lines, and how many there are in an outage.

import { pino } from 'pino';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { gatherErrors, openLog } from '../../src/base/log.ts';
import { logLines } from '../support/log-lines.ts';

beforeEach(() => vi.useFakeTimers({ toFake: ['Date', 'setTimeout'] }));
afterEach(() => vi.useRealTimers());

test('is the time of the line, within a second, across seconds, and when the clock goes back', () => {
  const lines: string[] = [];
  const { log } = openLog('info', { write: (line) => lines.push(line) });
  const times = [
    '2026-11-21T12:00:00.000Z',
    '2026-11-21T12:00:00.007Z',
    '2026-11-21T12:00:00.999Z',
    '2026-11-21T12:00:01.000Z',
    '2026-11-21T11:59:59.090Z',
    '2027-01-01T00:00:00.100Z',
  ];
  for (const time of times) {
    vi.setSystemTime(new Date(time));
    log.info('x');
  }
  expect(lines.map((line) => JSON.parse(line))).toEqual(times.map((time) => ({ level: 'info', time, msg: 'x' })));
});

test('a line is what pino itself writes, whatever its fields are', () => {
  const lines: string[] = [];
  const { log } = openLog('trace', { write: (line) => lines.push(line) });
  const plain: string[] = [];
  const ofPino = pino(
    {
      level: 'trace',
      base: null,
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      formatters: { level: (level) => ({ level }) },
    },
    { write: (line: string) => plain.push(line) },
  );
  const circular: Record<string, unknown> = { id: 1 };
  circular['self'] = circular;
  const fields = [
    {},
    { session: 'ab', id: undefined, recipients: 1, size: 0.5, isHeld: false, none: null },
    { text: 'say "no"\\\n\u2028 \u0007 Grüße 日本 \ud800', 'a "name"': 1 },
    { wrong: Number.NaN, endless: Number.POSITIVE_INFINITY, write: () => 1, list: [1, undefined, 'x'] },
    { deep: { er: { est: [{}] } }, at: new Date(0) },
    { err: new RangeError('too far'), id: 2 },
    circular,
  ];
  vi.setSystemTime(new Date('2026-11-21T12:00:00.000Z'));
  for (const each of fields) {
    for (const target of [log, ofPino]) {
      target.warn(each, 'said "so"');
      target.info(each);
      target.child({ of: 'a part' }).debug(each, 'in part');
    }
  }
  expect(lines).toEqual(plain);
  expect(lines.length).toBe(3 * fields.length);
});

test('an error of each of many messages is three lines and one with the number of the others, and again later', () => {
  const { log, lines } = logLines();
  const gathered = gatherErrors(log, ['Cannot read']);
  for (let id = 1; id <= 100_000; id += 1) gathered.error({ id }, 'Cannot read');
  gathered.error({ id: 1 }, 'Cannot write');
  gathered.info({ id: 2 }, 'Cannot read');
  expect(lines.map(({ msg, id, count }) => [msg, id, count])).toEqual([
    ...[1, 2, 3].map((id) => ['Cannot read', id, undefined]),
    ['Cannot write', 1, undefined],
    ['Cannot read', 2, undefined],
  ]);
  vi.advanceTimersByTime(10_000);
  expect(lines.slice(5)).toMatchObject([{ level: 'error', msg: 'Cannot read', id: 100_000, count: 99_997 }]);
  gathered.error({ id: 7 }, 'Cannot read');
  vi.advanceTimersByTime(10_000);
  expect(lines.slice(6)).toMatchObject([{ id: 7 }]);
});
