// A PostgreSQL of the tests' own: Debian's server on a socket in a folder of its own, gone with the test file.

import { randomUUID } from 'node:crypto';
import { chmodSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { runProgram } from '../system/programs.ts';

/** A running server. */
export interface PostgresServer {
  /** The URL of a database. */
  url(database: string): string;
  /** Makes an empty database; gives its URL. */
  createDatabase(): Promise<string>;
  /** Makes an empty schema, which takes less time; gives the URL of a database that has nothing else. */
  createSchema(): Promise<string>;
  /** Stops it: `fast` breaks connections off in order, `immediate` as a crash would. */
  stop(mode: 'fast' | 'immediate'): Promise<void>;
  /** Starts it again. */
  start(): Promise<void>;
  /** Starts it as a standby that has no primary any more; `start` makes it a primary again. */
  startAsStandby(): Promise<void>;
  /** Stops it and removes its folder. */
  remove(): Promise<void>;
}

/** The folder of the newest PostgreSQL that Debian has installed. */
function programs(): string {
  const root = '/usr/lib/postgresql';
  const versions = readdirSync(root).toSorted((a, b) => Number(b) - Number(a));
  return join(root, versions[0] ?? '', 'bin');
}

async function asPostgres(program: string, ...args: readonly string[]): Promise<void> {
  const { code, output } = await runProgram('runuser', ['-u', 'postgres', '--', join(programs(), program), ...args], {
    cwd: tmpdir(),
  });
  if (code !== 0) throw new Error(`${program} ended with ${code}: ${output}`);
}

/** Starts a server. */
export async function startPostgres(): Promise<PostgresServer> {
  const folder = mkdtempSync(join(tmpdir(), 'postern-pg-'));
  const data = join(folder, 'data');
  chmodSync(folder, 0o755);
  await runProgram('chown', ['postgres:postgres', folder]);
  await asPostgres(
    'initdb',
    '-D',
    data,
    '-A',
    'trust',
    '-U',
    'postgres',
    '-E',
    'UTF8',
    '--locale=C.UTF-8',
    '--no-sync',
  );
  // Nothing here outlives the machine, so nothing is synced; `immediate` still stops the server as a crash would.
  const settings = `-c listen_addresses='' -c unix_socket_directories=${folder} -c max_connections=200 -c fsync=off`;
  const start = (): Promise<void> =>
    asPostgres('pg_ctl', '-D', data, '-w', '-l', join(folder, 'log'), '-o', settings, 'start');
  const stop = (mode: 'fast' | 'immediate'): Promise<void> =>
    asPostgres('pg_ctl', '-D', data, '-m', mode, '-w', 'stop');
  await start();
  const url = (database: string): string => `postgres://postgres@/${database}?host=${encodeURIComponent(folder)}`;
  return {
    url,
    async createSchema() {
      const name = `t${randomUUID().replaceAll('-', '')}`;
      const client = new pg.Client(url('postgres'));
      await client.connect();
      await client.query(`CREATE SCHEMA ${name}`);
      await client.end();
      return `${url('postgres')}&options=${encodeURIComponent(`-c search_path=${name}`)}`;
    },
    async createDatabase() {
      const name = `t${randomUUID().replaceAll('-', '')}`;
      await asPostgres('createdb', '-h', folder, '-U', 'postgres', name);
      return url(name);
    },
    async start() {
      rmSync(join(data, 'standby.signal'), { force: true });
      await start();
    },
    async startAsStandby() {
      writeFileSync(join(data, 'standby.signal'), '');
      await start();
    },
    stop,
    async remove() {
      // It may be stopped already.
      await stop('immediate').catch(() => undefined);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
