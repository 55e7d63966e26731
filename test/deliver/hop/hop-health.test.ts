// How much a next hop is given, from its answers.

import { beforeEach, describe, expect, test } from 'vitest';
import { HopHealth, type HopLimits } from '../../../src/deliver/hop/hop-health.ts';
import { MessagePace } from '../../../src/deliver/hop/message-pace.ts';
import { isThrottling } from '../../../src/deliver/hop/throttling.ts';
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

function deferred(reply: SmtpReply) {
  return [{ kind: 'deferred', reply }];
}

const delivered = [{ kind: 'delivered', reply: ok }];

describe('throttling', () => {
  test('halves the connections once for all that were on the way, down to one, and then pauses', () => {
    const health = new HopHealth(limits, clock);
    const after: (readonly [number, number])[] = [];
    for (let count = 0; count < 5; count += 1) {
      health.ended(deferred(tooMany));
      health.ended(deferred(tooMany));
      after.push([health.connections, health.pausedFor]);
      now += 2000;
    }
    expect(after).toEqual([
      [4, 0],
      [2, 0],
      [1, 0],
      [1, 1000],
      [1, 2000],
    ]);
    expect(health.trouble).toBe('throttling');
    expect(health.lastWords).toEqual(tooMany);
  });

  test('is forgiven slowly: one connection in ten seconds in which messages were delivered', () => {
    const health = new HopHealth(limits, clock);
    health.ended(deferred(tooMany));
    for (let second = 0; second < 9; second += 1) {
      now += 1000;
      health.ended(delivered);
    }
    expect(health.connections).toBe(4);
    now += 1000;
    health.ended(delivered);
    expect(health.connections).toBe(5);
    for (let second = 0; second < 100; second += 1) {
      now += 1000;
      health.ended(delivered);
    }
    expect(health.connections).toBe(8);
    expect(health.trouble).toBeUndefined();
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
  const health = new HopHealth(limits, clock);
  const pauses: number[] = [];
  for (let count = 0; count < 60; count += 1) {
    if (health.ended(deferred(later))) pauses.push(health.pausedFor);
    now += health.pausedFor;
  }
  expect(pauses).toEqual([1000, 2000, 4000, 8000, 16_000]);
  expect(health.trouble).toBe('deferring');
  expect(health.connections).toBe(8);
  health.ended(delivered);
  expect(health.trouble).toBeUndefined();
});

test('one that refuses a recipient for good works', () => {
  const health = new HopHealth(limits, clock);
  for (let count = 0; count < 100; count += 1) {
    for (let other = 0; other < 15; other += 1) health.ended(deferred(later));
    health.ended([{ kind: 'failed', reply: { code: 550, text: 'no such user' } }]);
  }
  expect(health.pausedFor).toBe(0);
});

test('a back-off grows to its bound, counts once, and ends with the first message', () => {
  const health = new HopHealth({ ...limits, backoffSeconds: 5 }, clock);
  const refused: SmtpReply = { code: 451, enhanced: '4.4.1', text: 'ECONNREFUSED' };
  const delays: number[] = [];
  for (let count = 0; count < 5; count += 1) {
    delays.push(health.refused(refused));
    expect(health.refused(refused)).toBe(0);
    expect(health.connections).toBe(1);
    now += health.opensIn;
  }
  expect(delays).toEqual([1000, 2000, 4000, 5000, 5000]);
  health.opened(true);
  expect(health.isFailing).toBe(true);
  expect(health.served()).toBe(true);
  expect(health.connections).toBe(8);
});

test('a rate spreads messages, and lets those of one second begin at once after a pause', () => {
  const pace = new MessagePace(4, clock);
  const begun = (): number => {
    let count = 0;
    for (; pace.waitMs === 0 && count < 100; count += 1) pace.begin();
    return count;
  };
  expect(begun()).toBe(4);
  now += 250;
  expect(begun()).toBe(1);
  now += 100;
  expect(begun()).toBe(0);
  expect(pace.waitMs).toBe(150);
  now += 60_000;
  expect(begun()).toBe(4);
  expect(new MessagePace(undefined, clock).waitMs).toBe(0);
});
