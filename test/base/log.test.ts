// The time of log lines.

import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { openLog } from '../../src/base/log.ts';

beforeEach(() => vi.useFakeTimers({ toFake: ['Date'] }));
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
