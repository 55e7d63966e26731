// Suppression where nobody is there because the domain is not (D51): one answer suppresses nobody, a second one a day later
// does. What was answered before is read from the events, so it is tried on every store of them, and across restarts.

import { describe, expect, onTestFinished, test } from 'vitest';
import type { Clock } from '../../src/base/clock.ts';
import { openDatabase } from '../../src/base/database/sqlite-database.ts';
import { uuidv7 } from '../../src/base/ids.ts';
import { suppressByEvents } from '../../src/delivery/feedback/suppress-by-events.ts';
import { openSuppressionStore } from '../../src/delivery/feedback/suppression-store.ts';
import type { BouncedEvent } from '../../src/spool/events/mail-event.ts';
import type { Outcome, Spool } from '../../src/spool/spool.ts';
import { logLines } from '../support/log-lines.ts';
import { devAccount } from '../support/policy-fixtures.ts';
import { attemptOf, someTime, spoolEntry } from '../support/spool-entry.ts';

/** How the suite gets at a store. */
export interface StoreUnderTest {
  /** A fresh store that goes by this clock. */
  open(clock: Clock): Promise<Spool>;
  /** The same store, opened after that one was closed; absent: it ends with its process. */
  another?(clock: Clock): Promise<Spool>;
  /** Called after each test. */
  clean(): Promise<void>;
}

const minute = 60_000;
const day = 86_400_000;
const host = 'out';
const noDomain: Outcome = { kind: 'failed', reply: { code: 550, enhanced: '5.1.2', text: 'There is no domain' }, host };
const unlisted: Outcome = { kind: 'failed', reply: { code: 550, text: 'Your IP is on a blocklist' }, host };
const delivered: Outcome = { kind: 'delivered', reply: { code: 250, text: 'ok' }, host };
const account = { ...devAccount, name: 'dev', id: 'd'.repeat(32) };
const other = { ...devAccount, name: 'other', id: 'e'.repeat(32) };
const waiting = { timeout: 10_000, interval: 10 };

/** A store, the follower of its events, and the lists. */
async function setUp(store: StoreUnderTest) {
  let now = someTime;
  const clock: Clock = { now: () => now, monotonic: () => now };
  const database = await openDatabase(':memory:');
  const suppressions = await openSuppressionStore(database, clock);
  let spool = await store.open(clock);
  let end = new AbortController();
  let ended = Promise.resolve();
  const start = (): void => {
    end = new AbortController();
    const find = (name: string) => [account, other].find((one) => one.name === name);
    ended = suppressByEvents(
      { database, events: spool.events, suppressions, account: find, clock, log: logLines().log },
      end.signal,
    );
  };
  const stop = async (): Promise<void> => {
    end.abort();
    await ended;
  };
  onTestFinished(async () => {
    await stop();
    await spool.close();
    await database.close();
    await store.clean();
  });
  start();
  // The follower begins with what comes after its very first start.
  await expect.poll(() => database.query('SELECT * FROM feedback_cursor').catch(() => []), waiting).toHaveLength(1);
  let marks = 0;
  const suppressed = async (): Promise<readonly string[]> => {
    // A mark that suppresses at once: when it is there, everything before it has been dealt with.
    marks += 1;
    await spool.events.write([bounced(`mark${marks}@x.test`, now, 'no-such-user')]);
    await expect.poll(() => suppressions.isSuppressed(account.id, `mark${marks}@x.test`), waiting).toBe(true);
    const { entries } = await suppressions.list(account.id, { limit: 100 });
    return entries.map(({ address }) => address).filter((address) => !address.startsWith('mark'));
  };
  return {
    suppressed,
    pass: (milliseconds: number) => {
      now += milliseconds;
    },
    /** One message to a recipient, and what became of it. */
    send: async (recipient: string, outcome: Outcome, from = 'dev') => {
      const entry = spoolEntry({
        id: uuidv7(now),
        account: from,
        acceptedAt: now,
        expiresAt: now + 5 * day,
        recipients: [recipient],
      });
      await spool.add(entry, now + minute);
      await spool.record([attemptOf(entry, outcome, { recipient, at: now })]);
    },
    report: (recipient: string, rule: string) => spool.events.write([bounced(recipient, now, rule)]),
    restart: async () => {
      await stop();
      await spool.close();
      spool = await (store.another ? store.another(clock) : store.open(clock));
      start();
    },
  };
}

function bounced(recipient: string, at: number, rule: string): BouncedEvent {
  const id = uuidv7(at);
  return {
    ...{ kind: 'bounced', at, account: 'dev', sessionId: 's', queueId: id, messageId: `<${id}@x>`, acceptedAt: at },
    ...{ reportedBy: '192.0.2.9', recipient, bounceClass: 'hard', rule },
  };
}

/** Defines the suite for one store. */
export function secondAnswersContract(name: string, store: StoreUnderTest): void {
  describe(`a domain that is not there, ${name}`, () => {
    test.runIf(store.another !== undefined)(
      'one answer suppresses nobody, a second one a day later does, across a restart',
      async () => {
        const { send, pass, suppressed, restart } = await setUp(store);
        await send('bob@gone.test', noDomain);
        pass(day - minute);
        await send('bob@gone.test', noDomain);
        expect(await suppressed()).toEqual([]);
        await restart();
        pass(minute);
        await send('Bob@GONE.test', noDomain);
        expect(await suppressed()).toEqual(['bob@gone.test']);
      },
    );

    test('an answer between that is another one begins the day anew', async () => {
      const { send, pass, suppressed } = await setUp(store);
      await send('bob@gone.test', noDomain);
      await send('eve@gone.test', noDomain);
      pass(day / 2);
      await send('bob@gone.test', delivered);
      await send('eve@gone.test', unlisted);
      pass(day / 2);
      await send('bob@gone.test', noDomain);
      await send('eve@gone.test', noDomain);
      expect(await suppressed()).toEqual(['eve@gone.test']);
      pass(day);
      await send('bob@gone.test', noDomain);
      expect(new Set(await suppressed())).toEqual(new Set(['eve@gone.test', 'bob@gone.test']));
    });

    test('another account’s answer, another recipient’s, or another failure a day before is none', async () => {
      const { send, pass, suppressed } = await setUp(store);
      await send('bob@gone.test', noDomain, 'other');
      await send('eve@gone.test', noDomain);
      await send('sam@gone.test', unlisted);
      pass(2 * day);
      await send('bob@gone.test', noDomain);
      await send('sam@gone.test', noDomain);
      expect(await suppressed()).toEqual([]);
    });

    test('reports by a relay count alike: what was handed to it in between says nothing', async () => {
      const { send, report, pass, suppressed } = await setUp(store);
      await send('bob@gone.test', delivered);
      await report('bob@gone.test', 'words-no-such-domain');
      pass(day);
      await send('bob@gone.test', delivered);
      await report('bob@gone.test', 'no-such-domain');
      expect(await suppressed()).toEqual(['bob@gone.test']);
    });
  });
}
