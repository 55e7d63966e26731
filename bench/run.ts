// npm run bench: messages a second accepted and relayed, from Postfix's smtp-source through Postern to its smtp-sink
// (Debian package postfix). `--help` tells the options. Prints one JSON line a run, then a table of medians.

import { execFileSync } from 'node:child_process';
import { appendFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { type Load, measurePostern, type Run } from './measure.ts';
import { median } from './process-usage.ts';

const usage = `Usage: npm run bench -- [options]
  --messages N      messages a run (default 10000)
  --size N          octets a message (default 4096)
  --sessions LIST   sessions of the generator (default 10,50)
  --rounds N        rounds; the systems alternate within each (default 3)
  --signatures LIST 1: the sending domain's RSA-2048 signature; 2: the platform's too (default 1,2)
  --processes LIST  processes that share the load (default 1)
  --journal LIST    what the journal keeps: off (no rows), none (rows alone), headers, full (default none)
  --database URL    postgres://... in place of SQLite; its tables are removed before each run
  --beside NAME=CMD another system under the same load: a shell command run with N, SIZE and SESS set that prints a
                    JSON line with drained_msgs_s, cpu_us_msg and peak_rss_mib; may be given several times
  --out FILE        append every run's JSON line to FILE too`;

function measureBeside(beside: { readonly name: string; readonly command: string }, load: Load): Run {
  const env = { ...process.env, N: `${load.messages}`, SIZE: `${load.size}`, SESS: `${load.sessions}`, REUSE: '1' };
  const output = execFileSync('bash', ['-c', beside.command], {
    env,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const line = JSON.parse(output.trim().split('\n').at(-1) ?? '') as Record<string, number>;
  const figure = (name: string): number => line[name] ?? Number.NaN;
  return {
    system: beside.name,
    sessions: load.sessions,
    messagesPerSecond: figure('drained_msgs_s'),
    acceptedPerSecond: figure('accepted_msgs_s'),
    cpuMicrosecondsPerMessage: figure('cpu_us_msg'),
    peakMebibytes: figure('peak_rss_mib'),
  };
}

function printTable(runs: readonly Run[]): void {
  console.log(
    '\n| system | sessions | relayed msg/s | accepted msg/s | CPU us/msg | peak RSS MiB |\n|---|---|---|---|---|---|',
  );
  const groups = Map.groupBy(runs, (run) => `${run.system}\0${run.sessions}`);
  for (const group of groups.values()) {
    const [first] = group;
    if (!first) continue;
    const middle = (pick: (run: Run) => number): string => Math.round(median(group.map(pick))).toLocaleString('en');
    console.log(
      `| ${first.system} | ${first.sessions} | ${middle((run) => run.messagesPerSecond)} | ${middle((run) => run.acceptedPerSecond)} | ${middle((run) => run.cpuMicrosecondsPerMessage)} | ${middle((run) => run.peakMebibytes)} |`,
    );
  }
}

const { values } = parseArgs({
  options: {
    messages: { type: 'string', default: '10000' },
    size: { type: 'string', default: '4096' },
    sessions: { type: 'string', default: '10,50' },
    rounds: { type: 'string', default: '3' },
    signatures: { type: 'string', default: '1,2' },
    processes: { type: 'string', default: '1' },
    journal: { type: 'string', default: 'none' },
    database: { type: 'string' },
    beside: { type: 'string', multiple: true, default: [] },
    out: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  console.log(usage);
  process.exit(0);
}
const beside = values.beside.map((text) => ({
  name: text.slice(0, text.indexOf('=')),
  command: text.slice(text.indexOf('=') + 1),
}));
const runs: Run[] = [];
const keep = (run: Run): void => {
  runs.push(run);
  const line = JSON.stringify(run);
  console.log(line);
  if (values.out) appendFileSync(values.out, `${line}\n`);
};
for (let round = 0; round < Number(values.rounds); round += 1) {
  for (const sessions of values.sessions.split(',').map(Number)) {
    const load: Load = { messages: Number(values.messages), size: Number(values.size), sessions };
    for (const signatures of values.signatures.split(',').map(Number)) {
      for (const processes of values.processes.split(',').map(Number)) {
        for (const journal of values.journal.split(','))
          keep(await measurePostern(load, { signatures, processes, journal, database: values.database }));
      }
    }
    for (const other of beside) keep(measureBeside(other, load));
  }
}
printTable(runs);
