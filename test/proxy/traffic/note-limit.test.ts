// How a flood is told: ten of a kind a second, and how many were hidden.

import { expect, test } from 'vitest';
import type { ConnectionEvent } from '../../../src/proxy/application/application.ts';
import { createNoteLimit, toldPerSecond } from '../../../src/proxy/plane/running-applications.ts';
import { clockOf } from '../../support/manual-clock.ts';

test('refusals and errors are told ten times a second each, everything else always', () => {
  let now = 5000;
  const told: ConnectionEvent[] = [];
  const limit = createNoteLimit(clockOf(() => now));
  const note = (kind: ConnectionEvent['kind']): void =>
    limit({ at: now, kind, connection: '', client: '', port: 1, reason: 'why' }, (event) => void told.push(event));
  for (let count = 0; count < 25; count += 1) note('refused');
  note('error');
  for (let count = 0; count < 25; count += 1) note('connect');
  const count = (kind: string): number => told.filter((event) => event.kind === kind).length;
  expect([count('refused'), count('error'), count('connect')]).toEqual([toldPerSecond, 1, 25]);
  now += 999;
  note('refused');
  expect(count('refused')).toBe(toldPerSecond);
  now += 1;
  note('refused');
  note('refused');
  expect(told.slice(-2).map(({ reason }) => reason)).toEqual(['why (and 16 more before it)', 'why']);
});
