// npm run bench -- --all: every measurement that README.md and docs/performance.md quote, each by its own command in a process of its
// own, in rounds; prints one table and keeps it in bench/results/. What fails is told and left out.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { git } from './checkout.ts';
import { forms } from './measure.ts';
import { loadWarning, median } from './process-usage.ts';

/** What is measured, and for how long. */
export interface AllOptions {
  readonly rounds: number;
  /** So many times the messages and requests. */
  readonly scale: number;
  /** `--beside` as run.ts takes it. */
  readonly beside: readonly string[];
  /** Names of parts; absent: all. */
  readonly only: readonly string[] | undefined;
  /** What the name of the file says beside date and commit, so that less than all does not take its place. */
  readonly kind: string;
}

/** A line of JSON that a command has written. */
type Line = Readonly<Record<string, string & number>>;

/** A line of the table: what it is of, and its figures; a figure that is not there has no place in it. */
interface Row {
  readonly what: string;
  readonly system: string;
  readonly atOnce: string | number;
  readonly perSecond?: number | undefined;
  /** Microseconds of CPU of one. */
  readonly cpu?: number | undefined;
  readonly p50?: number | undefined;
  readonly p99?: number | undefined;
  readonly mebibytes?: number | undefined;
}

/** A part of the measurements: its command, and what its lines say. */
interface Part {
  readonly name: string;
  readonly script: string;
  readonly args: (options: AllOptions) => readonly string[];
  readonly row: (line: Line) => Row;
  /** Once, with so many rounds of its own; absent: once in each round. */
  readonly once?: true;
}

/** The figures that more than one kind of line has. */
function timesOf(line: Line): Pick<Row, 'p50' | 'p99' | 'mebibytes'> {
  const [p50, p99] = [line['p50'] ?? line['p50Milliseconds'], line['p99'] ?? line['p99Milliseconds']];
  return { p50, p99, mebibytes: line['peakMebibytes'] };
}

function mailRow(line: Line): Row {
  const text = forms.find(({ name }) => name === line['form'])?.text ?? '';
  const system = `${line['system']}`.replace(/postern, 1 process, (\d signatures?), journal none/, 'Postern, $1');
  const figures = { perSecond: line['messagesPerSecond'], cpu: line['cpuMicrosecondsPerMessage'] };
  return { what: `mail: ${text}`, system, atOnce: line['sessions'] ?? '', ...figures, ...timesOf(line) };
}

function restRow(line: Line): Row {
  const [door, ...shape] = `${line['system']}`.split(' ');
  const figures = { perSecond: line['relayedPerSecond'], cpu: line['cpuMicrosecondsPerMessage'] };
  const system = door === 'rest' ? 'Postern, REST' : 'Postern, SMTP';
  return { what: `REST: ${shape.join(' ')}`, system, atOnce: line['connections'] ?? '', ...figures, ...timesOf(line) };
}

function edgeRow(line: Line): Row {
  const figures = { perSecond: line['requestsPerSecond'], cpu: line['cpuMicrosecondsPerRequest'] };
  const [what, system] = [`edge: ${line['load']}`, `${line['system']}`];
  return { what, system, atOnce: line['connections'] ?? '', ...figures, ...timesOf(line) };
}

function proxyRow(line: Line): Row {
  const isTransfer = line['kind'] === 'transfer';
  const ofGibibyte = line['cpuSecondsPerGibibyte'];
  const perMebibyte = ofGibibyte === undefined ? undefined : (ofGibibyte / 1024) * 1e6;
  return {
    what: isTransfer ? 'proxy: a MiB' : 'proxy: a connection',
    system: `${line['system']}`,
    atOnce: line['atOnce'] ?? '',
    perSecond: line[isTransfer ? 'mebibytesPerSecond' : 'connectionsPerSecond'],
    cpu: isTransfer ? perMebibyte : line['cpuMicrosecondsPerConnection'],
    ...timesOf(line),
  };
}

function startRow(line: Line): Row {
  const figures = { cpu: Number(line['cpuMs']) * 1000, p50: line['readyMs'], mebibytes: line['mebibytes'] };
  return { what: `start: ${line['part']}`, system: 'Postern', atOnce: '', ...figures };
}

function scaled(count: number, { scale }: AllOptions): string {
  return `${Math.ceil(count * scale)}`;
}

const parts: readonly Part[] = [
  {
    name: 'mail',
    script: 'run.ts',
    args: (options) => [
      ...[
        '--unavoidable',
        '--rounds',
        '1',
        '--form',
        forms.map(({ name }) => name).join(','),
        '--messages',
        scaled(8000, options),
      ],
      ...['--beside-share', '0.5', ...options.beside.flatMap((text) => ['--beside', text])],
    ],
    row: mailRow,
  },
  {
    name: 'rest',
    script: 'rest.ts',
    args: (options) => ['--rounds', '1', '--requests', scaled(4000, options), '--warm', scaled(5000, options)],
    row: restRow,
  },
  {
    name: 'edge',
    script: 'edge.ts',
    args: (options) => [
      ...['--rounds', '1', '--requests', scaled(10_000, options), '--errors', 'json,down'],
      ...['--systems', 'postern,nginx,caddy,node proxy,node server,direct'],
    ],
    row: edgeRow,
  },
  {
    name: 'proxy',
    script: 'proxy.ts',
    args: (options) => [
      ...['--rounds', '1', '--mebibytes', scaled(512, options), '--connections', scaled(4000, options)],
    ],
    row: proxyRow,
  },
  {
    name: 'start',
    script: 'start.ts',
    args: ({ rounds }) => ['--rounds', `${rounds}`, '--parts', 'plain,first,journal,api,edge'],
    row: startRow,
    once: true,
  },
];

