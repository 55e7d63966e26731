// Which server of PostgreSQL is spoken to, and on what conditions: several servers of which one takes changes, TLS, passwords.

import { once } from 'node:events';
import { chmodSync, copyFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { openPostgres } from '../../src/base/database/postgres-database.ts';
import { ConfigurationError, Unavailable } from '../../src/base/errors.ts';
import { uuidv7 } from '../../src/base/ids.ts';
import { PostgresSpool } from '../../src/spool/postgres/postgres-spool.ts';
import { testCertificate } from '../support/certificate.ts';
import { type PostgresServer, startPostgres, urlOfAll } from '../support/postgres.ts';
import { countsOf } from '../support/spool-counts.ts';
import { spoolEntry } from '../support/spool-entry.ts';
import { requirePrograms, runProgram } from './programs.ts';

const waiting = { timeout: 20_000, interval: 20 };

/** A port that nobody has now. */
async function freePort(): Promise<number> {
  const listener = createServer().listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const address = listener.address();
  listener.close();
  return typeof address === 'object' ? (address?.port ?? 0) : 0;
}

let server: PostgresServer;
let port = 0;
let authority = '';
beforeAll(async () => {
  requirePrograms('runuser', 'pg_ctlcluster');
  port = await freePort();
  server = await startPostgres({ port });
  const { key, cert } = await testCertificate(['db.test']);
  authority = join(server.folder, 'ca.pem');
  const files = {
    [join(server.folder, 'data/server.key')]: key,
    [join(server.folder, 'data/server.crt')]: cert,
    [authority]: cert,
  };
  for (const [file, text] of Object.entries(files)) {
    writeFileSync(file, text);
    chmodSync(file, file === authority ? 0o644 : 0o600);
    await runProgram('chown', ['postgres:postgres', file]);
  }
  const rules = [
    'local all all trust',
    'hostssl all postern 127.0.0.1/32 scram-sha-256',
    'local replication all trust',
  ];
  writeFileSync(join(server.folder, 'data/pg_hba.conf'), `${rules.join('\n')}\n`);
  const client = new pg.Client(server.url('postgres'));
  await client.connect();
  await client.query("CREATE ROLE postern LOGIN SUPERUSER PASSWORD 'right-password'");
  await client.query('ALTER SYSTEM SET ssl = on');
  await client.query('SELECT pg_reload_conf()');
  await client.end();
});
afterAll(() => server?.remove());

test("TLS is verified against an authority of one's own, by name, and a wrong password is told without it", async () => {
  const url = (password: string, host: string, query: string): string =>
    `postgres://postern:${password}@${host}:${port}/postgres?${query}`;
  const verified = `sslmode=verify-full&sslrootcert=${encodeURIComponent(authority)}`;
  const refused = async (target: string): Promise<Error> =>
    await openPostgres({ url: target }).then(
      async (database) => {
        await database.close();
        throw new Error('it was opened');
      },
      (error: Error) => error,
    );
  // The certificate is for another name than this one.
  expect((await refused(url('right-password', 'localhost', verified))).message).toContain('does not match certificate');
  expect((await refused(url('right-password', '127.0.0.1', verified))).message).toMatch(/IP|altnames/);
  // An authority that nobody here trusts.
  expect((await refused(url('right-password', '127.0.0.1', 'sslmode=verify-full'))).message).toContain('self-signed');
  const unencrypted = await refused(url('right-password', '127.0.0.1', 'sslmode=disable'));
  expect(unencrypted).toBeInstanceOf(ConfigurationError);
  const wrong = await refused(url('wrong-password', '127.0.0.1', 'sslmode=no-verify'));
  expect(wrong).toBeInstanceOf(ConfigurationError);
  expect(wrong.message).toContain('password authentication failed for user "postern"');
  expect(`${wrong.stack} ${JSON.stringify(wrong)}`).not.toContain('wrong-password');
  const database = await openPostgres({ url: url('right-password', '127.0.0.1', 'sslmode=no-verify') });
  expect(await database.query('SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()')).toEqual([{ ssl: true }]);
  await database.close();
});

test('a password and an authority that change are used by the next connections, and no file is missed for good', async () => {
  const file = join(server.folder, 'rotated-ca.pem');
  let password = 'right-password';
  copyFileSync(authority, file);
  // The authority alone is verified: the certificate has no name of this host.
  const query = `uselibpqcompat=true&sslmode=verify-ca&sslrootcert=${encodeURIComponent(file)}`;
  const url = (): string => `postgres://postern:${password}@127.0.0.1:${port}/postgres?${query}`;
  const spool = await PostgresSpool.open({ url });
  onTestFinished(() => spool.close());
  const admin = new pg.Client(server.url('postgres'));
  await admin.connect();
  onTestFinished(() => admin.end());
  const breakOff = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'postern'";
  const add = async (): Promise<void> => {
    const now = Date.now();
    await spool.add(spoolEntry({ id: uuidv7(now), acceptedAt: now, expiresAt: now + 3_600_000 }), now + 60_000);
  };
  await add();
  await admin.query("ALTER ROLE postern PASSWORD 'another-password'");
  await admin.query(breakOff);
  await expect.poll(() => spool.unavailable?.message, waiting).toContain('password authentication failed');
  password = 'another-password';
  await expect.poll(() => spool.unavailable, waiting).toBeUndefined();
  await add();
  // Somebody writes the file of the authority anew, and it is gone for a while, in which many wait for a connection.
  rmSync(file);
  const asked = Promise.allSettled(Array.from({ length: 500 }, () => countsOf(spool)));
  await admin.query(breakOff);
  await asked;
  const { key, cert } = await testCertificate(['db.test']);
  writeFileSync(join(server.folder, 'data/server.key'), key);
  writeFileSync(join(server.folder, 'data/server.crt'), cert);
  await admin.query('SELECT pg_reload_conf()');
  await admin.query(breakOff);
  await expect.poll(() => spool.unavailable?.message, waiting).toMatch(/no such file/);
  writeFileSync(file, cert);
  await expect.poll(() => spool.unavailable, waiting).toBeUndefined();
  await add();
});

test('of several servers the one that takes changes is used, also after a failover', { timeout: 60_000 }, async () => {
  const first = await startPostgres();
  const second = await first.addStandby();
  onTestFinished(async () => {
    await first.remove();
    await second.remove();
  });
  const url = await first.createSchema();
  await expect.poll(async () => await exists(urlOfAll(url, [second])), waiting).toBe(true);
  await expect(PostgresSpool.open({ url: urlOfAll(url, [second]) })).rejects.toThrow(/database\.url: .* is a standby/);
  const spool = await PostgresSpool.open({ url: urlOfAll(url, [second, first]) });
  onTestFinished(() => spool.close());
  const add = async (): Promise<void> => {
    const now = Date.now();
    await spool.add(spoolEntry({ id: uuidv7(now), acceptedAt: now, expiresAt: now + 3_600_000 }), now + 60_000);
  };
  await add();
  await first.stop('fast');
  await expect(add()).rejects.toThrow(Unavailable);
  await second.promote();
  await expect.poll(() => spool.unavailable, waiting).toBeUndefined();
  await add();
  // The primary of before comes back, and takes no changes.
  await first.startAsStandby();
  for (let count = 0; count < 5; count += 1) await add();
  await second.stop('immediate');
  await expect(add()).rejects.toThrow(Unavailable);
  await expect.poll(() => spool.unavailable?.message, waiting).toContain('is a standby');
  await second.start();
  await expect.poll(() => spool.unavailable, waiting).toBeUndefined();
  await add();
  // Or it comes back as a server that is no standby, and may only be read.
  await first.stop('fast');
  await first.start();
  await first.configure({ default_transaction_read_only: 'on' });
  await second.stop('immediate');
  await expect.poll(() => spool.unavailable?.message, waiting).toContain('default_transaction_read_only is on');
  await second.start();
  await expect.poll(() => spool.unavailable, waiting).toBeUndefined();
  await add();
});

/** Whether the schema of a URL is on its server. */
async function exists(url: string): Promise<boolean> {
  const client = new pg.Client(url);
  await client.connect();
  const { rowCount } = await client.query('SELECT 1 FROM pg_namespace WHERE nspname = current_schema()');
  await client.end();
  return rowCount === 1;
}

test('a server on whose word mail must not be confirmed is refused with what to do', async () => {
  const settings: readonly (readonly [string, RegExp])[] = [
    ['synchronous_commit = off', /synchronous_commit is off.*set it to on/],
    ['default_transaction_read_only = on', /default_transaction_read_only is on/],
  ];
  for (const [setting, words] of settings) {
    const url = await server.createDatabase();
    const client = new pg.Client(url);
    await client.connect();
    await client.query(`ALTER ROLE ALL SET ${setting}`);
    await client.end();
    await expect(openPostgres({ url })).rejects.toThrow(ConfigurationError);
    await expect(PostgresSpool.open({ url })).rejects.toThrow(words);
    const again = new pg.Client(url);
    await again.connect();
    await again.query('SET default_transaction_read_only = off');
    await again.query(`ALTER ROLE ALL RESET ${setting.split(' ', 1)[0]}`);
    await again.end();
  }
  await expect(openPostgres({ url: server.url('no_such_database') })).rejects.toThrow(
    /database\.url: database "no_such_database" does not exist/,
  );
});
