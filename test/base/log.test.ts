// The time of log lines, and how many there are in an outage.

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
