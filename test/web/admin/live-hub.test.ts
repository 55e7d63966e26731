// The one reader behind all live streams, while the journal cannot be read for a time.

import { expect, test, vi } from 'vitest';
import { systemClock } from '../../../src/base/clock.ts';
import type { JournalItem } from '../../../src/spool/journal/journal.ts';
import { LiveHub, type LiveRow } from '../../../src/web/admin/journal/live-hub.ts';
import { MemorySpool } from '../../support/memory-spool/memory-spool.ts';

test('rows are told of in order, once the journal can be read again, and nothing ends the process', async () => {
  const spool = new MemorySpool(systemClock);
  let isBroken = false;
  let slow = 300;
  const rows = async (ids: readonly string[]): Promise<JournalItem[]> => {
    if (isBroken) throw new Error('the database is locked');
    // The first question takes longer than the next ones.
    const pause = slow;
    slow = 0;
    await new Promise((done) => setTimeout(done, pause));
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
  for (const id of ids.slice(0, 2)) {
    refuse(id);
    await new Promise((done) => setTimeout(done, 250));
  }
  await vi.waitFor(() => expect(told).toHaveLength(2), 3000);
  isBroken = true;
  refuse('three');
  await new Promise((done) => setTimeout(done, 500));
  refuse('four');
  await new Promise((done) => setTimeout(done, 300));
  isBroken = false;
  await vi.waitFor(() => expect(told.map(({ item }) => item.id)).toEqual(ids), 5000);
  unwatch();
});
