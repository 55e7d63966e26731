// A PostgreSQL of the tests' own: Debian's server on a socket in a folder of its own, gone with the test file.

import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { runProgram } from '../system/programs.ts';
import { clusterPlace } from './postgres-cluster.ts';

/** A running server. */
export interface PostgresServer {
  /** The URL of a database. */
  url(database: string): string;
  /** Makes an empty database; gives its URL. */
  createDatabase(): Promise<string>;
  /** Makes an empty schema, which takes less time; gives the URL of a database that has nothing else. */
  createSchema(): Promise<string>;
  /** Makes a copy of a database that `fill` has filled once, in a third of the time of filling one; gives its URL. */
  createCopy(fill: (url: string) => Promise<void>): Promise<string>;
  /** Removes a database, whoever is connected. @param url as it was given */
  drop(url: string): Promise<void>;
  /** Stops it: `fast` breaks connections off in order, `immediate` as a crash would. */
  stop(mode: 'fast' | 'immediate'): Promise<void>;
  /** Starts it again. */
  start(): Promise<void>;
  /** Starts it as a standby that has no primary any more; `start` makes it a primary again. */
  startAsStandby(): Promise<void>;
  /** The folder of its socket. */
  readonly folder: string;
  /** The process of the server. */
  pid(): number;
  /** Sets settings for all sessions from now on; '' is the default. */
  configure(settings: Readonly<Record<string, string>>): Promise<void>;
  /** Makes a second server that follows this one, and starts it. */
  addStandby(): Promise<PostgresServer>;
  /** Makes an empty database on a file system of its own, of so many MiB; gives its URL and that disk (needs root for mount). */
  createSmallDatabase(mebibytes: number): Promise<{ readonly url: string; readonly disk: SmallDisk }>;
  /** The disk of the write-ahead log, where it is a small one. */
  readonly logDisk: SmallDisk | undefined;
  /** Makes a standby the primary. */
  promote(): Promise<void>;
  /** Stops it and removes its folder. */
  remove(): Promise<void>;
}

/** How a server is started. */
export interface PostgresOptions {
  /** Settings as `name=value`. */
  readonly settings?: readonly string[];
  /** A port on loopback beside the socket. */
  readonly port?: number;
  /** Changes are synced to the disk. */
  readonly fsync?: boolean;
  /** The write-ahead log has a file system of its own, of so many MiB (needs root for mount). */
  readonly logMebibytes?: number;
}

/** A small file system, made of memory. */
export interface SmallDisk {
  /** Leaves so many octets of it free. */
  fill(freeOctets: number): void;
  /** Frees what `fill` took. */
  makeRoom(): void;
}

