// The data of older releases (old-data/), as a gateway of this release finds them: on the day on which they were made.

import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { deviceConfiguration } from './device-config.ts';
import { testToken } from './postern-process.ts';
import type { PostgresServer } from './postgres.ts';

/** What the old release told of itself before it was killed. */
export interface OldFacts {
  readonly from: string;
  /** Milliseconds since 1970. */
  readonly madeAt: number;
  /** Recipients whose mail had arrived. */
  readonly delivered: readonly string[];
  /** A request with an Idempotency-Key, and what was answered. */
  readonly idempotent: { readonly request: object; readonly key: string; readonly answer: unknown };
  /** Number and kind of each event, in order; absent where the release has none, as what follows. */
  readonly events?: readonly string[];
  /** The cursor behind these events. */
  readonly cursor?: string;
  /** Ids of the journal's entries, oldest first. */
  readonly journal?: readonly string[];
  /** SHA-256 of what was received, by the entry's id, where it was kept. */
  readonly kept?: Readonly<Record<string, string>>;
  /** Numbers of the events that each webhook has taken: one had them all, the other has refused most. */
  readonly hooks?: readonly (readonly string[])[];
}

/** An answer of the API: what is asked of it here is a list, or one answer that is only compared. */
export interface OldAnswer {
  readonly result: readonly { readonly id: string; readonly kind?: string; readonly outcome?: string }[];
  readonly result_info?: { readonly cursor?: string };
  readonly errors: unknown;
}

/** The token that all of them know. */
export const tokenOf = testToken;

/** An endpoint of webhooks that takes so many events, and refuses the others. */
export function hookServer(most = Number.POSITIVE_INFINITY) {
  const taken: string[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (text: string) => (body += text));
    request.on('end', () => {
      const isTaken = taken.length < most;
      if (isTaken) taken.push(String(JSON.parse(body).data.id));
      response.writeHead(isTaken ? 200 : 500).end();
    });
  });
  const url = new Promise<string>((resolve) =>
    server.listen(0, '127.0.0.1', () => resolve(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)),
  );
  return { taken, url, close: () => server.close() };
}

/** The settings of such a gateway, old or new (`startPostern`). Nothing is tried again within an hour. */
export function gatewayOf(parts: {
  /** The port of the next hop, and of that for stuck.test. */
  readonly port: number;
  readonly stuckPort: number;
  readonly url: string | undefined;
  readonly isOldest: boolean;
}) {
  const { port, stuckPort, url, isOldest } = parts;
  const hop = (at: number) => ({ type: 'smarthost', url: `smtp://127.0.0.1:${at}`, tls: 'none' });
  const config = {
    ...deviceConfiguration({
      routes: [
        { name: 'stuck', match: { recipientDomains: ['stuck.test'] }, ...hop(stuckPort) },
        { name: 'sink', ...hop(port) },
      ],
      delivery: { retry: { firstDelaySeconds: 3600, maxDelaySeconds: 3600, expireAfterSeconds: 432_000 } },
      credential: {
        tokenEnv: 'POSTERN_TOKEN',
        scopes: ['email:send', 'email:suppressions', ...(isOldest ? [] : ['email:events', 'email:webhooks']), 'admin'],
      },
      ...(url === undefined ? {} : { database: { url: 'postgres://nobody@127.0.0.1:1/none', takeOverSeconds: 5 } }),
    }),
    ...(isOldest
      ? {}
      : {
          reports: { gatherSeconds: 3600 },
          journal: { content: 'full' },
          webhooks: { allowHttp: true, allowNetworks: ['127.0.0.0/8'] },
        }),
  };
  return { config, env: url === undefined ? {} : { POSTERN_DATABASE_URL: url } };
}

const folder = join(import.meta.dirname, 'old-data');

/** Reads what an old release told. */
export function oldFacts(name: string): OldFacts {
  return JSON.parse(readFileSync(join(folder, `${name}.json`), 'utf8')) as OldFacts;
}

/** Unpacks data of SQLite into the data folder of a new gateway. @returns that gateway's folder */
export function unpackFile(name: string): string {
  const own = mkdtempSync(join(tmpdir(), 'postern-old-'));
  const data = join(own, 'data');
  mkdirSync(data);
  execFileSync('tar', ['-C', data, '-x'], { input: gunzipSync(readFileSync(join(folder, `${name}.tar.gz`))) });
  return own;
}

/**
 * Unpacks data of PostgreSQL into a new database, whose clock tells another time.
 * @returns the URL of the database
 */
export async function unpackDump(name: string, server: PostgresServer, aheadMs: number): Promise<string> {
  const url = await server.createDatabase();
  const dump = gunzipSync(readFileSync(join(folder, `${name}.sql.gz`)));
  // The server's own function is found behind this one.
  const clock = `CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS
    $$ SELECT pg_catalog.clock_timestamp() + ${aheadMs} * interval '1 millisecond' $$;`;
  const psql = ['-u', 'postgres', '--', 'psql', '-q', '-v', 'ON_ERROR_STOP=1', '-d', url];
  execFileSync('runuser', psql, {
    input: Buffer.concat([dump, Buffer.from(clock)]),
    stdio: ['pipe', 'ignore', 'inherit'],
  });
  return `${url}&options=${encodeURIComponent('-c search_path=public,pg_catalog')}`;
}

/** What a gateway's environment has to have so that its clock is ahead (a negative number: behind). */
export function aheadBy(aheadMs: number): NodeJS.ProcessEnv {
  return {
    NODE_OPTIONS: `--import=${join(import.meta.dirname, 'wrong-clock.ts')}`,
    POSTERN_TEST_CLOCK_AHEAD: String(aheadMs),
  };
}
