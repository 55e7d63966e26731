// A clock that is set ahead by mistake must not have the journal thrown away.

import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { JournalTender } from '../../../src/app/wiring/journal/open-journal.ts';
import { BelievedTime } from '../../../src/base/clock.ts';
import { openDatabase } from '../../../src/base/database/sqlite-database.ts';
import { silentLog } from '../../../src/base/log.ts';
import { ContentGauge } from '../../../src/spool/journal/content-gauge.ts';
import { openSqliteJournal } from '../../../src/spool/journal/store/sqlite-journal-store.ts';
import { SqliteSpool } from '../../../src/spool/sqlite/sqlite-spool.ts';
import { manualClock } from '../../support/manual-clock.ts';
import { scratchFolder } from '../../support/scratch.ts';
import { someTime, spoolEntry } from '../../support/spool-entry.ts';

const hour = 3600;
const hourMs = hour * 1000;
const year = 365 * 24 * hour;

test('a step ahead is doubted for a day or until it is taken back, a step back never', () => {
  const clock = manualClock(someTime);
  const time = new BelievedTime(clock);
  clock.pass(5 * hour);
  expect(time.now()).toBe(someTime + 5 * hourMs);
  clock.jump(year);
  clock.pass(hour);
  expect(time.now()).toBe(someTime + 6 * hourMs);
  clock.jump(-year);
  expect(time.now()).toBe(someTime + 6 * hourMs);
  clock.jump(-year);
  expect(time.now()).toBe(someTime + 6 * hourMs - year * 1000);
  clock.jump(2 * year);
  expect(time.now()).toBe(someTime + 6 * hourMs - year * 1000);
  clock.pass(24 * hour);
  expect(time.now()).toBe(someTime + 30 * hourMs + year * 1000);
});

test('rows stay while the clock is a year ahead, and go once it has been so for a day', async () => {
  const file = join(scratchFolder(), 'postern.db');
  const clock = manualClock(someTime);
  const spool = await SqliteSpool.open({ file, clock });
  const journal = openSqliteJournal(await openDatabase(file), { keepDays: 30, maxOctets: 1, refusals: 10, copies: 10 });
  const gauge = new ContentGauge(1);
  const times = { askMs: 0, pressedMs: 0 };
  const tender = new JournalTender(journal, { gauge, times, clock, log: silentLog });
  onTestFinished(async () => {
    await tender.stop();
    await journal.close();
    await spool.close();
  });
  const add = async (): Promise<string> => {
    const details = { content: 'none', fields: [], verdicts: '', timings: {}, maxBodyOctets: 262_144 } as const;
    const entry = spoolEntry({ acceptedAt: clock.now(), journal: details });
    await spool.add(entry, clock.now());
    return entry.id;
  };
  /** Has it tended until the index has every row, and so at least once since. */
  const tended = () =>
    vi.waitFor(
      async () => {
        gauge.onPressed();
        expect((await journal.state()).waiting).toBe(0);
      },
      { timeout: 10_000, interval: 50 },
    );
  const old = await add();
  await tended();
  clock.jump(year);
  await add();
  await tended();
  await add();
  await tended();
  expect(await journal.find(old)).toBeDefined();
  clock.pass(25 * hour);
  await vi.waitFor(
    async () => {
      gauge.onPressed();
      expect(await journal.find(old)).toBeUndefined();
    },
    { timeout: 10_000, interval: 50 },
  );
});
