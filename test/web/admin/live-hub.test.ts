// The one reader behind all live streams, while the journal cannot be read for a time.

import { expect, test, vi } from 'vitest';
import { systemClock } from '../../../src/base/clock.ts';
import type { JournalItem } from '../../../src/spool/journal/journal.ts';
import { LiveHub, type LiveRow } from '../../../src/web/admin/journal/live-hub.ts';
import { MemorySpool } from '../../support/memory-spool/memory-spool.ts';

test('rows are told of in order, once the journal can be read again, and nothing ends the process', async () => {
  const spool = new MemorySpool(systemClock);
  let isBroken = false;
  let failures = 0;
  const asked: string[] = [];
  const first = Promise.withResolvers<void>();
  const rows = async (ids: readonly string[]): Promise<JournalItem[]> => {
    if (isBroken) {
      failures += 1;
      throw new Error('the database is locked');
    }
    asked.push(...ids);
    if (ids.includes('one')) await first.promise;
    const facts = { recipients: [], count: 0 };
    return ids.map((id, seq) => ({ seq, id, at: 0, account: 'dev', outcome: 'refused', facts }));
  };
  const hub = new LiveHub({ journal: { rows }, events: spool.events });
  const told: LiveRow[] = [];
  const unwatch = hub.watch({ account: 'dev', tell: (row) => void told.push(row) });
  await hub.missed(0, 'dev');
  const refuse = (journalId: string): void =>
    spool.events.refuse({
      ...{ account: 'dev', credential: 'default', sessionId: 's', via: 'smtp', clientAddress: '192.0.2.1' },
      stage: 'message',
      ...{ journalId, recipients: [], violations: [], violationCount: 0 },
    });
  const ids = ['one', 'two', 'three', 'four'];
  refuse('one');
  await vi.waitFor(() => expect(asked).toEqual(['one']), 3000);
  refuse('two');
  // Longer than rows are gathered, on purpose: what is shown is that it is not asked for while the answer before is awaited.
  await new Promise((done) => setTimeout(done, 250));
  expect(asked).toEqual(['one']);
  first.resolve();
  await vi.waitFor(() => expect(told).toHaveLength(2), 3000);
  isBroken = true;
  refuse('three');
  await vi.waitFor(() => expect(failures).toBeGreaterThan(0), 3000);
  refuse('four');
  const before = failures;
  await vi.waitFor(() => expect(failures).toBeGreaterThan(before), 5000);
  isBroken = false;
  await vi.waitFor(() => expect(told.map(({ item }) => item.id)).toEqual(ids), 5000);
  unwatch();
});