/** No part of one round takes as long: what does has hung. */
const longestMs = 20 * 60_000;

/** Runs a part in a group of processes of its own, so that nothing of it is left behind. @returns what it has written */
async function runPart(part: Part, options: AllOptions): Promise<readonly Line[]> {
  const folder = mkdtempSync(join(tmpdir(), 'postern-all-'));
  const out = join(folder, 'lines');
  const args = [join(import.meta.dirname, part.script), ...part.args(options), '--out', out];
  const child = spawn(process.execPath, args, { detached: true, stdio: ['ignore', 'ignore', 'inherit'] });
  const end = (): void => {
    if (child.pid === undefined || child.exitCode !== null) return;
    process.kill(-child.pid, 'SIGKILL');
  };
  const timer = setTimeout(end, longestMs);
  process.once('exit', end);
  try {
    const [code] = (await once(child, 'exit')) as [number | null];
    if (code !== 0)
      console.error(`${part.script} ended with ${code ?? 'a signal'}: what it had not measured is left out`);
    if (!existsSync(out)) return [];
    const text = readFileSync(out, 'utf8').trim();
    return text === '' ? [] : text.split('\n').map((line) => JSON.parse(line) as Line);
  } finally {
    clearTimeout(timer);
    process.off('exit', end);
    rmSync(folder, { recursive: true });
  }
}

function written(rows: readonly Row[], pick: (row: Row) => number | undefined, digits = 0): string {
  const figures = rows.map(pick).filter((figure) => typeof figure === 'number' && Number.isFinite(figure));
  if (figures.length === 0) return '-';
  return median(figures.filter((figure) => figure !== undefined)).toLocaleString('en', {
    maximumFractionDigits: digits,
  });
}

function tableOf(rows: readonly Row[]): string {
  const lines = [
    '| what | system | at once | a second | CPU us of one | p50 ms | p99 ms | MiB |',
    '|---|---|---:|---:|---:|---:|---:|---:|',
  ];
  const together = [...Map.groupBy(rows, ({ what }) => what).values()].flat();
  for (const group of Map.groupBy(together, ({ what, system, atOnce }) => `${what} | ${system} | ${atOnce}`)) {
    const [name, ofGroup] = group;
    const cells = [
      written(ofGroup, (row) => row.perSecond),
      written(ofGroup, (row) => row.cpu),
      written(ofGroup, (row) => row.p50, 1),
      written(ofGroup, (row) => row.p99, 1),
      written(ofGroup, (row) => row.mebibytes),
    ];
    lines.push(`| ${name} | ${cells.join(' | ')} |`);
  }
  return lines.join('\n');
}

/** The state of this machine and of this checkout, for the head of what is kept. */
export function headOf(): readonly string[] {
  const processor = cpus()[0]?.model ?? 'unknown processor';
  const changed =
    git('status', '--porcelain', '--', 'src', 'package.json') === '' ? '' : ', and what has changed since';
  return [
    `date     ${new Date().toISOString().slice(0, 16)}Z`,
    `commit   ${git('rev-parse', '--short', 'HEAD')}${changed}`,
    `machine  ${cpus().length} cores of ${processor}, which load, system and next hop share; Node ${process.version}`,
    `state    ${loadWarning()}`,
  ];
}

/** Where results of now are kept. @param kind the end of the file's name */
export function resultFile(kind: string): string {
  const folder = join(import.meta.dirname, 'results');
  mkdirSync(folder, { recursive: true });
  return join(folder, `${new Date().toISOString().slice(0, 10)}-${git('rev-parse', '--short', 'HEAD')}${kind}`);
}

/** Measures all of it. Can be interrupted at any time: what was measured is printed and kept after each part. */
export async function measureAll(options: AllOptions): Promise<void> {
  const began = performance.now();
  const rows: Row[] = [];
  const head = headOf();
  const file = resultFile(`${options.kind}.txt`);
  for (const line of head) console.log(line);
  process.once('SIGINT', () => process.exit(130)).once('SIGTERM', () => process.exit(143));
  const chosen = parts.filter(({ name }) => options.only?.includes(name) ?? true);
  for (let round = 1; round <= options.rounds; round += 1) {
    for (const part of chosen) {
      if (part.once && round > 1) continue;
      const from = performance.now();
      rows.push(...(await runPart(part, options)).map(part.row));
      const seconds = Math.round((performance.now() - from) / 1000);
      console.log(`round ${round} of ${options.rounds}, ${part.name}: ${seconds} s`);
      const rounds = `rounds   ${round} of ${options.rounds}, in alternation, medians; ${options.scale} times the usual messages`;
      const note = '"start" has the time until ready under p50 ms, and its memory at rest; the others their peak.';
      writeFileSync(file, `${[...head, rounds].join('\n')}\n\n${note}\n\n${tableOf(rows)}\n`);
    }
  }
  console.log(`\n${tableOf(rows)}\n\n${Math.round((performance.now() - began) / 60_000)} minutes; kept in ${file}`);
}
