// What may be wrong with a PostgreSQL, and what to do about it.

import type { Row } from '../../base/database/database.ts';
import { risksOf, whyUnusable } from '../../base/postgres/server-settings.ts';
import { text } from '../stored-rows.ts';
import { type DatabaseProblem, shownOctets, type WorkingProcess } from './database-report.ts';

/** Dead rows above which a table is looked after too little, where they are as many as the living ones. */
const mostDeadRows = 500_000;
/** Rows outside of partitions above which they were not made in time. */
const mostRowsOutside = 100_000;
/** Octets of log that a slot without a reader may keep. */
const mostSlotOctets = 1024 ** 3;
/** The share of the connections above which others may find none. */
const mostConnections = 0.8;

interface Told extends Readonly<Record<'tables' | 'replicas' | 'slots' | 'open', readonly Row[]>> {
  /** The answers to `askServer` and more. */
  readonly server: Row;
}

type AddProblem = (code: string, words: string, cure: string) => void;

/** Whether commits wait for a standby. */
export function isSynchronous(row: Row): boolean {
  return ['sync', 'quorum'].includes(text(row, 'sync_state'));
}

/** What of the server the user may not see. */
export function unseenOf(server: Row): DatabaseProblem[] {
  if (server['sees_all'] !== false) return [];
  const words =
    'The state of standbys, and the transactions and connections of other users, are not shown to this user';
  return [{ code: 'unseen', text: words, cure: `As a superuser: GRANT pg_monitor TO ${text(server, 'asker')}` }];
}

function addSettings({ server, replicas }: Told, add: AddProblem): void {
  const reason = whyUnusable(server);
  if (reason !== undefined) add('unusable', reason, 'Until then no gateway works on it');
  for (const risk of risksOf(server)) add('not-synced', risk, `ALTER SYSTEM SET ${risk.split(' ', 1).join('')} = on`);
  if (text(server, 'encoding') !== 'UTF8' && text(server, 'encoding') !== '')
    add(
      'encoding',
      `The database is encoded in ${text(server, 'encoding')}`,
      'Make one WITH ENCODING ’UTF8’, and move there',
    );
  if (text(server, 'standby_names') === '') return;
  // A standby whose state the user may not see is not judged.
  const mayBe = replicas.filter((row) => row['sync_state'] === null || isSynchronous(row));
  if (mayBe.length === 0)
    add(
      'no-synchronous-standby',
      'synchronous_standby_names is set and no such standby follows: commits wait, and mail gets 451',
      'Start the standby, or look why it does not follow; without its name in that setting a failover would lose mail',
    );
}

/** What is wrong with the server and its tables. */
export function serverProblems(told: Told): DatabaseProblem[] {
  const { server, tables, slots, open } = told;
  const problems: DatabaseProblem[] = [];
  const add: AddProblem = (code, words, cure) => void problems.push({ code, text: words, cure });
  addSettings(told, add);
  const [used, most] = [Number(server['connections'] ?? 0), Number(server['max_connections'] ?? 0)];
  if (most > 0 && used > most * mostConnections)
    add('connections', `${used} of ${most} connections are in use`, 'Raise max_connections, or run fewer gateways');
  for (const row of tables) {
    const [dead, live] = [Number(row['dead_rows'] ?? 0), Number(row['live'] ?? 0)];
    if (dead > mostDeadRows && dead > live)
      add(
        'dead-rows',
        `${text(row, 'name')} has ${dead} dead rows beside ${live}`,
        `VACUUM ${text(row, 'name')}; lower autovacuum_vacuum_scale_factor, and end transactions that stay open`,
      );
    const outside = Number(row['rows_outside'] ?? 0);
    if (outside > mostRowsOutside)
      add(
        'no-partition',
        `${text(row, 'name')} has about ${outside} rows that came when there was no partition for them`,
        'They are found, and go one by one; look in the gateways’ logs why partitions could not be changed',
      );
  }
  for (const row of slots) {
    if (Number(row['octets'] ?? 0) > mostSlotOctets)
      add(
        'slot',
        `Nobody reads the replication slot ${text(row, 'name')}, for which ${shownOctets(Number(row['octets']))} of log are kept`,
        `Start its standby, or pg_drop_replication_slot('${text(row, 'name')}')`,
      );
  }
  for (const row of open)
    add(
      'open-transaction',
      `A transaction of ${text(row, 'who')} (${text(row, 'program')}) has been open for ${String(Number(row['seconds']))} s, and dead rows stay`,
      `End it: SELECT pg_terminate_backend(${String(Number(row['pid']))})`,
    );
  return problems;
}

/** What is wrong with processes and their claims. */
export function claimProblems(
  processes: readonly WorkingProcess[],
  orphans: number,
  takeOverSeconds: number,
): DatabaseProblem[] {
  const isServed = processes.some(({ isAlive }) => isAlive === true);
  const problems = processes
    .filter(({ isAlive }) => isAlive === false)
    .map(({ name, claims }) => ({
      code: 'silent-process',
      text: `The process "${name}" gives no sign of life and holds ${claims ?? 0} recipients`,
      cure: isServed
        ? `Others take over after ${takeOverSeconds} s without a sign; look why it has ended`
        : 'Start a gateway: it takes over what is held',
    }));
  if (orphans === 0) return problems;
  const words = `${orphans} recipients are held by processes that are not there`;
  return [
    ...problems,
    { code: 'orphaned-claims', text: words, cure: 'Start a gateway anew: it gives them back at its start' },
  ];
}
