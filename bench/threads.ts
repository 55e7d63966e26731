// What each thread of a gateway takes of the processor for a message, once V8 has compiled: `node bench/threads.ts --help` tells the options.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { checkOut } from './checkout.ts';
import { startSettled } from './postern-under-test.ts';
import { loadWarning, median, peakMebibytes } from './process-usage.ts';
import { sinkPort, startSink, untilReceived } from './smtp-sink.ts';

const { values } = parseArgs({
  options: {
    sessions: { type: 'string', default: '10,50' },
    messages: { type: 'string', default: '12000' },
    warm: { type: 'string', default: '12000' },
    rounds: { type: 'string', default: '3' },
    against: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});

const usage = `Usage: node bench/threads.ts [options]
  --sessions LIST   sessions of the generator (default 10,50)
  --messages N      messages of 4 KB with one signature that are counted (default 12000)
  --warm N          messages before, which are not (default 12000)
  --rounds N        rounds (default 3)
  --against COMMIT  measures that commit too, in alternating rounds`;

/** Microseconds of the processor that each thread of a process has had, by what the thread is called and its number. */
function threadsOf(pid: number): ReadonlyMap<string, number> {
  const folder = `/proc/${pid}/task`;
  return new Map(
    readdirSync(folder).map((thread) => {
      const [name, used] = ['comm', 'schedstat'].map((file) => readFileSync(`${folder}/${thread}/${file}`, 'latin1'));
      return [`${name?.trim()} ${thread}`, Number(used?.split(' ')[0]) / 1000] as const;
    }),
  );
}

interface ThreadsRun {
  readonly messagesPerSecond: number;
  readonly peak: number;
  /** Microseconds of a message by kind of thread: `WorkerThread` are those that speak to SQLite. */
  readonly threads: ReadonlyMap<string, number>;
}

async function send(port: number, sessions: string, messages: string): Promise<void> {
  const addresses = ['-f', 'bench@example.com', '-t', 'rcpt@example.net', `127.0.0.1:${port}`];
  const source = spawn('smtp-source', ['-s', sessions, '-m', messages, '-l', '4096', '-d', ...addresses], {
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  await once(source, 'exit');
}

async function measure(sessions: string, root?: string): Promise<ThreadsRun> {
  const sink = startSink();
  const options = { sinkPort, platformSignature: false, journal: { content: 'none' } };
  const postern = await startSettled(root === undefined ? options : { ...options, root });
  const [warm, messages] = [Number(values.warm), Number(values.messages)];
  try {
    if (warm > 0) await send(postern.port, sessions, values.warm);
    await untilReceived(sink, warm);
    const before = threadsOf(postern.pid);
    const begun = performance.now();
    await send(postern.port, sessions, values.messages);
    await untilReceived(sink, warm + messages);
    const seconds = (performance.now() - begun) / 1000;
    const threads = new Map<string, number>();
    for (const [thread, used] of threadsOf(postern.pid)) {
      const [kind = ''] = thread.split(' ');
      threads.set(kind, (threads.get(kind) ?? 0) + (used - (before.get(thread) ?? 0)) / messages);
    }
    return { messagesPerSecond: messages / seconds, peak: peakMebibytes(postern.pid), threads };
  } finally {
    await postern.stop();
    sink.stop();
  }
}

/** The medians of some runs as a line. */
function lineOf(name: string, runs: readonly ThreadsRun[]): string {
  const figure = (pick: (run: ThreadsRun) => number): string => Math.round(median(runs.map(pick))).toLocaleString('en');
  const kinds = [...new Set(runs.flatMap(({ threads }) => [...threads.keys()]))].toSorted();
  const each = kinds.map((kind) => [kind, figure(({ threads }) => threads.get(kind) ?? 0)] as const);
  const all = figure(({ threads }) => threads.values().reduce((sum, used) => sum + used, 0));
  const some = each.filter(([, used]) => used !== '0').map(([kind, used]) => `${kind} ${used}`);
  return `${name}: ${figure((run) => run.messagesPerSecond)} msg/s, ${all} us a message (${some.join(', ')}), peak ${figure((run) => run.peak)} MiB`;
}

if (values.help) console.log(usage);
else {
  const folder = values.against === undefined ? undefined : checkOut(values.against);
  console.log(loadWarning());
  for (const sessions of values.sessions.split(',')) {
    const [now, then]: [ThreadsRun[], ThreadsRun[]] = [[], []];
    for (let round = 0; round < Number(values.rounds); round += 1) {
      if (folder !== undefined) then.push(await measure(sessions, folder));
      now.push(await measure(sessions));
    }
    if (then.length > 0) console.log(lineOf(`${sessions} sessions, ${values.against}`, then));
    console.log(lineOf(`${sessions} sessions`, now));
  }
  if (folder !== undefined) rmSync(folder, { recursive: true });
}
