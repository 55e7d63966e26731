// The spool in PostgreSQL under the contracts of spools and events.

import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { type Clock, systemClock } from '../../src/base/clock.ts';
import { openPostgres } from '../../src/base/database/postgres-database.ts';
import { isOfOneStatement, isOutOfReach } from '../../src/base/database/postgres-errors.ts';
import { Unavailable } from '../../src/base/errors.ts';
import { uuidv7 } from '../../src/base/ids.ts';
import { readFacts } from '../../src/spool/encoded-event.ts';
import type { EventLimits } from '../../src/spool/events/event-store.ts';
import { outcomeNumbers } from '../../src/spool/journal/journal-row.ts';
import { openPostgresJournal } from '../../src/spool/journal/store/postgres-journal-store.ts';
import { notesOf, withNotes } from '../../src/spool/journal/writer/journal-of-event.ts';
import { sendRows } from '../../src/spool/journal/writer/postgres-journal.ts';
import { PostgresSpool } from '../../src/spool/postgres/postgres-spool.ts';
import { type BatchKey, ProcessRegister } from '../../src/spool/postgres/process-register.ts';
import { PostgresSession } from '../../src/spool/postgres/server/postgres-session.ts';
import type { SpoolEntry } from '../../src/spool/spool.ts';
import { eventsContract } from '../contract/events.ts';
import { expectedMessagesContract } from '../contract/expected-messages.ts';
import { journalContract } from '../contract/journal.ts';
import { reportsContract } from '../contract/reports.ts';
import { secondAnswersContract } from '../contract/second-answers.ts';
import { spoolContract } from '../contract/spool.ts';
import { threadsContract } from '../contract/threads.ts';
import { turnsContract } from '../contract/turns.ts';
import { claimAny } from '../support/claim-any.ts';
import { type PostgresServer, startPostgres } from '../support/postgres.ts';
import { countsOf } from '../support/spool-counts.ts';
import { attemptOf, spoolEntry } from '../support/spool-entry.ts';
import { createSpoolTables } from '../support/spool-tables.ts';
import { requirePrograms } from './programs.ts';

let server: PostgresServer;
beforeAll(async () => {
  requirePrograms('runuser', 'pg_ctlcluster');
  server = await startPostgres();
});
afterAll(() => server?.remove());

let url = '';

/** The server's clock is right, whatever is done to the clock of the gateway's host. */
function opened(clock: Clock, eventLimits?: EventLimits): Promise<PostgresSpool> {
  return PostgresSpool.open({
    url,
    clock,
    serverTime: () => clock.monotonic(),
    ...(eventLimits ? { eventLimits } : {}),
  });
}

const store = {
  open: async (clock: Clock, eventLimits?: EventLimits) => {
    url = await createSpoolTables(server);
    return await opened(clock, eventLimits);
  },
  another: opened,
  clean: async () => undefined,
};

spoolContract('PostgreSQL spool', { ...store, open: (clock) => store.open(clock), another: (clock) => opened(clock) });
expectedMessagesContract('PostgreSQL spool', async (onCommitted) => {
  url = await createSpoolTables(server);
  return await PostgresSpool.open({ url, onCommitted });
});
eventsContract('PostgreSQL spool', { ...store, another: (clock) => opened(clock) });
secondAnswersContract('PostgreSQL', {
  ...store,
  open: (clock) => store.open(clock),
  another: (clock) => opened(clock),
});
threadsContract('PostgreSQL spool', { ...store, open: (clock) => store.open(clock) });
journalContract('PostgreSQL spool', {
  open: async (clock, limits, options) => {
    url = await createSpoolTables(server);
    const spool = await PostgresSpool.open({ url, clock, ...options, serverTime: () => clock.monotonic() });
    return { spool, journal: openPostgresJournal(await openPostgres({ url, connections: 2 }), limits) };
  },
  clean: async () => undefined,
});
reportsContract('PostgreSQL spool', {
  ...store,
  open: async (clock, reportLimits) => {
    url = await createSpoolTables(server);
    return await PostgresSpool.open({ url, clock, reportLimits, serverTime: () => clock.monotonic() });
  },
});

