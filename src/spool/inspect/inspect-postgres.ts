// Reports on a PostgreSQL database (D91), within a bounded time. It asks by a connection of its own and changes nothing.

import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import type { Row } from '../../base/database/database.ts';
import { told } from '../../base/database/postgres-errors.ts';
import { singleClient } from '../../base/database/postgres-pool.ts';
import { errorMessage } from '../../base/errors.ts';
import { serverHosts } from '../../base/postgres/server-hosts.ts';
import { askServer } from '../../base/postgres/server-settings.ts';
import { lineIsFree } from '../postgres/spool-lines.ts';
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

// What is asked. Every question reads catalogues, or a table by an index.

/** What is asked of the server besides `askServer`. */
const serverQuestion = `SELECT current_setting('server_version') AS version,
    current_setting('server_encoding') AS encoding, current_setting('max_connections')::integer AS max_connections,
    (SELECT count(*)::integer FROM pg_stat_activity WHERE backend_type = 'client backend') AS connections,
    pg_database_size(current_database())::float8 AS octets,
    (SELECT age(datfrozenxid) FROM pg_database WHERE datname = current_database()) AS transaction_age,
    (SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()) AS tls, quote_ident(current_user) AS asker,
    EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'pg_read_all_stats' AND pg_has_role(oid, 'USAGE')) AS sees_all`;

const isRange = "c.relispartition AND pg_get_expr(c.relpartbound, c.oid) <> 'DEFAULT'";

/** Tables of the schema with their sizes; those of partitions count for their table, which are made in the order of their ranges. */
const tablesQuestion = `SELECT parent.relname AS name, count(*) FILTER (WHERE ${isRange}) AS partitions,
    (array_agg(c.relname ORDER BY c.oid) FILTER (WHERE ${isRange}))[1] AS oldest_partition,
    (array_agg(c.relname ORDER BY c.oid DESC) FILTER (WHERE ${isRange}))[1] AS newest_partition,
    sum(greatest(c.reltuples, s.n_live_tup, 0)) FILTER (WHERE c.relispartition AND NOT (${isRange})) AS rows_outside,
    sum(pg_total_relation_size(c.oid)) AS octets, sum(greatest(c.reltuples, 0))::bigint AS rows,
    sum(coalesce(s.n_dead_tup, 0)) AS dead_rows, sum(coalesce(s.n_live_tup, 0)) AS live
  FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
    JOIN pg_class parent ON parent.oid = coalesce(i.inhparent, c.oid) LEFT JOIN pg_stat_user_tables s ON s.relid = c.oid
  WHERE c.relnamespace = to_regnamespace(current_schema()) AND c.relkind IN ('r', 'p')
  GROUP BY parent.relname ORDER BY octets DESC`;

/** Who follows the server. Without the right to see it the columns are NULL. */
const replicasQuestion = `SELECT application_name AS name, coalesce(state, '') AS state, sync_state,
    pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn) AS lag FROM pg_stat_replication ORDER BY 1`;

/** Replication slots that nobody reads, and the octets of the log that the server keeps for them. */
const slotsQuestion = `SELECT slot_name AS name, pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn) AS octets
  FROM pg_replication_slots WHERE NOT active AND restart_lsn IS NOT NULL ORDER BY 1`;

/** Transactions that have been open for long, and keep every table from being tidied up. */
const openQuestion = `SELECT pid, coalesce(usename, '') AS who, coalesce(application_name, '') AS program,
    extract(epoch FROM clock_timestamp() - xact_start)::integer AS seconds
  FROM pg_stat_activity WHERE datname = current_database() AND xact_start < clock_timestamp() - interval '10 minutes'
  ORDER BY xact_start LIMIT 10`;

/** What waits, what failed, and what is claimed. */
const queueQuestion = `SELECT (SELECT coalesce(sum(queued_recipients), 0) FROM spool_counts) AS queued_recipients,
    (SELECT coalesce(sum(failed_messages), 0) FROM spool_counts) AS failed_messages,
    (SELECT count(*) FROM spool_recipients WHERE claimed_by IS NOT NULL) AS claimed,
    (SELECT min(due_at) FROM spool_recipients WHERE claimed_by IS NOT NULL) AS oldest_claim_until,
    (SELECT min(ready_at) FROM spool_lines line WHERE ${lineIsFree}) AS oldest_turn_at,
    (SELECT m.accepted_at FROM spool_recipients r JOIN spool_messages m ON m.id = r.message WHERE r.state = 0
      ORDER BY r.message LIMIT 1) AS oldest_accepted_at`;

/** The processes, how long each may be silent (null in tables of an earlier release), and what they have claimed. */
const processesQuestion = `SELECT p.id, p.name, p.beats, (to_jsonb(p) ->> 'patience_ms')::integer AS patience_ms,
    (SELECT count(*) FROM spool_recipients r WHERE r.claimed_by = p.id) AS claims FROM spool_processes p ORDER BY p.id`;

/** Claims of processes that are not there, which the next gateway to look gives back. */
const orphansQuestion = `SELECT count(*) AS claims FROM spool_recipients
  WHERE claimed_by IS NOT NULL AND claimed_by NOT IN (SELECT id FROM spool_processes)`;

