// What is an account's own in the spool in PostgreSQL.

import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { PostgresSpool } from '../../src/spool/postgres/postgres-spool.ts';
import { unlimited } from '../../src/spool/spool-limits.ts';
import { accountsContract } from '../contract/accounts.ts';
import { type PostgresServer, startPostgres } from '../support/postgres.ts';
import { attemptOf, spoolEntry } from '../support/spool-entry.ts';
import { requirePrograms } from './programs.ts';

let server: PostgresServer;
beforeAll(async () => {
  requirePrograms('runuser', 'pg_ctlcluster');
  server = await startPostgres();
});
afterAll(() => server?.remove());

accountsContract('PostgreSQL spool', {
  open: async (clock, eventLimits, reportLimits) =>
    await PostgresSpool.open({
      url: await server.createSchema(),
      clock,
      serverTime: () => clock.monotonic(),
      eventLimits,
      reportLimits,
    }),
  clean: async () => undefined,
});

test('of too many failed messages the account’s own go, though another has older ones', async () => {
  const url = await server.createSchema();
  const spool = await PostgresSpool.open({ url, clock: systemClock, limits: { ...unlimited, failedMessages: 2 } });
  onTestFinished(() => spool.close());
  const outcome = { kind: 'failed', reply: { code: 550, text: 'no' }, host: 'out (h.test:25)' } as const;
  const ids = { one: [] as string[], two: [] as string[] };
  for (const account of ['two', 'one', 'one', 'one', 'one'] as const) {
    const entry = spoolEntry({ account, acceptedAt: systemClock.now() });
    await spool.add(entry, 0);
    await spool.record([attemptOf(entry, outcome)]);
    ids[account].push(entry.id);
  }
  const left = async (account: string) =>
    (await spool.list({ account, limit: 10 })).items.map(({ entry }) => entry.id).sort();
  await expect.poll(() => left('one')).toHaveLength(2);
  expect(await left('two')).toEqual(ids.two);
});
