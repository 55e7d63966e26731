// How much a next hop is given, from its answers.

import { beforeEach, describe, expect, test } from 'vitest';
import { createPace, HopAllowance } from '../../../src/delivery/hop/hop-allowance.ts';
import type { HopLimits } from '../../../src/delivery/hop/hop-health.ts';
import { isThrottling } from '../../../src/delivery/hop/hop-health.ts';
import { wholeShares } from '../../../src/delivery/hop/hop-share.ts';
import type { SmtpReply } from '../../../src/mail/smtp-reply.ts';

let now = 0;
const clock = { monotonic: () => now };
const limits: HopLimits = { connections: 8, messagesPerConnection: 100, backoffSeconds: 60 };
const tooMany: SmtpReply = { code: 421, enhanced: '4.7.0', text: 'Too many connections' };
const later: SmtpReply = { code: 450, enhanced: '4.2.1', text: 'Mailbox busy' };
const ok: SmtpReply = { code: 250, text: 'ok' };

beforeEach(() => {
  now = 1_000_000;
});

const gone: SmtpReply = { code: 451, enhanced: '4.4.1', text: 'ECONNREFUSED' };

/** What a next hop is given, and what may happen to it; `open` are the connections beside the one that it happens to. */
function hop(changes: Partial<HopLimits> = {}) {
  const parts = { limits: { ...limits, ...changes }, clock, shares: wholeShares };
  const user = { hop: 'x', open: () => 0, isUnused: () => false, changed: () => undefined };
  const allowance = new HopAllowance(parts, user);
  const ended = (kind: string, reply: SmtpReply, open = 1) =>
    allowance.tell({ kind: 'ended', results: [{ kind, reply }], served: 1, open, opening: 0 });
  return {
    allowance,
    deferred: (reply: SmtpReply, open?: number) => ended('deferred', reply, open),
    delivered: () => ended('delivered', ok),
    failed: () => ended('failed', { code: 550, text: 'no such user' }),
    refused: (reply: SmtpReply, open = 0, opening = 0) =>
      allowance.tell({ kind: 'refused', reply, asksForLess: reply === tooMany, open, opening }),
    opened: () => allowance.tell({ kind: 'opened' }),
    closed: (by: SmtpReply, served = 0) => allowance.tell({ kind: 'closed', by, served, open: 0, opening: 0 }),
  };
}

describe('throttling', () => {
  test('halves the connections once for all that were on the way, down to one, and then pauses', () => {
    const { allowance, deferred } = hop();
    const after: (readonly [number, number])[] = [];
    for (let count = 0; count < 5; count += 1) {
      deferred(tooMany);
      deferred(tooMany);
      after.push([allowance.connections, allowance.pausedFor]);
      now += 2000;
    }
    expect(after).toEqual([
      [4, 0],
      [2, 0],
      [1, 0],
      [1, 1000],
      [1, 2000],
    ]);
    expect(allowance.trouble).toBe('throttling');
    expect(allowance.lastWords).toEqual(tooMany);
  });

  test('is forgiven slowly: one connection in ten seconds in which messages were delivered', () => {
    const { allowance, deferred, delivered } = hop();
    deferred(tooMany);
    for (let second = 0; second < 9; second += 1) {
      now += 1000;
      delivered();
    }
    expect(allowance.connections).toBe(4);
    now += 1000;
    expect(delivered()).toBe('more');
    expect(allowance.connections).toBe(5);
    for (let second = 0; second < 100; second += 1) {
      now += 1000;
      delivered();
    }
    expect(allowance.connections).toBe(8);
    expect(allowance.trouble).toBeUndefined();
  });

  test('a connection refused beside others that are open asks for less, and leaves those that are open', () => {
    const { allowance, refused, opened } = hop();
    // Eight are tried at once: five are refused before the first of the others is ready.
    expect([7, 6, 5, 4, 3].map((opening) => refused(tooMany, 0, opening))).toEqual(['less', ...Array(4).fill('same')]);
    for (let open = 0; open < 3; open += 1) opened();
    expect([allowance.trouble, allowance.isDown, allowance.connections]).toEqual(['throttling', false, 4]);
    expect([allowance.mayOpen(3, 0), allowance.opensIn]).toEqual([false, 1000]);
    now += 1000;
    expect(allowance.mayOpen(3, 0)).toBe(true);
    expect(refused(tooMany, 3)).toBe('less');
    expect([allowance.connections, allowance.pausedFor]).toEqual([3, 0]);
    now += 60_000;
    expect(allowance.mayOpen(3, 0)).toBe(false);
  });

  test('each time that one more was too many, the next try comes later, up to five minutes', () => {
    const { allowance, refused, delivered } = hop();
    refused(tooMany, 3);
    now += 1000;
    refused(tooMany, 3);
    const tries: number[] = [];
    for (let since = now; tries.length < 8; ) {
      now += 1000;
      delivered();
      if (!allowance.mayOpen(3, 0)) continue;
      tries.push((now - since) / 1000);
      refused(tooMany, 3);
      since = now;
    }
    expect(tries).toEqual([20, 40, 80, 160, 300, 300, 300, 300]);
    // Once it takes one more for as long, the next comes as soon as at first.
    for (let second = 0; second < 600; second += 1) {
      now += 1000;
      delivered();
    }
    expect(allowance.connections).toBe(5);
    for (let second = 0; second < 10; second += 1) {
      now += 1000;
      delivered();
    }
    expect(allowance.connections).toBe(6);
  });

  test('without a connection, one that asks for less and served within a minute is throttled, later it is down', () => {
    const { allowance, refused, delivered, deferred } = hop();
    expect([refused(tooMany), allowance.trouble]).toEqual(['less', 'down']);
    now += 1000;
    delivered();
    now += 59_999;
    expect([refused(tooMany), allowance.trouble, allowance.isDown]).toEqual(['less', 'throttling', false]);
    now += 1000;
    expect([refused(tooMany), allowance.trouble, allowance.opensIn]).toEqual(['less', 'down', 2000]);
    now += 2000;
    delivered();
    // 421 in place of an answer to MAIL, on its only connection.
    deferred(tooMany, 0);
    expect([allowance.trouble, allowance.isDown]).toEqual(['throttling', false]);
    now += 60_000;
    deferred(tooMany, 0);
    expect([allowance.trouble, allowance.isDown]).toEqual(['down', true]);
  });

  test('what cannot be reached beside open connections is tried with one connection at a time, ever later', () => {
    const { allowance, refused, delivered } = hop();
    const waits: number[] = [];
    for (let count = 0; count < 8; count += 1) {
      expect(allowance.mayOpen(3, 1)).toBe(count === 0);
      refused(gone, 3);
      delivered();
      expect([allowance.isDown, allowance.connections]).toEqual([false, 8]);
      waits.push(allowance.opensIn / 1000);
      now += allowance.opensIn;
    }
    expect(waits).toEqual([1, 2, 4, 8, 16, 32, 60, 60]);
  });

  test.each<[SmtpReply, boolean]>([
    [{ code: 421, text: 'Closing' }, true],
    [{ code: 451, enhanced: '4.7.1', text: 'Rate limited' }, true],
    [{ code: 450, enhanced: '4.7.28', text: 'Unusual rate of mail' }, true],
    [{ code: 452, enhanced: '4.3.2', text: 'Not now' }, true],
    [{ code: 451, enhanced: '4.4.5', text: 'Congested' }, true],
    [{ code: 450, text: 'Too many connections from your address' }, true],
    [{ code: 450, enhanced: '4.7.1', text: 'Greylisted, come back in 5 minutes' }, false],
    [{ code: 450, enhanced: '4.7.1', text: 'Gray-listing in action' }, false],
    [{ code: 450, enhanced: '4.2.2', text: 'Mailbox full' }, false],
    [{ code: 451, enhanced: '4.4.2', text: 'The connection was lost at DATA' }, false],
    [{ code: 550, enhanced: '5.7.1', text: 'Too many of your kind' }, false],
    [{ code: 250, text: 'Too many thanks' }, false],
  ])('%j: %s', (reply, expected) => {
    expect(isThrottling(reply)).toBe(expected);
  });
});

