// npm run bench: messages a second accepted and relayed, from Postfix's smtp-source through Postern to its smtp-sink
// (Debian package postfix). `--help` tells the options. Prints one JSON line a run, then a table of medians. With `--all` it runs
// every measurement that the documents quote (all.ts).

import { execFileSync } from 'node:child_process';
import { appendFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { measureAll } from './all.ts';
import { type Form, forms, type Load, measurePostern, measureUnavoidable, type Run } from './measure.ts';
import { median } from './process-usage.ts';

const usage = `Usage: npm run bench -- [options]
  --messages N      messages a run (default 10000)
  --size N          octets a message (default 4096)
  --sessions LIST   sessions of the generator (default 10,50)
  --form LIST       how messages are handed in (default plain):
${forms.map(({ name, text }) => `                    ${name.padEnd(9)} ${text}`).join('\n')}
  --rounds N        rounds; the systems alternate within each (default 3)
  --signatures LIST 1: the sending domain's RSA-2048 signature; 2: the platform's too, in the form plain alone (default 1,2)
  --processes LIST  processes that share the load (default 1)
  --journal LIST    what the journal keeps: off (no rows), none (rows alone), headers, full (default none)
  --database URL    postgres://... in place of SQLite; its tables are removed before each run
  --unavoidable     the work that no gateway can avoid, alone, in every form beside Postern
  --beside NAME=CMD another system under the same load: a shell command run with N, SIZE, SESS and REUSE (1, or empty for a
                    connection each) set that prints a JSON line with drained_msgs_s, accepted_msgs_s, cpu_us_msg and
                    peak_rss_mib; NAME@FORM=CMD for one form alone, else all by smtp-source. May be given several times
  --beside-share N  part of the messages that the other systems get (default 1)
  --out FILE        append every run's JSON line to FILE too

  --all             every measurement that the documents quote, about 25 minutes; one table, also in bench/results/
  --quick           of these one round with fewer messages, some minutes
  --scale N         so many times the messages and requests of --all (default 1)
  --only LIST       parts of --all: mail,rest,edge,proxy,start`;

/** Another system. */
interface Beside {
  readonly name: string;
  /** The only form that it is measured in; absent: all that smtp-source sends. */
  readonly form: string | undefined;
  readonly command: string;
}

function besideOf(text: string): Beside {
  const [, name = '', form, command = ''] = /^([^=@]+)(?:@([^=]+))?=(.*)$/s.exec(text) ?? [];
  return { name, form, command };
}

/** Runs another system; gives no figures where it ends without them, and says so. */
function measureBeside({ name, command }: Beside, load: Load, form: Form): Run | undefined {
  const asked = {
    N: `${load.messages}`,
    SIZE: `${load.size}`,
    SESS: `${load.sessions}`,
    REUSE: form.each ? '' : '1',
    WARM: `${form.warm ?? 0}`,
  };
  try {
    const output = execFileSync('bash', ['-c', command], {
      env: { ...process.env, ...asked },
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
      timeout: 300_000,
    });
    const line = JSON.parse(output.trim().split('\n').at(-1) ?? '') as Record<string, number>;
    const figure = (key: string): number => line[key] ?? Number.NaN;
    return {
      system: name,
      form: form.name,
      sessions: load.sessions,
      messagesPerSecond: figure('drained_msgs_s'),
      acceptedPerSecond: figure('accepted_msgs_s'),
      cpuMicrosecondsPerMessage: figure('cpu_us_msg'),
      peakMebibytes: figure('peak_rss_mib'),
    };
  } catch (error) {
    console.error(`${name}, ${form.name}, ${load.sessions} sessions: ${String(error).split('\n')[0]}`);
    return undefined;
  }
}

function printTable(runs: readonly Run[]): void {
  console.log(
    '\n| form | system | sessions | relayed msg/s | accepted msg/s | CPU us/msg | peak RSS MiB | p50 ms | p99 ms |\n|---|---|---|---|---|---|---|---|---|',
  );
  for (const group of Map.groupBy(runs, (run) => `${run.form} | ${run.system} | ${run.sessions}`)) {
    const [name, ofGroup] = group;
    const middle = (pick: (run: Run) => number | undefined, digits = 0): string =>
      median(ofGroup.map((run) => pick(run) ?? Number.NaN)).toLocaleString('en', { maximumFractionDigits: digits });
    const figures = [
      middle((run) => run.messagesPerSecond),
      middle((run) => run.acceptedPerSecond),
      middle((run) => run.cpuMicrosecondsPerMessage),
      middle((run) => run.peakMebibytes),
      middle((run) => run.p50, 1),
      middle((run) => run.p99, 1),
    ];
    console.log(`| ${name} | ${figures.join(' | ').replaceAll('NaN', '-')} |`);
  }
}

const { values } = parseArgs({
  options: {
    messages: { type: 'string', default: '10000' },
    size: { type: 'string', default: '4096' },
    sessions: { type: 'string', default: '10,50' },
    form: { type: 'string', default: 'plain' },
    rounds: { type: 'string', default: '3' },
    signatures: { type: 'string', default: '1,2' },
    processes: { type: 'string', default: '1' },
    journal: { type: 'string', default: 'none' },
    database: { type: 'string' },
    unavoidable: { type: 'boolean', default: false },
    beside: { type: 'string', multiple: true, default: [] },
    'beside-share': { type: 'string', default: '1' },
    out: { type: 'string' },
    all: { type: 'boolean', default: false },
    quick: { type: 'boolean', default: false },
    scale: { type: 'string', default: '1' },
    only: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});
const runs: Run[] = [];

function keep(run: Run | undefined): void {
  if (!run) return;
  runs.push(run);
  const line = JSON.stringify(run);
  console.log(line);
  if (values.out) appendFileSync(values.out, `${line}\n`);
}

/** Every shape of Postern that is asked for, and then the others, under one load. */
async function measureForm(form: Form, sessions: number, beside: readonly Beside[]): Promise<void> {
  const messages = Math.ceil(Number(values.messages) * (form.share ?? 1));
  const load = { messages, size: form.size ?? Number(values.size), sessions, form };
  for (const signatures of values.signatures.split(',').map(Number)) {
    if (signatures === 2 && form.name !== 'plain') continue;
    for (const processes of values.processes.split(',').map(Number)) {
      for (const journal of values.journal.split(','))
        keep(await measurePostern(load, { signatures, processes, journal, database: values.database }));
    }
    if (values.unavoidable) keep(await measureUnavoidable(load, signatures));
  }
  for (const other of beside) {
    if (other.form === undefined ? form.own || form.warm : other.form !== form.name) continue;
    keep(measureBeside(other, { ...load, messages: Math.ceil(messages * Number(values['beside-share'])) }, form));
  }
}

async function main(): Promise<void> {
  const asked = values.form.split(',').map((name) => {
    const form = forms.find((one) => one.name === name);
    if (!form) throw new Error(`--form ${name}: there is none of this name`);
    return form;
  });
  const beside = values.beside.map(besideOf);
  for (let round = 0; round < Number(values.rounds); round += 1) {
    for (const sessions of values.sessions.split(',').map(Number)) {
      for (const form of asked) await measureForm(form, sessions, beside);
    }
  }
  printTable(runs);
}

if (values.help) console.log(usage);
else if (values.all || values.quick) {
  await measureAll({
    rounds: values.quick ? 1 : Number(values.rounds),
    scale: Number(values.scale) * (values.quick ? 0.3 : 1),
    beside: values.beside,
    only: values.only?.split(','),
    kind: `${values.quick ? '-quick' : ''}${values.only ? `-${values.only.replaceAll(',', '-')}` : ''}`,
  });
} else await main();