describe('what a server may meet', () => {
  const waiting = { timeout: 20_000, interval: 20 };

  async function open(): Promise<PostgresSpool> {
    const spool = await PostgresSpool.open({ url: (url = await createSpoolTables(server)) });
    onTestFinished(() => spool.close());
    return spool;
  }

  function entry(changes: Partial<SpoolEntry> = {}): SpoolEntry {
    const now = Date.now();
    return spoolEntry({ id: uuidv7(now), acceptedAt: now, expiresAt: now + 3_600_000, ...changes });
  }

  /** Runs statements beside the spool. */
  async function beside(): Promise<pg.Client> {
    const client = new pg.Client(url);
    await client.connect();
    onTestFinished(() => client.end());
    return client;
  }

  test('text that PostgreSQL cannot hold is kept in another form, and keeps nobody out', async () => {
    const spool = await open();
    const odd = entry({
      origin: { via: 'smtp', helo: 'a\0b\ud800' },
      recipients: ['a\0@example.org', `${'x'.repeat(64)}@example.org`],
      idempotency: { key: 'k\0', digest: '00' },
      body: Buffer.from([0, 255, 0]),
    });
    await spool.add(odd, Date.now() + 60_000);
    const outcome = { kind: 'failed', reply: { code: 550, text: 'no\0\udfff' }, host: 'h\0' } as const;
    const recipient = `${'x'.repeat(64)}@example.org`;
    await spool.record([attemptOf(odd, outcome, { recipient })]);
    const shown = await spool.show(odd.id);
    expect(shown?.recipients[1]).toMatchObject({ state: 'failed', lastReply: { text: 'no\ufffd\ufffd' } });
    expect((await spool.load(odd.id))?.body).toEqual(odd.body);
    expect(await spool.usedKey('dev', 'k\0')).toMatchObject({ digest: '00' });
    expect((await spool.list({ search: '\0', limit: 10 })).items).toHaveLength(1);
    expect(
      (await spool.events.search({ account: 'dev\0', order: 'newest', limit: 5, recipient: '\0' })).events,
    ).toEqual([]);
    for (const id of ['', '%', "' OR 1=1", '0199f3c1-0000-7000-8000-00000000000g'])
      expect(await spool.show(id)).toBeUndefined();
  });

  test('a message to 1,000 recipients is claimed, and each outcome is written once', async () => {
    const spool = await open();
    const recipients = Array.from({ length: 1000 }, (_, at) => `r${at}@example.org`);
    const large = entry({ recipients, body: Buffer.alloc(5 * 1024 * 1024, 'x') });
    await spool.add(large, 0);
    const now = Date.now() + 1000;
    const [claimed, ...others] = await claimAny(spool, { now, limit: 5, claimUntil: now + 60_000 });
    expect([claimed?.due.length, others.length]).toEqual([1000, 0]);
    const reply = { code: 250, text: 'ok' };
    const ends = recipients.map((recipient) =>
      attemptOf(large, { kind: 'delivered', reply, host: 'h' }, { recipient }),
    );
    await spool.record(ends.slice(1));
    expect(await countsOf(spool)).toEqual({ queued: 1, failed: 0 });
    await spool.record(ends.slice(0, 1));
    expect(await countsOf(spool)).toEqual({ queued: 0, failed: 0 });
    const left = await (await beside()).query('SELECT * FROM spool_octets');
    expect(left.rowCount).toBe(0);
  });

  test('an add is answered as the server has kept it, also where the server goes in the middle', {
    timeout: 60_000,
  }, async () => {
    const spool = await open();
    const results = new Map<string, boolean>();
    for (const mode of ['immediate', 'fast', 'immediate'] as const) {
      const load = { isOver: false };
      const adding = Array.from({ length: 8 }, async () => {
        while (!load.isOver) {
          const one = entry();
          await spool.add(one, Date.now() + 60_000).then(
            () => results.set(one.id, true),
            (error: unknown) => {
              expect(error).toBeInstanceOf(Unavailable);
              results.set(one.id, false);
              return new Promise((wait) => setTimeout(wait, 20));
            },
          );
        }
      });
      const before = results.size;
      await expect.poll(() => results.size, waiting).toBeGreaterThan(before + 60);
      await server.stop(mode);
      await server.start();
      await expect.poll(() => spool.unavailable, waiting).toBeUndefined();
      load.isOver = true;
      await Promise.all(adding);
    }
    // Once what was told is filed.
    await spool.events.newest();
    const client = await beside();
    const { rows } = await client.query<{ id: string }>('SELECT id FROM spool_messages');
    const kept = new Set(rows.map(({ id }) => id));
    expect([...results].filter(([id, isAccepted]) => isAccepted !== kept.has(id))).toEqual([]);
    const events = await client.query<{ id: string; kinds: string }>(
      "SELECT queue_id AS id, string_agg(kind, ' ' ORDER BY id) AS kinds FROM mail_events GROUP BY queue_id",
    );
    const told = new Map(events.rows.map(({ id, kinds }) => [id, kinds]));
    expect([...kept].filter((id) => told.get(id) !== 'accepted')).toEqual([]);
    // A start that took longer than a sender waits: what was kept meanwhile was removed, and both is told.
    const others = [...told].filter(([id]) => !kept.has(id));
    expect(others.filter(([, kinds]) => kinds !== 'accepted dropped')).toEqual([]);
  });

  test('connections that are ended in the middle of anything leave each add answered as it was kept, and nothing claimed', {
    timeout: 60_000,
  }, async () => {
    const spool = await open();
    const client = await beside();
    const others =
      'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename IS NOT NULL';
    const results = new Map<string, boolean>();
    const load = { isOver: false };
    const adding = Array.from({ length: 6 }, async () => {
      while (!load.isOver) {
        const one = entry();
        await spool.add(one, Date.now() + 60_000).then(
          async () => {
            results.set(one.id, true);
            await spool.release(one.id, one.recipients).catch(() => undefined);
          },
          (error: unknown) => {
            expect(error).toBeInstanceOf(Unavailable);
            results.set(one.id, false);
            return new Promise((wait) => setTimeout(wait, 5));
          },
        );
      }
    });
    const accepted = (): number => [...results.values()].filter(Boolean).length;
    for (let round = 0; round < 25; round += 1) {
      const before = accepted();
      await expect.poll(accepted, waiting).toBeGreaterThan(before);
      await new Promise((wait) => setTimeout(wait, 3 * (round % 9)));
      await client.query(others);
    }
    load.isOver = true;
    await Promise.all(adding);
    const { rows } = await client.query<{ id: string }>('SELECT id FROM spool_messages');
    const kept = new Set(rows.map(({ id }) => id));
    expect([...results].filter(([id, isAccepted]) => isAccepted !== kept.has(id))).toEqual([]);
    expect(kept.size).toBeGreaterThan(20);
    await expect.poll(() => spool.recover(), waiting).toBe(kept.size);
    const claimed = 'SELECT count(*)::integer AS claimed FROM spool_recipients WHERE claimed_by IS NOT NULL';
    expect((await client.query(claimed)).rows).toEqual([{ claimed: 0 }]);
  });

  test('a transaction that was asked about and not kept is never kept afterwards', async () => {
    await open();
    const session = new PostgresSession({ url, connections: 2 });
    onTestFinished(() => session.close());
    const register = new ProcessRegister({ session, monotonic: () => performance.now(), patienceMs: 60_000 });
    const write = async (key: BatchKey): Promise<void> => {
      await session.transaction(async (send) => register.sendFence(send, key));
    };
    const first = await register.nextBatch(1);
    await write(first);
    expect(await register.wasKept(first)).toBe(true);
    const second = await register.nextBatch(1);
    // Whoever asks again because the answer was lost hears the same.
    for (let asked = 0; asked < 2; asked += 1) expect(await register.wasKept(second)).toBe(false);
    await expect(write(second)).rejects.toThrow('division by zero');
    await write(await register.nextBatch(1));
  });

  test('a transaction that the server undid because this process stood still says nothing of the server', async () => {
    await open();
    const session = new PostgresSession({ url, connections: 2 });
    onTestFinished(() => session.close());
    const late = session.transaction(async (send) => {
      await send("SELECT set_config('idle_in_transaction_session_timeout', '50', true)");
      await sleep(500);
      await send('SELECT 1');
    });
    const thrown = await late.catch((error: unknown) => error);
    expect(thrown).toMatchObject({ name: 'Unavailable', cause: { code: '25P03' } });
    expect(thrown instanceof Unavailable && isOfOneStatement(thrown)).toBe(true);
    expect(isOutOfReach(thrown)).toBe(false);
    expect(await session.transaction((send) => send('SELECT 1 AS one'))).toEqual([{ one: 1 }]);
  });

  test('one whom the others took for dead is entered again, and loses nothing', async () => {
    const spool = await open();
    await spool.add(entry(), Date.now() + 60_000);
    const client = await beside();
    await client.query('DELETE FROM spool_processes');
    await spool.add(entry(), Date.now() + 60_000);
    expect(await countsOf(spool)).toEqual({ queued: 2, failed: 0 });
    expect((await client.query('SELECT * FROM spool_processes')).rowCount).toBe(1);
  });

  /** Processes of a test's own, by a clock of its own. */
  const registers = async () => {
    await open();
    const client = await beside();
    await client.query('DELETE FROM spool_processes');
    const session = new PostgresSession({ url, connections: 2 });
    onTestFinished(() => session.close());
    const time = { now: 0 };
    const entered = async (patienceMs: number) => {
      const register = new ProcessRegister({ session, monotonic: () => time.now, patienceMs });
      return { register, id: await register.id() };
    };
    const ids = async () => {
      const { rows } = await client.query<{ id: string }>('SELECT id FROM spool_processes ORDER BY id');
      return rows.map(({ id }) => Number(id));
    };
    return { client, time, entered, ids };
  };

  test('a process is taken for dead after the time that it gives itself, whatever others give themselves', async () => {
    const { client, time, entered, ids } = await registers();
    const [patient, hasty, silent] = [await entered(600_000), await entered(6000), await entered(6000)];
    for (; time.now < 90_000; time.now += 1000) for (const { register } of [patient, hasty]) await register.tend();
    expect(await ids()).toEqual([patient.id, hasty.id]);
    // Of an earlier release: it does not say how long.
    const old = "INSERT INTO spool_processes (name, beats, batch) VALUES ('old', 0, 0)";
    await client.query(old);
    for (const until = time.now + 8000; time.now < until; time.now += 1000) await hasty.register.tend();
    expect(await ids()).toEqual([patient.id, hasty.id]);
    expect(silent.id).toBeGreaterThan(hasty.id);
  });

  test('what a dead process held is given back at the next look where the first one could not', async () => {
    const { client, time, entered, ids } = await registers();
    const [living, dead] = [await entered(6000), await entered(6000)];
    const spool = await PostgresSpool.open({ url });
    onTestFinished(() => spool.close());
    await spool.add(entry(), Date.now() + 60_000);
    await client.query('UPDATE spool_recipients SET claimed_by = $1', [dead.id]);
    await client.query('BEGIN; LOCK TABLE spool_recipients IN EXCLUSIVE MODE');
    const cancel = `SELECT pg_cancel_backend(pid) FROM pg_locks WHERE NOT granted AND relation = 'spool_recipients'::regclass`;
    const failures: unknown[] = [];
    for (; failures.length === 0; time.now += 1000) {
      const tended = living.register.tend().then(
        () => true,
        (thrown: unknown) => failures.push(thrown),
      );
      while (!(await Promise.race([tended, sleep(20)]))) await client.query(cancel);
    }
    await client.query('COMMIT');
    expect(await ids()).not.toContain(dead.id);
    const claimed = 'SELECT count(*)::integer AS claimed FROM spool_recipients WHERE claimed_by = $1';
    expect((await client.query(claimed, [dead.id])).rows).toEqual([{ claimed: 1 }]);
    for (const until = time.now + 2000; time.now < until; time.now += 1000) await living.register.tend();
    expect((await client.query(claimed, [dead.id])).rows).toEqual([{ claimed: 0 }]);
  });

  test('nobody is taken for dead who was silent while the server was away, however rarely others beat', async () => {
    const { time, entered, ids } = await registers();
    const [patient, hasty, silent] = [await entered(60_000), await entered(6000), await entered(6000)];
    const tend = async (ms: number, ...whose: readonly (typeof patient)[]) => {
      for (const until = time.now + ms; time.now < until; time.now += 1000)
        for (const { register } of whose) await register.tend();
    };
    // The server goes away once the patient one has looked.
    await tend(1000, hasty, silent, patient);
    time.now += 20_000;
    await tend(3000, patient, hasty, silent);
    expect(await ids()).toEqual([patient.id, hasty.id, silent.id]);
    // The patient one alone sees that the last has ended, and as soon as that one has asked for.
    await tend(10_000, patient);
    expect(await ids()).toEqual([patient.id]);
  });

  test('while others hold a lock on a table mail is put off, and taken again afterwards', {
    timeout: 30_000,
  }, async () => {
    const spool = await open();
    const client = await beside();
    await client.query('BEGIN; LOCK TABLE spool_messages IN EXCLUSIVE MODE');
    await expect(spool.add(entry(), 0)).rejects.toThrow(Unavailable);
    await client.query('ROLLBACK');
    await expect.poll(() => spool.unavailable, waiting).toBeUndefined();
    await spool.add(entry(), 0);
    expect(await countsOf(spool)).toEqual({ queued: 1, failed: 0 });
  });

  test('a standby is refused at the start, and a server that becomes one takes no mail', {
    timeout: 30_000,
  }, async () => {
    const spool = await open();
    await server.stop('fast');
    await server.startAsStandby();
    try {
      await expect(PostgresSpool.open({ url })).rejects.toThrow('is a standby');
      await expect.poll(() => spool.unavailable?.message, waiting).toContain('standby');
      await expect(spool.add(entry(), 0)).rejects.toThrow(Unavailable);
    } finally {
      await server.stop('fast');
      await server.start();
    }
    await expect.poll(() => spool.unavailable, waiting).toBeUndefined();
    await spool.add(entry(), 0);
  });

  test('a database that is not there is told by its name', async () => {
    await expect(openPostgres({ url: server.url('nothing') })).rejects.toThrow('database "nothing" does not exist');
  });

  test('a host whose clock is wrong waits as long as the others, and leaves their claims alone', async () => {
    const spool = await open();
    const hours = 5 * 3_600_000;
    const ahead: Clock = { now: () => systemClock.now() + hours, monotonic: () => systemClock.monotonic() };
    const wrong = await PostgresSpool.open({ url, clock: ahead });
    onTestFinished(() => wrong.close());
    await spool.add(entry(), Date.now() + 60_000);
    const query = (now: number) => ({ now, limit: 5, claimUntil: now + 60_000 });
    expect(await claimAny(wrong, query(ahead.now()))).toEqual([]);
    await wrong.add(entry({ acceptedAt: ahead.now() }), 0);
    expect(await claimAny(spool, query(Date.now() + 2000))).toHaveLength(1);
  });
});
turnsContract('PostgreSQL spool', { ...store, open: (clock) => store.open(clock), another: (clock) => opened(clock) });

