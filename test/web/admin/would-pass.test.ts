// The bounds of judging by another configuration: one request at once, so many messages, so long, and for nobody who has gone. The
// journal is a real one; of its messages nothing is kept, so that each is counted and none is judged.

import type { Socket } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { Clock } from '../../../src/base/clock.ts';
import { openDatabase } from '../../../src/base/database/sqlite-database.ts';
import { ConfigurationError } from '../../../src/base/errors.ts';
import { openSqliteJournal } from '../../../src/spool/journal/store/sqlite-journal-store.ts';
import { SqliteSpool } from '../../../src/spool/sqlite/sqlite-spool.ts';
import {
  type OtherConfiguration,
  type WouldPassParts,
  wouldPassEndpoint,
} from '../../../src/web/admin/journal/would-pass-endpoint.ts';
import { ask, startHttpApp } from '../../support/http-app.ts';
import { clockOf, manualClock } from '../../support/manual-clock.ts';
import { scratchFolder } from '../../support/scratch.ts';
import { someTime, spoolEntry } from '../../support/spool-entry.ts';

const timeout = 60_000;
/** A configuration that is asked about no message. */
const nobody: OtherConfiguration = { judge: async () => [], close: async () => undefined };
const nothing = { fields: [], verdicts: '', timings: {}, content: 'none', maxBodyOctets: 0 } as const;

/** Accepts so many messages. @returns their journal */
async function journalOf(count: number): Promise<WouldPassParts['journal']> {
  const file = join(scratchFolder(), 'postern.db');
  const spool = await SqliteSpool.open({ file });
  const journal = openSqliteJournal(await openDatabase(file), {
    keepDays: 30,
    maxOctets: 1e9,
    refusals: 10,
    copies: 10,
  });
  onTestFinished(async () => {
    await spool.close();
    await journal.close();
  });
  for (let done = 0; done < count; ) {
    const some = Array.from({ length: Math.min(1000, count - done) }, (_, at) =>
      spool.add(spoolEntry({ acceptedAt: someTime + done + at, journal: nothing }), someTime),
    );
    await Promise.all(some);
    done += some.length;
  }
  return journal;
}

async function start(count: number, more: Partial<Omit<WouldPassParts, 'journal'>> = {}) {
  const parts = { readOther: async () => nobody, clock: manualClock(), ...more };
  const endpoint = wouldPassEndpoint({ ...parts, journal: await journalOf(count) });
  const sockets: Socket[] = [];
  const { base } = await startHttpApp([
    (app) => {
      app.addHook('onRequest', async ({ raw }) => void sockets.push(raw.socket));
      endpoint(app);
    },
  ]);
  const judge = (signal?: AbortSignal, config = 'dataDir: data') =>
    ask(`${base}/client/v4/email/sending/would-pass`, {
      method: 'POST',
      headers: { Authorization: 'Bearer dev-boss', 'Content-Type': 'application/json' },
      body: JSON.stringify({ config, since: new Date(someTime).toISOString() }),
      ...(signal ? { signal } : {}),
    });
  return { judge, sockets };
}

test('one is judged at a time: another is told to come again, and the place is free afterwards', async () => {
  const held = Promise.withResolvers<void>();
  let read = 0;
  const readOther = async () => {
    read += 1;
    await held.promise;
    if (read === 2) throw new ConfigurationError('no configuration');
    return nobody;
  };
  const { judge } = await start(0, { readOther });
  const first = judge();
  await vi.waitFor(() => expect(read).toBe(1), 30_000);
  const second = await judge();
  expect([second.status, second.headers.get('retry-after'), second.json.errors]).toEqual([
    429,
    '5',
    [{ code: 10004, message: 'E_RATE_LIMIT_EXCEEDED: Another configuration is being judged' }],
  ]);
  held.resolve();
  expect((await first).status).toBe(200);
  // Neither an answer nor a refusal keeps the place.
  expect((await judge()).status).toBe(400);
  expect((await judge()).status).toBe(200);
  expect(read).toBe(3);
});

test('of 10,001 messages 10,000 are judged', { timeout }, async () => {
  const { judge } = await start(10_001);
  expect((await judge()).json.result).toMatchObject({ not_kept: 10_000, cut: true });
});

test('messages are judged for 15 seconds', async () => {
  let now = 0;
  const clock: Clock = clockOf(() => (now += 1000));
  const { judge } = await start(20, { clock });
  // The clock is read once before, and before each message: the fifteenth is 15 s behind the first.
  expect((await judge()).json.result).toMatchObject({ not_kept: 14, cut: true });
  expect(now).toBe(16_000);
});

test('nothing is judged for a client that has gone, and the place is free', async () => {
  const held = Promise.withResolvers<void>();
  const leaving = new AbortController();
  let asked = 0;
  const readOther = async () => {
    asked += 1;
    if (asked === 1) await held.promise;
    return nobody;
  };
  let reads = 0;
  const { judge, sockets } = await start(3, { readOther, clock: clockOf(() => (reads += 1)) });
  const gone = judge(leaving.signal).catch(() => 'gone');
  await vi.waitFor(() => expect(asked).toBe(1), 30_000);
  leaving.abort();
  expect(await gone).toBe('gone');
  await vi.waitFor(() => expect(sockets[0]?.readableEnded).toBe(true), 30_000);
  held.resolve();
  await vi.waitFor(async () => expect((await judge()).status).toBe(200), 30_000);
  // Once at the beginning of each, before the first message of the one, and before the three of the other.
  expect(reads).toBe(2 + 1 + 3);
});

test.each([
  ['flow entries', `accounts: [${'{},'.repeat(50_000)}{}]\n`],
  ['lines', '-\n'.repeat(100_001)],
  ['sequences on one line', `${'- '.repeat(100_001)}x`],
  ['lists in one another', '['.repeat(100_001)],
  ['keys that are marked', '? '.repeat(100_001)],
  ['lines of the old kind', 'a\r'.repeat(100_001)],
  ['pairs on one line', `${'a: '.repeat(100_001)}x`],
])('a text with too many %s is not read', { timeout }, async (_, config) => {
  const read = vi.fn<(text: string) => Promise<OtherConfiguration>>(async () => nobody);
  const { judge } = await start(0, { readOther: read });
  const answer = await judge(undefined, config);
  expect([answer.status, JSON.stringify(answer)]).toEqual([400, expect.stringContaining('at most 100000 are read')]);
  expect(read).not.toHaveBeenCalled();
  expect((await judge(undefined, `accounts: [${'{},'.repeat(40_000)}{}]\n`)).status).toBe(200);
});