/** Which of our tables there are. */
const presentQuestion =
  "SELECT to_regclass('migrations') IS NOT NULL AS migrated, to_regclass('spool_processes') IS NOT NULL AS spooled";

/** Asks; what fails is a problem of its own, and there are no rows. */
type Ask = (sql: string) => Promise<readonly Row[]>;

/** Looks at the database. @throws Unavailable where the server cannot be reached */
export async function inspectPostgres(inspection: PostgresInspection): Promise<DatabaseReport> {
  const { url, seconds } = inspection;
  const settings = {
    application_name: 'postern db check',
    connectionTimeoutMillis: Math.min(10, seconds) * 1000,
    statement_timeout: seconds * 1000,
    query_timeout: (seconds + 1) * 1000,
  };
  // Of several servers the one that takes changes is looked at; of one it is told where it takes none.
  const isOne = serverHosts(url).hosts.length <= 1;
  const client = isOne ? new pg.Client({ connectionString: url, ...settings }) : singleClient({ url }, settings);
  client.on('error', () => undefined);
  const unanswered = new Map<string, DatabaseProblem>();
  const cure = 'Run it again at a quiet time with more --seconds, as the user of the tables or a member of pg_monitor';
  const ask: Ask = async (sql) => {
    try {
      return (await client.query<Row>(sql)).rows;
    } catch (thrown) {
      const text = `The server did not tell everything: ${errorMessage(thrown)}`;
      unanswered.set(text, { code: 'unanswered', text, cure });
      return [];
    }
  };
  await told(client.connect());
  try {
    // Before anything is set, which the answer would tell.
    const [state = {}] = await ask(askServer);
    await told(client.query('SET default_transaction_read_only = on'));
    const { problems, ...found } = await report(ask, state, inspection);
    return { ...found, problems: [...problems, ...unanswered.values()] };
  } finally {
    await client.end().catch(() => undefined);
  }
}

async function report(
  ask: Ask,
  state: Row,
  { known, shown, takeOverSeconds }: PostgresInspection,
): Promise<DatabaseReport> {
  const [more = {}] = await ask(serverQuestion);
  const server: Row = { ...state, ...more };
  const [present = {}] = await ask(presentQuestion);
  const [hasTables, hasSpool] = [present['migrated'] === true, present['spooled'] === true];
  const owners = (hasTables ? await ask('SELECT owner, version FROM migrations ORDER BY owner') : []).map((row) => {
    const owner = String(row['owner']);
    return { owner, version: Number(row['version']), known: known.get(owner) ?? null };
  });
  const tables = await ask(tablesQuestion);
  const [queued] = hasSpool ? await ask(queueQuestion) : [];
  const queue = queued ? queueOf(queued) : null;
  const processes = hasSpool ? await processesOf(ask, takeOverSeconds) : [];
  const [orphans] = hasSpool ? await ask(orphansQuestion) : [];
  const isStandby = server['standby'] === true;
  const replicas = isStandby ? [] : await ask(replicasQuestion);
  const slots = isStandby ? [] : await ask(slotsQuestion);
  const open = await ask(openQuestion);
  const now = numberOf(server['time']) ?? Date.now();
  const isServed = processes.some(({ isAlive }) => isAlive === true);
  const { time: _, asker: __, sees_all: ___, ...facts } = server;
  const cure = 'Start a gateway on it, or move one there (postern migrate)';
  return {
    ...{ engine: 'PostgreSQL', place: shown, owners, queue, processes },
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the questions ask for texts, numbers, and yes or no
    facts: facts as DatabaseReport['facts'],
    tables: tables.map(sizeOf),
    replicas: replicas.map((row) => ({
      ...{ name: String(row['name']), state: String(row['state']), lagOctets: numberOf(row['lag']) },
      isSynchronous: row['sync_state'] === null ? null : isSynchronous(row),
    })),
    unseen: unseenOf(server),
    problems: [
      ...(hasTables ? [] : [{ code: 'no-tables', text: 'There are no tables of Postern', cure }]),
      ...commonProblems({ owners, queue }, now, isServed),
      ...serverProblems({ server, tables, replicas, slots, open }),
      ...claimProblems(processes, numberOf(orphans?.['claims']) ?? 0, takeOverSeconds),
    ],
  };
}

/** Looks at the processes twice: a living one changes its row more often than that. */
async function processesOf(ask: Ask, takeOverSeconds: number): Promise<readonly WorkingProcess[]> {
  const first = await ask(processesQuestion);
  if (first.length === 0) return [];
  const longest = first.reduce((ms, row) => Math.max(ms, numberOf(row['patience_ms']) ?? takeOverSeconds * 1000), 6000);
  await sleep((longest / 6) * 1.6);
  const beats = new Map((await ask(processesQuestion)).map((row) => [row['id'], row['beats']]));
  return first.map((row) => ({
    name: String(row['name']),
    claims: numberOf(row['claims']),
    isAlive: beats.has(row['id']) && beats.get(row['id']) !== row['beats'],
  }));
}
