// A pool of connections to PostgreSQL, and the conditions under which it is used (D91).

import pg from 'pg';
import { errorCode } from '../errors.ts';
import type { Logger } from '../log.ts';
import { PrimaryFinder, primaryClient, SharingPool, tooManyConnections } from '../postgres/primary-client.ts';
import { breakOff, ServerConnections } from '../postgres/server-connections.ts';
import { currentUrl, type ServerUrl, serverHosts } from '../postgres/server-hosts.ts';
import { requireUsable } from '../postgres/server-settings.ts';
import { hasNoCode, told } from './postgres-errors.ts';

/** How long PostgreSQL may take for one statement, in milliseconds, waiting for locks included. */
const statementMs = 5000;
/** Milliseconds that a transaction may wait for its next statement; others wait longer for its locks (`statementMs`), and go on. */
const stuckMs = 3000;
/** How long to wait for the answer to a statement, in milliseconds; then the server has gone without a word. */
const answerMs = 15_000;
/** How long to wait for a connection, in milliseconds. */
const connectMs = 5000;

/** How a database of PostgreSQL is opened. */
export interface OpenPostgresOptions {
  /** `postgres://user:password@host:port,host:port/name`: the one that takes changes. A function gives each connection's password. */
  readonly url: ServerUrl;
  /** Connections that may be open at once; 10 if absent. */
  readonly connections?: number | undefined;
  /** How long a transaction may take, in milliseconds; 10,000 if absent. */
  readonly transactionMs?: number | undefined;
  /** The wall clock of this host, milliseconds since 1970; absent: the system's. */
  readonly now?: () => number;
  /** Told when the database cannot be used, and when it can be used again; absent: nobody is. */
  readonly log?: Logger | undefined;
  /** Statements are sent without waiting for the answers to those before. */
  readonly pipeline?: boolean;
  /** A statement that each new connection begins with. */
  readonly begin?: string;
  /** Those of the owner, so that all can be broken off; absent: nobody does. */
  readonly opened?: ServerConnections;
}

/** The types int8 and numeric (of count and sum) in pg_type. */
const wholeNumbers: ReadonlySet<number> = new Set([20, 1700]);

/** Whole numbers come as `number`; a count or a time beyond 2^53 does not occur. */
const types = {
  getTypeParser(oid: Parameters<typeof pg.types.getTypeParser>[0], format?: 'text' | 'binary') {
    return wholeNumbers.has(oid) ? Number : pg.types.getTypeParser(oid, format);
  },
};

/** The settings of one connection, and of the server that it leads to. */
function clientSettings({ transactionMs = 10_000, pipeline }: OpenPostgresOptions, url: string) {
  return {
    connectionString: url,
    application_name: 'postern',
    connectionTimeoutMillis: connectMs,
    statement_timeout: statementMs,
    lock_timeout: statementMs,
    query_timeout: answerMs,
    idle_in_transaction_session_timeout: Math.min(stuckMs, 2 * transactionMs),
    keepAlive: true,
    types,
    ...(pipeline ? { pipeline } : {}),
  };
}

/** Opens a pool. Its connections are opened as they are needed, and again after the server was away or another took its place. */
export function openPool(options: OpenPostgresOptions): pg.Pool {
  const { connections = 10, begin, opened } = options;
  const { url, hosts } = serverHosts(currentUrl(options.url));
  const settings = clientSettings(options, url);
  const finder = new PrimaryFinder({ ...options, hosts, settings });
  const pool = new SharingPool({ ...settings, max: connections, Client: primaryClient(finder, opened) });
  // A connection that breaks while nobody uses it leaves the pool; the next request opens another.
  pool.on('error', () => undefined);
  // A connection that breaks at once fails at what it was opened for.
  if (begin !== undefined) pool.on('connect', (client) => void client.query(begin).catch(() => undefined));
  return pool;
}

/**
 * Has a connection of a pool for some work. One that fails outside its statements is not used again.
 * @param work gets besides what gives the reason of an error: what is sent on a connection that the server has ended fails without a
 *   code, and the connection was told why
 * @param isBroken whether the connection is not used again either after what the work threw; absent: it is
 * @throws Unavailable where no connection can be had; what `work` throws
 */
export async function withClient<T>(
  pool: pg.Pool,
  work: (client: pg.PoolClient, reasonOf: (thrown: unknown) => unknown) => Promise<T>,
  isBroken: (thrown: unknown) => boolean = () => false,
): Promise<T> {
  const client = await told(pool.connect());
  let end: Error | undefined;
  let isLost = false;
  const onError = (error: Error): void => void (end ??= error);
  client.on('error', onError);
  try {
    return await work(client, (thrown) => (hasNoCode(thrown) ? (end ?? thrown) : thrown));
  } catch (thrown) {
    isLost = isBroken(thrown);
    throw thrown;
  } finally {
    client.off('error', onError);
    client.release(isLost || end !== undefined);
  }
}

/** Makes one connection outside a pool. It is not open yet. @param changes settings that differ from those of a pool */
export function singleClient(options: OpenPostgresOptions, changes: pg.ClientConfig = {}): pg.Client {
  const { url, hosts } = serverHosts(currentUrl(options.url));
  const settings = { ...clientSettings(options, url), ...changes };
  return new (primaryClient(new PrimaryFinder({ ...options, hosts, settings }), options.opened))(settings);
}

/**
 * Looks whether the server can be used, by a connection of its own: those that are open may still work while a server that is about
 * to stop lets nobody in. Where there are only too many connections, those of the pool are used as long as it has some: what they
 * say counts.
 * @param pool of the owner @param signal gives it up
 * @throws what keeps the server from being used
 */
export async function lookAtServer(pool: pg.Pool, options: OpenPostgresOptions, signal?: AbortSignal): Promise<void> {
  // Those to servers of which the one that takes changes is looked for are given up as well.
  const opened = signal ? new ServerConnections() : options.opened;
  const client = singleClient({ ...options, ...(opened ? { opened } : {}) }, { query_timeout: connectMs });
  const giveUp = (): void => opened?.cut();
  signal?.addEventListener('abort', giveUp);
  try {
    await client.connect();
    void client.end().catch(() => undefined);
  } catch (thrown) {
    breakOff(client);
    if (errorCode(thrown) !== tooManyConnections) throw thrown;
    await requireUsable(pool);
  } finally {
    signal?.removeEventListener('abort', giveUp);
  }
}

/** A value of a statement as the driver wants it: text as PostgreSQL can keep it, alone or in a list. */
export function driverValue(value: unknown): unknown {
  if (typeof value === 'string') return storableText(value);
  return Array.isArray(value) ? value.map(driverValue) : value;
}

/** Text as PostgreSQL can keep it: it has no NUL, for which U+FFFD stands. */
export function storableText(text: string): string {
  return text.includes('\0') ? text.replaceAll('\0', '\u{fffd}') : text;
}
