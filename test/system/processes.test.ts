// Several processes for one server: they share a PostgreSQL of this file's own.

import { afterAll, describe } from 'vitest';
import { startPostgres } from '../support/postgres.ts';
import { requirePrograms } from './programs.ts';

requirePrograms('runuser', 'pg_ctlcluster');
const server = await startPostgres();
afterAll(() => server.remove());
// What is imported from here on starts its gateways on this server.
process.env['POSTERN_TEST_DATABASE'] = 'postgres';
process.env['POSTERN_TEST_POSTGRES'] = server.url('postgres');

describe('as one server', async () => {
  await import('./processes/one-server.ts');
});
describe('proxy applications', async () => {
  await import('./processes/applications.ts');
});
describe('limits over all of them', async () => {
  await import('./processes/limits.ts');
});
describe('ready', async () => {
  await import('./processes/ready.ts');
});
describe('the names of their metrics', async () => {
  await import('../e2e/metrics-names.test.ts');
});