test('a next hop that defers everything is left alone for longer and longer, until it takes a message', () => {
  const { allowance, deferred, delivered } = hop();
  const pauses: number[] = [];
  for (let count = 0; count < 60; count += 1) {
    if (deferred(later) === 'less') pauses.push(allowance.pausedFor);
    now += allowance.pausedFor;
  }
  expect(pauses).toEqual([1000, 2000, 4000, 8000, 16_000]);
  expect(allowance.trouble).toBe('deferring');
  expect(allowance.connections).toBe(8);
  delivered();
  expect(allowance.trouble).toBeUndefined();
});

test('one that refuses a recipient for good works', () => {
  const { allowance, deferred, failed } = hop();
  for (let count = 0; count < 100; count += 1) {
    for (let other = 0; other < 15; other += 1) deferred(later);
    failed();
  }
  expect(allowance.pausedFor).toBe(0);
});

test('a back-off grows to its bound, counts once, and ends with the first message', () => {
  const { allowance, refused, opened, closed, delivered } = hop({ backoffSeconds: 5 });
  const delays: number[] = [];
  for (let count = 0; count < 5; count += 1) {
    expect([refused(gone), refused(gone)]).toEqual(['less', 'same']);
    delays.push(allowance.opensIn);
    expect(allowance.connections).toBe(1);
    now += allowance.opensIn;
  }
  expect(delays).toEqual([1000, 2000, 4000, 5000, 5000]);
  // It takes a connection and drops it.
  opened();
  expect(allowance.opensIn).toBe(0);
  closed(gone);
  expect([allowance.isDown, allowance.opensIn]).toEqual([true, 5000]);
  now += 5000;
  opened();
  expect([allowance.isDown, allowance.connections]).toEqual([true, 1]);
  expect(delivered()).toBe('more');
  expect([allowance.isDown, allowance.connections, allowance.opensIn]).toEqual([false, 8, 0]);
});

test('three connections in a row that end before they served a message make a back-off', () => {
  const { allowance, opened, closed } = hop();
  for (const expected of [false, false, true]) {
    opened();
    closed(gone);
    expect(allowance.isDown).toBe(expected);
  }
});

test('a rate spreads messages, and lets those of one second begin at once after a pause', () => {
  const pace = createPace(() => 4, clock);
  const begun = (): number => {
    let count = 0;
    for (; pace.waitMs() === 0 && count < 100; count += 1) pace.begin();
    return count;
  };
  expect(begun()).toBe(4);
  now += 250;
  expect(begun()).toBe(1);
  now += 100;
  expect(begun()).toBe(0);
  expect(pace.waitMs()).toBe(150);
  now += 60_000;
  expect(begun()).toBe(4);
  expect(createPace(() => undefined, clock).waitMs()).toBe(0);
});
