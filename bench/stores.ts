// Messages a second with SQLite and with PostgreSQL, by one process and by two, beside another system: rounds in which each has its
// turn. `node bench/stores.ts --help` tells the options. Each run is one of run.ts, in a process of its own; the PostgreSQL is one
// of its own on this machine, with fsync on. Wants Debian's postfix (smtp-source, smtp-sink) and postgresql, and a quiet machine.

import { execFileSync } from 'node:child_process';
import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { startPostgres } from '../test/support/postgres.ts';
import { median } from './process-usage.ts';

const usage = `Usage: node bench/stores.ts [options]
  --rounds N        rounds (default 4; with a system beside, about a minute each)
  --messages N      messages a run (default 6000)
  --sessions N      sessions of the generator (default 50)
  --processes LIST  numbers of processes with PostgreSQL (default 1,2); SQLite serves one
  --standby         a synchronous standby on this machine as well: a commit is on both before the 250
  --beside NAME=CMD another system, as run.ts takes it
  --out FILE        append every run's JSON line to FILE too
  --seconds N       no further round begins after so long (default 400)`;

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '4' },
    messages: { type: 'string', default: '6000' },
    sessions: { type: 'string', default: '50' },
    processes: { type: 'string', default: '1,2' },
    standby: { type: 'boolean', default: false },
    beside: { type: 'string', multiple: true, default: [] },
    out: { type: 'string' },
    seconds: { type: 'string', default: '400' },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  process.stdout.write(`${usage}\n`);
  process.exit(0);
}

type Run = Readonly<Record<string, number>> & { readonly system: string };

/** Runs run.ts once. @returns the lines of JSON that it printed */
function runOnce(args: readonly string[]): readonly Run[] {
  const load = ['--rounds', '1', '--signatures', '1', '--messages', values.messages, '--sessions', values.sessions];
  const output = execFileSync(process.execPath, [join(import.meta.dirname, 'run.ts'), ...load, ...args], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const lines = output.split('\n').filter((line) => line.startsWith('{'));
  for (const line of lines) {
    process.stdout.write(`${line}\n`);
    if (values.out) appendFileSync(values.out, `${line}\n`);
  }
  return lines.map((line) => JSON.parse(line) as Run);
}

const server = await startPostgres({ fsync: true });
const standby = values.standby ? await server.addStandby() : undefined;
if (standby) await server.configure({ synchronous_standby_names: '*' });
const runs: Run[] = [];
const began = performance.now();
try {
  const database = await server.createDatabase();
  const beside = values.beside.flatMap((one) => ['--beside', one]);
  for (let round = 0; round < Number(values.rounds); round += 1) {
    if ((performance.now() - began) / 1000 > Number(values.seconds)) break;
    // What stands beside runs once in a round, with the first of ours.
    runs.push(...runOnce(['--processes', '1', ...beside]));
    runs.push(...runOnce(['--processes', values.processes, '--database', database]));
  }
} finally {
  if (standby) {
    await server.configure({ synchronous_standby_names: '' });
    await standby.remove();
  }
  await server.remove();
}
process.stdout.write(
  '\n| system | runs | relayed msg/s | accepted msg/s | CPU us/msg | peak RSS MiB |\n|---|---|---|---|---|---|\n',
);
for (const [system, group] of Map.groupBy(runs, (run) => run.system)) {
  const middle = (name: string): string =>
    Math.round(median(group.map((run) => run[name] ?? Number.NaN))).toLocaleString('en');
  const figures = ['messagesPerSecond', 'acceptedPerSecond', 'cpuMicrosecondsPerMessage', 'peakMebibytes'].map(middle);
  process.stdout.write(`| ${system} | ${group.length} | ${figures.join(' | ')} |\n`);
}