test('what events make of a row that was filed before is what they make of one that is filed with them', async () => {
  const client = new pg.Client(await server.createSchema());
  await client.connect();
  onTestFinished(() => client.end());
  await client.query('CREATE TEMP TABLE journal (id text PRIMARY KEY, waiting integer, outcome smallint)');
  const kinds = ['delivered', 'deferred', 'failed', 'requeued', 'dropped'] as const;
  const pairs = kinds.flatMap((one) => kinds.map((other) => [one, other] as const));
  const rows = [1, 2, 3].flatMap((waiting) =>
    pairs.map((pair) => ({ id: uuidv7(Date.now()), waiting, outcome: outcomeNumbers.accepted, pair })),
  );
  for (const { id, waiting, outcome } of rows)
    await client.query('INSERT INTO journal VALUES ($1, $2, $3)', [id, waiting, outcome]);
  const events = rows.flatMap(({ id: message, pair }) =>
    pair.map((kind) => ({
      ...{ at: 1, account: 'dev', kind, message },
      json: JSON.stringify({ kind, at: 1, account: 'dev', failedCount: 1 }),
    })),
  );
  const sent: Promise<unknown>[] = [];
  const send = async (sql: string, values: readonly unknown[] = []) => {
    const answer = client.query<Record<string, unknown>>(sql, [...values]);
    sent.push(answer);
    return (await answer).rows;
  };
  sendRows(send, [], events);
  await Promise.all(sent);
  const notes = notesOf(events, ({ json }) => readFacts(json));
  const wanted = rows.map(({ id, waiting, outcome }) => withNotes({ id, waiting, outcome }, notes.get(id)));
  const found = await client.query('SELECT id, waiting, outcome FROM journal');
  expect(new Map(found.rows.map((row) => [row.id, row]))).toEqual(new Map(wanted.map((row) => [row.id, row])));
});
