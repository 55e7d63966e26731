// Reports on a SQLite database (D90), within a bounded time.

import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { missingRight, requireDatabase } from '../../base/database/sqlite-file.ts';
import { commonProblems, type DatabaseProblem, type DatabaseReport, shownOctets } from './database-report.ts';
import type { SqliteFindings } from './sqlite-look.ts';

/** Octets of free pages, and of the log, above which something is to be done. */
const mostFreeOctets = 256 * 1024 * 1024;
const mostLogOctets = 1024 * 1024 * 1024;

/** What is looked at, and for how long. */
export interface SqliteInspection {
  /** Path of the file. */
  readonly file: string;
  /** The version of each owner's tables that this program knows. */
  readonly known: ReadonlyMap<string, number>;
  /** Whether indexes are compared with their tables as well. */
  readonly isFull: boolean;
  readonly seconds: number;
}

/** Runs the look until it ends or its time is over. */
function look({ file, isFull, seconds }: SqliteInspection): Promise<Partial<SqliteFindings>> {
  const child = fork(fileURLToPath(new URL('./sqlite-look.ts', import.meta.url)), [file, isFull ? 'full' : ''], {
    execArgv: [],
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  });
  const findings: Partial<SqliteFindings> = {};
  const timer = setTimeout(() => child.kill('SIGKILL'), seconds * 1000);
  return new Promise((resolve, reject) => {
    child.on('message', (found: Partial<SqliteFindings>) => void Object.assign(findings, found));
    child.once('error', reject);
    child.once('close', () => {
      clearTimeout(timer);
      resolve(findings);
    });
  });
}

/** Looks at the file. @throws Error where there is none, or it cannot be read at all */
export async function inspectSqlite(inspection: SqliteInspection): Promise<DatabaseReport> {
  const { file, known, seconds } = inspection;
  requireDatabase(file);
  const { about: found, tables = [], faults, failure } = await look(inspection);
  const why = failure === undefined ? `nothing was answered within ${seconds} s` : `${failure}${missingRight(file)}`;
  if (!found) throw new Error(`"${file}" cannot be read: ${why}`);
  const owners = found.owners.map((one) => ({ ...one, known: known.get(one.owner) ?? null }));
  const { queue, isServed, now } = found;
  const problems: DatabaseProblem[] = [
    ...commonProblems({ owners, queue: found.movedTo === undefined ? queue : null }, now, isServed),
    ...ownProblems(found),
    ...integrityProblems(faults, failure, seconds),
  ];
  return {
    ...{ engine: 'SQLite', place: file, owners, tables, queue, problems, replicas: [], unseen: [] },
    facts: { ...found.facts, checked: faults !== undefined },
    processes: isServed ? [{ name: 'a gateway on this machine', claims: queue?.claimed ?? null, isAlive: null }] : [],
  };
}

function ownProblems({ facts, isServed, movedTo }: SqliteFindings['about']): DatabaseProblem[] {
  const problems: DatabaseProblem[] = [];
  const free = Number(facts['freePages']) * Number(facts['pageOctets']);
  if (movedTo !== undefined) {
    const cure = 'Name that in database.url; postern migrate --undo tells the way back';
    problems.push({ code: 'moved', text: `This file was moved to ${movedTo}, and no gateway starts on it`, cure });
  }
  if (free > mostFreeOctets && (facts['givesPagesBack'] !== true || !isServed)) {
    const text = `${shownOctets(free)} of the file are free pages`;
    problems.push({ code: 'free-pages', text, cure: 'Run postern queue compact' });
  }
  if (Number(facts['logOctets']) > mostLogOctets) {
    const text = `The log beside the file (-wal) has ${shownOctets(Number(facts['logOctets']))}`;
    const cure = 'A program reads for very long, such as a backup: end it, and the log shrinks';
    problems.push({ code: 'long-log', text, cure });
  }
  return problems;
}

function integrityProblems(
  faults: readonly string[] | undefined,
  failure: string | undefined,
  seconds: number,
): DatabaseProblem[] {
  const cure =
    'Stop the gateway, copy the data folder, and restore the last backup (postern restore); what can still be read of the ' +
    'file, sqlite3’s .recover writes out';
  if (faults) return faults.map((text) => ({ code: 'damaged', text: `The file is damaged: ${text}`, cure }));
  if (failure !== undefined) return [{ code: 'damaged', text: `The file cannot be read whole: ${failure}`, cure }];
  return [
    {
      code: 'not-checked',
      text: `The file was not read to its end within ${seconds} s`,
      cure: 'Give it longer with --seconds, at a quiet time or on a copy that postern backup has made',
    },
  ];
}
