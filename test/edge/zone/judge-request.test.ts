// What a zone lets through: lists, limits, sizes, and the order in which they are asked.

import { describe, expect, test } from 'vitest';
import { guardZone, type JudgedRequest, judgeRequest, type Verdict } from '../../../src/edge/zone/judge-request.ts';
import { createRateLimit } from '../../../src/edge/zone/rate-limit.ts';
import type { EdgeZone } from '../../../src/edge/zone/zone.ts';
import { clockOf } from '../../support/manual-clock.ts';

const zone: EdgeZone = {
  id: '1'.repeat(32),
  name: 'example.com',
  account: 'a'.repeat(32),
  hostnames: ['example.com'],
  origin: 'http://127.0.0.1:1',
};

function clockAt(start = 0) {
  let now = start;
  return { now: () => now, monotonic: () => now, pass: (ms: number) => (now += ms) };
}

function judge(given: Partial<EdgeZone>, request: Partial<JudgedRequest> = {}, isFull = false): Verdict {
  const path = request.path ?? '/';
  return known(
    judgeRequest(
      guardZone({ ...zone, ...given }, undefined),
      { method: 'GET', path, target: path, rawHeaders: [], clientAddress: '192.0.2.1', ...request },
      { maxHeaderBytes: 1000, isFull: () => isFull },
    ),
  );
}

/** A verdict that is known at once, as it is where one process counts. */
function known(verdict: Verdict | Promise<Verdict>): Verdict {
  if (verdict instanceof Promise) throw new Error('the verdict is not known at once');
  return verdict;
}

const error = (code: number) => ({ kind: 'error', code, asked: false });

describe('/cdn-cgi/', () => {
  const blocked = { block: ['192.0.2.1'], rateLimit: { requests: 1, perSeconds: 1 } };

  test.each(['GET', 'HEAD'])('%s /cdn-cgi/error/522 is answered, whoever asks', (method) => {
    const asked = { kind: 'error', code: 522, asked: true };
    expect(judge(blocked, { method, path: '/cdn-cgi/error/522' }, true)).toEqual(asked);
  });

  test.each(['POST', 'OPTIONS', 'TRACE', 'CONNECT', 'get'])('%s is not', (method) => {
    const path = '/cdn-cgi/error/522';
    expect(judge({}, { method, path })).toEqual({ kind: 'not-allowed', allow: 'GET, HEAD' });
  });

  test.each(['/cdn-cgi/error/999', '/cdn-cgi/', '/cdn-cgi/x'])('%s is not there', (path) => {
    for (const method of ['GET', 'POST']) expect(judge(blocked, { method, path })).toEqual({ kind: 'not-found' });
  });

  test('an error that is asked for is a request of the rate limit, what is not there is none', () => {
    const guarded = guardZone(zone, createRateLimit({ requests: 2, perSeconds: 60 }, clockAt()));
    const room = { maxHeaderBytes: 1000, isFull: () => false };
    const verdicts = ['/cdn-cgi/x', '/cdn-cgi/error/522', '/', '/cdn-cgi/error/522', '/', '/cdn-cgi/x'].map((path) =>
      known(
        judgeRequest(guarded, { method: 'GET', path, target: path, rawHeaders: [], clientAddress: '192.0.2.1' }, room),
      ),
    );
    expect(verdicts.map((verdict) => ('code' in verdict ? verdict.code : verdict.kind))).toEqual([
      'not-found',
      522,
      'forward',
      1015,
      1015,
      'not-found',
    ]);
  });
});

test.each([
  [{}, { kind: 'forward' }],
  [{ block: ['192.0.2.2'] }, { kind: 'forward' }],
  [{ block: ['192.0.2.0/24'] }, error(1006)],
  [{ allow: [] }, { kind: 'forward' }],
  [{ allow: ['192.0.2.1'] }, { kind: 'forward' }],
  [{ allow: ['192.0.2.2'] }, error(1020)],
  [{ block: ['192.0.2.1'], allow: ['192.0.2.1'] }, error(1006)],
])('%j: %j', (given, wanted) => {
  expect(judge(given)).toEqual(wanted);
});

test('a zone without an origin is 1004, after everything else', () => {
  const { origin: _, ...bare } = zone;
  const act = (isFull: boolean) =>
    judgeRequest(
      guardZone(bare, undefined),
      { method: 'GET', path: '/', target: '/', rawHeaders: [], clientAddress: '192.0.2.1' },
      { maxHeaderBytes: 1000, isFull: () => isFull },
    );
  expect(act(false)).toEqual(error(1004));
  expect(act(true)).toEqual(error(1200));
});

test.each([
  [999, { kind: 'forward' }],
  [1000, { kind: 'forward' }],
  [1001, error(1038)],
])('a header section of %i octets', (octets, wanted) => {
  const rawHeaders = ['Host', 'example.com', 'X', 'x'.repeat(octets - 'Host: example.com\r\nX: \r\n'.length)];
  expect(judge({}, { rawHeaders })).toEqual(wanted);
});

test.each([
  [1000, { kind: 'forward' }],
  [1001, error(1038)],
])('a target of %i octets', (octets, wanted) => {
  expect(judge({}, { target: `/${'x'.repeat(octets - 1)}` })).toEqual(wanted);
});

describe('the rate limit', () => {
  test('counts by client and window; what is refused is not counted', () => {
    const clock = clockAt(1_000_000);
    const limit = createRateLimit({ requests: 2, perSeconds: 10 }, clock);
    const take = (address: string) => limit.take(address) === 0;
    expect([take('192.0.2.1'), take('192.0.2.1'), take('192.0.2.1'), take('192.0.2.2')]).toEqual([
      true,
      true,
      false,
      true,
    ]);
    clock.pass(9999);
    expect(take('192.0.2.1')).toBe(false);
    clock.pass(1);
    expect([take('192.0.2.1'), take('192.0.2.1'), take('192.0.2.1')]).toEqual([true, true, false]);
  });

  test('an IPv6 client is its /64', () => {
    const limit = createRateLimit({ requests: 1, perSeconds: 10 }, clockAt());
    expect(limit.take('2001:db8:1:2::1') === 0).toBe(true);
    expect(limit.take('2001:db8:1:2:ffff::1') === 0).toBe(false);
    expect(limit.take('2001:db8:1:3::1') === 0).toBe(true);
  });

  test('remembers so many clients and no more, and forgets windows that have ended', () => {
    const clock = clockAt();
    const limit = createRateLimit({ requests: 1, perSeconds: 10 }, clock, 3);
    for (let last = 1; last <= 5; last += 1) expect(limit.take(`192.0.2.${last}`) === 0).toBe(true);
    expect(limit.size()).toBe(3);
    expect(limit.take('192.0.2.5') === 0).toBe(false);
    expect(limit.take('192.0.2.1') === 0).toBe(true);
    clock.pass(10_000);
    expect(limit.take('192.0.2.9') === 0).toBe(true);
    expect(limit.size()).toBe(1);
  });

  test('tells a client that is over it the seconds to the end of its window, rounded up and at least one', () => {
    let now = 0;
    const limit = createRateLimit(
      { requests: 1, perSeconds: 10 },
      clockOf(() => now),
    );
    const at = (time: number): number => {
      now = time;
      return limit.take('192.0.2.1');
    };
    expect([at(0), at(0), at(1), at(9000), at(9001), at(9999)]).toEqual([0, 10, 10, 1, 1, 1]);
    expect([at(10_000), at(10_000)]).toEqual([0, 10]);
  });
});
