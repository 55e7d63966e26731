// When a deferred recipient is tried again, and when it is given up.

import { expect, test } from 'vitest';
import { planRetry, settleOutcome } from '../../src/delivery/outcome.ts';
import { someTime } from '../support/spool-entry.ts';

const settings = {
  firstDelaySeconds: 60,
  maxDelaySeconds: 14_400,
  jitter: 0.2,
  expireAfterSeconds: 432_000,
};
const expiresAt = someTime + 432_000_000;

function delaySeconds(attempts: number, random = 0.5): number {
  const plan = planRetry(settings, { attempts, now: someTime, expiresAt, random });
  return plan === undefined ? Number.NaN : (plan - someTime) / 1000;
}

test('the delay doubles up to its maximum', () => {
  expect([1, 2, 3, 8, 9, 10, 1000].map((attempts) => delaySeconds(attempts))).toEqual([
    60, 120, 240, 7680, 14_400, 14_400, 14_400,
  ]);
});

test('the jitter stays within its bounds', () => {
  expect(delaySeconds(1, 0)).toBe(48);
  expect(delaySeconds(1, 0.999_999)).toBeCloseTo(72, 3);
});

test('the last attempt is made when the time is over', () => {
  const plan = (now: number) => planRetry(settings, { attempts: 9, now, expiresAt, random: 0.5 });
  expect(plan(expiresAt - 14_400_001)).toBe(expiresAt - 1);
  expect(plan(expiresAt - 14_399_999)).toBe(expiresAt);
  expect(plan(expiresAt - 1)).toBe(expiresAt);
  expect(plan(expiresAt)).toBeUndefined();
  expect(plan(expiresAt + 1)).toBeUndefined();
});

test('a deferral whose time is over fails with the last words', () => {
  const attempt = { host: 'h', attempts: 3, now: expiresAt, acceptedAt: someTime, expiresAt, random: 0 };
  const reply = { code: 451, enhanced: '4.2.1', text: 'busy' };
  expect(settleOutcome({ kind: 'deferred', reply }, settings, attempt)).toEqual({
    outcome: {
      kind: 'failed',
      host: 'h',
      reply: { code: 451, enhanced: '4.4.7', text: 'Expired after 5 days; last reply: 451 4.2.1 busy' },
    },
  });
  expect(settleOutcome({ kind: 'failed', reply }, settings, attempt).outcome.reply).toBe(reply);
  expect(settleOutcome({ kind: 'deferred', reply }, settings, { ...attempt, now: someTime })).toEqual({
    outcome: { kind: 'deferred', reply, host: 'h' },
    nextAttemptAt: someTime + 192_000,
  });
});
