// Gateways of older releases, as their database sees them: its tables, and their statements sent again and again in their order,
// recorded from the real ones (oldest-postgres.json, last-postgres.json). What they meet is what such a gateway would tell its senders.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import type { AskServer } from '../../src/base/database/postgres-migrations.ts';
import { uuidv7 } from '../../src/base/ids.ts';
import { ensurePartitions } from '../../src/spool/postgres/events/event-partitions.ts';
import { unpackDump } from './old-data.ts';
import type { PostgresServer } from './postgres.ts';

type Value = null | number | string | { readonly base64: string } | readonly Value[];

interface Statement {
  readonly text: string;
  readonly values: readonly Value[];
}

interface Recorded {
  /** Absent: its tables are those of its data (old-data.ts). */
  readonly migrations?: readonly { readonly owner: string; readonly version: number; readonly steps: string[] }[];
  readonly enter: Statement;
  readonly add: readonly Statement[];
  readonly outcome: readonly Statement[];
  readonly reads: readonly Statement[];
}

/** As the gateway names them: the server keeps a plan of each. */
const names = new Map<string, string>();

/** The oldest release that has PostgreSQL, and the last one before this. */
export type OldRelease = 'oldest' | 'last';

function recordedOf(release: OldRelease): Recorded {
  return JSON.parse(readFileSync(join(import.meta.dirname, `${release}-postgres.json`), 'utf8')) as Recorded;
}

const dayMs = 86_400_000;

/** The limits that the gateway gives its connections. */
const limits = { statement_timeout: 5000, lock_timeout: 5000, query_timeout: 15_000, pipeline: true };

/** What such gateways do each day: the dump has the partitions of the days when it was made. */
async function makeTodaysPartitions(url: string): Promise<void> {
  const client = new pg.Client(url);
  await client.connect();
  const [since, until] = [Date.now() - dayMs, Date.now() + 3 * dayMs];
  const asked: AskServer = async (sql, values = []) => (await client.query(sql, [...values])).rows;
  await ensurePartitions(asked, { since, until, lastEvent: 0 });
  await client.end();
}

/** Makes a database with the tables of a release. @returns its URL */
export async function makeOldTables(release: OldRelease, server: PostgresServer): Promise<string> {
  const { migrations } = recordedOf(release);
  if (!migrations) {
    const url = await unpackDump('8e055d7-postgres', server, 0);
    await makeTodaysPartitions(url);
    return url;
  }
  const url = await server.createDatabase();
  const client = new pg.Client(url);
  await client.connect();
  await client.query('CREATE TABLE migrations (owner TEXT PRIMARY KEY, version INTEGER NOT NULL)');
  for (const { owner, version, steps } of migrations) {
    for (const step of steps) await client.query(step);
    await client.query('INSERT INTO migrations VALUES ($1, $2)', [owner, version]);
  }
  await client.end();
  return url;
}

/** The statements of some such gateways at work. */
export class OldGateways {
  /** What failed, as their senders would be told. */
  readonly failures: string[] = [];
  /** Messages that were taken, and those of them that were delivered. */
  readonly taken: string[] = [];
  delivered = 0;
  #isOver = false;
  readonly #work: Promise<unknown>;

  readonly #recorded: Recorded;

  private constructor(release: OldRelease, url: string, count: number) {
    this.#recorded = recordedOf(release);
    this.#work = Promise.all(Array.from({ length: count }, () => Promise.all([this.#write(url), this.#read(url)])));
  }

  /** Has so many of them work on a database until they are stopped. */
  static start(release: OldRelease, url: string, count: number): OldGateways {
    return new OldGateways(release, url, count);
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#work;
  }

  /** Adds messages and delivers them, all but each tenth. */
  async #write(url: string): Promise<void> {
    const { enter, add, outcome, reads } = this.#recorded;
    const client = new pg.Client({ connectionString: url, ...limits });
    await client.connect();
    const { rows } = await client.query<{ id: number }>(enter.text, [...enter.values]);
    const facts = { $process: rows[0]?.id ?? 0, $batch: 0 };
    const run = async (statements: readonly Statement[], message: string): Promise<boolean> => {
      facts.$batch += 2;
      const sent = ['BEGIN', ...statements, 'COMMIT'].map((one) =>
        typeof one === 'string' ? client.query(one) : this.#send(client, one, { ...facts, $message: message }),
      );
      const failed = (await Promise.allSettled(sent)).find((end) => end.status === 'rejected');
      if (!failed) return true;
      this.failures.push(String(failed.reason));
      await client.query('ROLLBACK');
      return false;
    };
    const [beat] = reads;
    while (!this.#isOver) {
      // As the gateway does once a second: without it the others would take it for dead.
      if (beat) await this.#send(client, beat, facts).catch((thrown: unknown) => this.failures.push(String(thrown)));
      const message = uuidv7(Date.now());
      if (!(await run(add, message))) continue;
      this.taken.push(message);
      if (this.taken.length % 10 > 0 && (await run(outcome, message))) this.delivered += 1;
    }
    await client.end();
  }

  async #read(url: string): Promise<void> {
    const client = new pg.Client({ connectionString: url, ...limits });
    await client.connect();
    while (!this.#isOver) {
      for (const one of this.#recorded.reads) {
        const asked = this.#send(client, one, { $process: 1 });
        await asked.catch((thrown: unknown) => this.failures.push(String(thrown)));
      }
    }
    await client.end();
  }

  #send(client: pg.Client, { text, values }: Statement, facts: Readonly<Record<string, number | string>>) {
    const now = Date.now();
    const all = { ...facts, $now: now, $later: now + 3_600_000 };
    const filled = (value: Value): unknown => {
      if (Array.isArray(value)) return value.map(filled);
      if (typeof value === 'object' && value && 'base64' in value) return Buffer.from(value.base64, 'base64');
      if (typeof value !== 'string') return value;
      for (const [name, fact] of Object.entries(all)) if (value === name) return fact;
      return value.replaceAll('$message', String(facts['$message']));
    };
    const name = names.get(text) ?? `postern_${names.size + 1}`;
    names.set(text, name);
    return client.query({ text, values: values.map(filled), name });
  }
}