/** Mounts a small file system for the server. */
function mountDisk(folder: string, mebibytes: number): SmallDisk {
  mkdirSync(folder);
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${mebibytes}m,mode=755`, 'tmpfs', folder]);
  const inside = join(folder, 'inside');
  mkdirSync(inside);
  execFileSync('chown', ['postgres:postgres', inside]);
  const ballast = join(folder, 'ballast');
  return {
    fill(freeOctets) {
      const { bavail, bsize } = statfsSync(folder);
      try {
        writeFileSync(ballast, Buffer.alloc(Math.max(0, bavail * bsize - freeOctets)));
      } catch (thrown) {
        // The server wrote at the same time: the disk is full all the same.
        if (!(thrown instanceof Error && 'code' in thrown && thrown.code === 'ENOSPC')) throw thrown;
      }
    },
    makeRoom: () => rmSync(ballast, { force: true }),
  };
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

/** Makes a folder that the server may use. */
async function makeFolder(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'postern-pg-'));
  chmodSync(folder, 0o755);
  await runProgram('chown', ['postgres:postgres', folder]);
  return folder;
}

/**
 * Makes the files of an empty cluster, or copies those of the first one of this run of the tests. @param place more arguments,
 * with which nothing is copied
 */
async function makeCluster(data: string, place: readonly string[]): Promise<void> {
  const kept = place.length === 0 ? process.env[clusterPlace] : undefined;
  const first = join(kept ?? '', 'data');
  if (kept !== undefined && existsSync(first)) return copyCluster(first, data);
  const options = ['-A', 'trust', '-U', 'postgres', '-E', 'UTF8', '--locale=C.UTF-8', '--no-sync'];
  await asPostgres('initdb', '-D', data, ...options, ...place);
  if (kept === undefined) return;
  // Whole before it has the name by which it is found; of several that are made at once one is kept.
  const copy = mkdtempSync(join(kept, 'new-'));
  await copyCluster(data, join(copy, 'data'));
  if (!existsSync(first)) renameSync(join(copy, 'data'), first);
}

async function copyCluster(from: string, to: string): Promise<void> {
  const { code, output } = await runProgram('cp', ['-a', '--reflink=auto', from, to]);
  if (code !== 0) throw new Error(`cp ended with ${code}: ${output}`);
}

/** Starts a server. */
export async function startPostgres(options: PostgresOptions = {}): Promise<PostgresServer> {
  const folder = await makeFolder();
  const { logMebibytes } = options;
  const log = join(folder, 'wal');
  const logDisk = logMebibytes === undefined ? undefined : mountDisk(log, logMebibytes);
  const place = logDisk ? ['-X', join(log, 'inside/wal'), '--wal-segsize=1'] : [];
  await makeCluster(join(folder, 'data'), place);
  return await startIn(folder, options, logDisk);
}

/** Starts the server whose data are in a folder. */
async function startIn(folder: string, options: PostgresOptions, logDisk?: SmallDisk): Promise<PostgresServer> {
  const data = join(folder, 'data');
  // Nothing here outlives the machine, so nothing is synced unless a test asks for it; `immediate` still stops the server as a
  // crash would.
  const { port } = options;
  const settings = [
    ...(port === undefined ? ["listen_addresses=''"] : ['listen_addresses=127.0.0.1', `port=${port}`]),
    `unix_socket_directories=${folder}`,
    'max_connections=200',
    // A standby looks again soon when its primary was away.
    'wal_retrieve_retry_interval=100ms',
    ...(options.fsync === true ? [] : ['fsync=off']),
    ...(options.settings ?? []),
  ];
  const control = (...args: readonly string[]): Promise<void> => asPostgres('pg_ctl', '-D', data, '-w', ...args);
  const start = (): Promise<void> =>
    control('-l', join(folder, 'log'), '-o', settings.map((one) => `-c ${one}`).join(' '), 'start');
  const stop = (mode: 'fast' | 'immediate'): Promise<void> => control('-m', mode, 'stop');
  await start();
  const url = (database: string): string =>
    `postgres://postgres@/${database}?host=${encodeURIComponent(folder)}${port === undefined ? '' : `&port=${port}`}`;
  const place = ['-h', folder, ...(port === undefined ? [] : ['-p', String(port)]), '-U', 'postgres'];
  const ask = async (...statements: readonly string[]): Promise<void> => {
    const client = new pg.Client(url('postgres'));
    await client.connect();
    for (const sql of statements) await client.query(sql);
    await client.end();
  };
  const createDatabase = async (template = 'template1'): Promise<string> => {
    const name = `t${randomUUID().replaceAll('-', '')}`;
    await ask(`CREATE DATABASE ${name} TEMPLATE ${template} STRATEGY file_copy`);
    return name;
  };
  const filled = new Map<(url: string) => Promise<void>, Promise<string>>();
  const makeFilled = async (fill: (url: string) => Promise<void>): Promise<string> => {
    const name = await createDatabase();
    await fill(url(name));
    return name;
  };
  const mounts = logDisk ? [join(folder, 'wal')] : [];
  return {
    url,
    folder,
    logDisk,
    pid: () => Number(readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n', 1)[0]),
    async createSchema() {
      const name = `t${randomUUID().replaceAll('-', '')}`;
      await ask(`CREATE SCHEMA ${name}`);
      return `${url('postgres')}&options=${encodeURIComponent(`-c search_path=${name}`)}`;
    },
    createDatabase: async () => url(await createDatabase()),
    async createCopy(fill) {
      const template = filled.get(fill) ?? makeFilled(fill);
      filled.set(fill, template);
      return url(await createDatabase(await template));
    },
    drop: (dropped) => ask(`DROP DATABASE ${nameIn(dropped)} WITH (FORCE)`),
    async createSmallDatabase(mebibytes) {
      const name = `t${randomUUID().replaceAll('-', '')}`;
      const place = join(folder, name);
      const disk = mountDisk(place, mebibytes);
      mounts.push(place);
      await ask(
        `CREATE TABLESPACE ${name} LOCATION '${join(place, 'inside')}'`,
        `CREATE DATABASE ${name} TABLESPACE ${name}`,
      );
      return { url: url(name), disk };
    },
    async configure(changed) {
      const sets = Object.entries(changed).map(([name, value]) => `ALTER SYSTEM SET ${name} = '${value}'`);
      await ask(...sets, 'SELECT pg_reload_conf()');
    },
    async addStandby() {
      const own = await makeFolder();
      const copy = ['-D', join(own, 'data'), '-R', '-X', 'stream', '-c', 'fast', '--no-sync'];
      await asPostgres('pg_basebackup', ...place, ...copy);
      return await startIn(own, options);
    },
    promote: () => control('promote'),
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
      for (const mount of mounts) execFileSync('umount', [mount]);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** The name of the database in its URL. */
export function nameIn(url: string): string {
  return /@\/(\w+)/.exec(url)?.[1] ?? '';
}

/** The URL of a database on several servers, of which one takes changes. */
export function urlOfAll(url: string, servers: readonly PostgresServer[]): string {
  const folders = servers.map(({ folder }) => folder).join(',');
  return url.replace(/host=[^&]*/, `host=${encodeURIComponent(folders)}`);
}
