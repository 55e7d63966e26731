// Reports on a PostgreSQL database (D91), within a bounded time. It asks by a connection of its own and changes nothing.

import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import type { Row } from '../../base/database/database.ts';
import { storeError } from '../../base/database/postgres-errors.ts';
import { singleClient } from '../../base/database/postgres-pool.ts';
import { errorMessage } from '../../base/errors.ts';
import { serverHosts } from '../../base/postgres/server-hosts.ts';
import {
  commonProblems,
  type DatabaseProblem,
  type DatabaseReport,
  numberOf,
  queueOf,
  sizeOf,
  type WorkingProcess,
} from './database-report.ts';
import { claimProblems, isSynchronous, serverProblems, unseenOf } from './postgres-problems.ts';
import {
  openQuestion,
  orphansQuestion,
  ownersQuestion,
  presentQuestion,
  processesQuestion,
  queueQuestion,
  replicasQuestion,
  serverQuestion,
  slotsQuestion,
  tablesQuestion,
} from './postgres-questions.ts';

/** What is looked at, and for how long. */
export interface PostgresInspection {
  readonly url: string;
  /** Host, port and name, for people. */
  readonly shown: string;
  /** The version of each owner's tables that this program knows. */
  readonly known: ReadonlyMap<string, number>;
  /** After how long without a sign a process is taken for dead, in seconds. */
  readonly takeOverSeconds: number;
  /** How long a question may take. */
  readonly seconds: number;
}

/** How often processes are looked at while one has given no sign yet. */
const looks = 8;

const noTables: DatabaseProblem = {
  code: 'no-tables',
  text: 'There are no tables of Postern',
  cure: 'Start a gateway on it, or move one there (postern migrate)',
};

/** One look. */
class Look {
  readonly #client: pg.Client;
  /** What could not be asked. */
  readonly unanswered: DatabaseProblem[] = [];

  constructor({ url, seconds }: PostgresInspection) {
    const settings = {
      application_name: 'postern db check',
      connectionTimeoutMillis: Math.min(10, seconds) * 1000,
      statement_timeout: seconds * 1000,
      query_timeout: (seconds + 1) * 1000,
    };
    // Of several servers the one that takes changes is looked at; of one it is told where it takes none.
    const { hosts } = serverHosts(url);
    this.#client =
      hosts.length > 1 ? singleClient({ url }, settings) : new pg.Client({ connectionString: url, ...settings });
    this.#client.on('error', () => undefined);
  }

  async connect(): Promise<void> {
    try {
      await this.#client.connect();
      await this.#client.query('SET default_transaction_read_only = on');
    } catch (thrown) {
      throw storeError(thrown);
    }
  }

  /** Asks; what fails is a problem of its own, and there are no rows. */
  async ask(sql: string): Promise<readonly Row[]> {
    try {
      return (await this.#client.query<Row>(sql)).rows;
    } catch (thrown) {
      const text = `The server did not tell everything: ${errorMessage(thrown)}`;
      const cure =
        'Run it again at a quiet time with more --seconds, as the user of the tables or a member of pg_monitor';
      if (!this.unanswered.some((known) => known.text === text))
        this.unanswered.push({ code: 'unanswered', text, cure });
      return [];
    }
  }

  async close(): Promise<void> {
    await this.#client.end().catch(() => undefined);
  }
}

/** Looks at the database. @throws Unavailable where the server cannot be reached */
export async function inspectPostgres(inspection: PostgresInspection): Promise<DatabaseReport> {
  const look = new Look(inspection);
  await look.connect();
  try {
    return await report(look, inspection);
  } finally {
    await look.close();
  }
}

async function report(look: Look, { known, shown, takeOverSeconds }: PostgresInspection): Promise<DatabaseReport> {
  const [server = {}] = await look.ask(serverQuestion);
  const [present = {}] = await look.ask(presentQuestion);
  const [hasTables, hasSpool] = [present['migrated'] === true, present['spooled'] === true];
  const owners = (hasTables ? await look.ask(ownersQuestion) : []).map((row) => {
    const owner = String(row['owner']);
    return { owner, version: numberOf(row, 'version') ?? 0, known: known.get(owner) ?? null };
  });
  const tables = await look.ask(tablesQuestion);
  const queue = hasSpool ? queueOf((await look.ask(queueQuestion))[0]) : null;
  const processes = hasSpool ? await processesOf(look, takeOverSeconds) : [];
  const [orphans] = hasSpool ? await look.ask(orphansQuestion) : [];
  const isStandby = server['standby'] === true;
  const replicas = isStandby ? [] : await look.ask(replicasQuestion);
  const slots = isStandby ? [] : await look.ask(slotsQuestion);
  const open = await look.ask(openQuestion);
  const now = numberOf(server, 'now') ?? Date.now();
  const { now: _, asker: __, sees_all: ___, ...facts } = server;
  return {
    ...{ engine: 'PostgreSQL', place: shown, owners, queue, processes },
    facts: Object.fromEntries(Object.entries(facts).map(([name, value]) => [name, factOf(value)])),
    tables: tables.map(sizeOf),
    replicas: replicas.map((row) => ({
      ...{ name: String(row['name']), state: String(row['state']), lagOctets: numberOf(row, 'lag') },
      isSynchronous: row['sync_state'] === null ? null : isSynchronous(row),
    })),
    unseen: unseenOf(server),
    problems: [
      ...(hasTables ? [] : [noTables]),
      ...commonProblems({ owners, queue, now, isServed: processes.some(({ isAlive }) => isAlive === true) }),
      ...serverProblems({ server, tables, replicas, slots, open }),
      ...claimProblems({ processes, orphans: numberOf(orphans, 'claims') ?? 0, takeOverSeconds }),
      ...look.unanswered,
    ],
  };
}

function factOf(value: unknown): string | number | boolean | null {
  if (value === null || value === undefined) return null;
  if (typeof value === 'boolean' || typeof value === 'number') return value;
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return /^\d{1,15}$/.test(text) ? Number(text) : text;
}

/** Looks at the processes until each has given a sign of life, or should have: a living one changes its row that often. */
async function processesOf(look: Look, takeOverSeconds: number): Promise<readonly WorkingProcess[]> {
  const first = await look.ask(processesQuestion);
  const beats = new Map(first.map((row) => [String(row['id']), String(row['beats'])]));
  const alive = new Set<string>();
  const patienceMs = first.reduce(
    (most, row) => Math.max(most, numberOf(row, 'patience_ms') ?? takeOverSeconds * 1000),
    1000,
  );
  for (let count = 0; count < looks && alive.size < first.length; count += 1) {
    await sleep((Math.max(1000, patienceMs / 6) * 1.6) / looks);
    for (const row of await look.ask(processesQuestion)) {
      if (beats.get(String(row['id'])) !== String(row['beats'])) alive.add(String(row['id']));
    }
  }
  return first.map((row) => ({
    name: String(row['name']),
    claims: numberOf(row, 'claims'),
    isAlive: alive.has(String(row['id'])),
  }));
}
