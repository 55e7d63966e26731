// What may wait for an origin: bounds of a session and of an application.

import { expect, test } from 'vitest';
import {
  mostPendingDatagrams,
  mostPendingOfApplication,
  pendingDatagrams,
} from '../../../src/proxy/traffic/udp-listener.ts';

const application = () => ({
  open: 0,
  connections: 0,
  refused: 0,
  failed: 0,
  bytesFromClients: 0,
  bytesFromOrigins: 0,
  datagramsDropped: 0,
});

test('a session keeps so many datagrams and no more, in their order, and is empty afterwards', () => {
  const pending = pendingDatagrams(application());
  const added = Array.from({ length: mostPendingDatagrams + 1 }, (_, index) => pending.add(Buffer.of(index)));
  expect(added).toEqual([...Array.from({ length: mostPendingDatagrams }, () => true), false]);
  expect(pending.take().map(([octet]) => octet)).toEqual(Array.from({ length: mostPendingDatagrams }, (_, at) => at));
  expect(pending.take()).toEqual([]);
  expect(pending.add(Buffer.of(1))).toBe(true);
});

test('a session keeps two of the largest datagrams, and not a third', () => {
  const pending = pendingDatagrams(application());
  const largest = Buffer.alloc(65_507);
  expect([pending.add(largest), pending.add(largest), pending.add(largest)]).toEqual([true, true, false]);
});

test('the sessions of an application share a bound, whatever their number; another application has its own', () => {
  const mine = application();
  const sessions = Array.from({ length: 10_000 }, () => pendingDatagrams(mine));
  const kept = sessions.filter((pending) => pending.add(Buffer.alloc(65_507)));
  expect(kept.length).toBeGreaterThan(100);
  expect(kept.length * 65_507).toBeLessThanOrEqual(mostPendingOfApplication);
  expect(pendingDatagrams(application()).add(Buffer.alloc(65_507))).toBe(true);
  for (const pending of sessions) pending.take();
  expect(sessions[0]?.add(Buffer.alloc(65_507))).toBe(true);
});
