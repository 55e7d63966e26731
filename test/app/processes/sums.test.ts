// What the supervisor counts over all processes stays right when several end at the same moment, and when what a process has sent
// is read after its end.

import { Counter, Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { SharedPlaces } from '../../../src/app/processes/shared-places.ts';
import { MetricsSum } from '../../../src/app/processes/sum-metrics.ts';
import type { MetricValues } from '../../../src/base/process-group.ts';

async function valuesWith(count: number): Promise<MetricValues> {
  const registry = new Registry();
  new Counter({ name: 'things_total', help: 'Things', registers: [registry] }).inc(count);
  return await registry.getMetricsAsJSON();
}

test('counters of processes that end at the same moment all stay in the sum, at every moment', async () => {
  const sum = new MetricsSum();
  for (const number of [1, 2, 3]) sum.read(number, await valuesWith(number));
  sum.gone(1);
  sum.gone(2);
  expect(await sum.text([])).toContain('things_total 6');
  sum.gone(3);
  for (let round = 0; round < 10; round += 1) expect(await sum.text([])).toContain('things_total 6');
  // A process that was started in the place of one adds to it.
  sum.read(1, await valuesWith(10));
  expect(await sum.text([])).toContain('things_total 16');
});

test('what a process has sent before its end and is read after it changes no count', () => {
  const counts = new SharedPlaces();
  const wanted = [
    { key: 'smtp 192.0.2.1', most: 1 },
    { key: 'smtp', most: 10 },
  ];
  const keys = wanted.map(({ key }) => key);
  const [before, after] = [{ run: 1 }, { run: 2 }];
  expect(counts.take(before, wanted)).toBe(undefined);
  counts.gone(before);
  // It had asked for a connection more: its place would never come back.
  expect(counts.take(before, wanted)).toBe(undefined);
  expect(counts.take(after, wanted)).toBe(undefined);
  // The connection that it tells of has been forgotten: the one that is open now still counts.
  counts.giveBack(before, keys);
  expect(counts.take(after, wanted)).toBe(0);
  counts.giveBack(after, keys);
  expect(counts.ask(wanted)).toBe(undefined);
  expect(counts.take(after, wanted)).toBe(undefined);
  // Where one of the keys has none left, none is taken of the others.
  expect(counts.take(after, [{ key: 'other', most: 1 }, ...wanted])).toBe(1);
  expect(counts.ask([{ key: 'other', most: 1 }])).toBe(undefined);
});
