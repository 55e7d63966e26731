// The end-to-end tests whose subject is what the store keeps, once more with gateways that keep it in PostgreSQL. All of
// test/e2e runs so with `npm run test:postgres`; these are the part that there is time for in every run of `.ci/run`.

import { afterAll, describe } from 'vitest';
import { tableMigrations } from '../../src/app/wiring/table-versions.ts';
import { openPostgres } from '../../src/base/database/postgres-database.ts';
import { nameIn, startPostgres } from '../support/postgres.ts';
import { filledPlace } from '../support/postgres-setup.ts';
import { requirePrograms } from './programs.ts';

requirePrograms('runuser', 'pg_ctlcluster');
const server = await startPostgres();
afterAll(() => server.remove());
// What is imported from here on starts its gateways on this server.
process.env['POSTERN_TEST_DATABASE'] = 'postgres';
process.env['POSTERN_TEST_POSTGRES'] = server.url('postgres');
// A gateway that finds its tables starts in less time than one that makes them, as those of postgres-gateway.test.ts do.
const filled = await server.createDatabase();
const database = await openPostgres({ url: filled, connections: 1 });
for (const one of tableMigrations.postgres) await database.migrate(one);
await database.close();
process.env[filledPlace] = nameIn(filled);

/**
 * Left out: what never asks the store (the edge, certificates, the log, how a start fails), what waits long for the next hop or
 * a day's end (reports, webhooks, staging), several processes, which postgres-gateway.test.ts has, and what the contracts and
 * postgres-two-gateways.test.ts show of their stores (tokens, suppressions, limits, threads, applications).
 */
const files: readonly (readonly [subject: string, load: () => Promise<unknown>])[] = [
  ['accepting and relaying', () => import('../e2e/first-message.test.ts')],
  ['Idempotency-Keys over a crash', () => import('../e2e/rest.test.ts')],
  ['the queue and its destinations', () => import('../e2e/queue-destinations.test.ts')],
  ['events of the queue', () => import('../e2e/queue-events.test.ts')],
  ['the journal', () => import('../e2e/journal.test.ts')],
  ['copies to shadow listeners', () => import('../e2e/shadow.test.ts')],
];

for (const [subject, load] of files) {
  describe(`on PostgreSQL: ${subject}`, async () => {
    await load();
  });
}
