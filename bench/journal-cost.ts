// What the journal costs a message: gateways that keep the journal at different levels run side by side, and bursts of messages go
// to them in turns of some seconds. A burst is compared with that of the gateway without a journal in the same round, so that
// what else the machine does meanwhile bears on both. `node bench/journal-cost.ts --help` tells the options.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { parseArgs } from 'node:util';
import { startPostern } from './postern-under-test.ts';
import { cpuSeconds, median } from './process-usage.ts';
import { type SmtpSink, sinkPort, startSink, untilReceived } from './smtp-sink.ts';

const usage = `Usage: node bench/journal-cost.ts [options]
  --levels LIST   levels beside off: none, headers, full (default none,full)
  --starts N      how often all gateways are started anew: of one and the same program, one process is some per cent faster for
                  as long as it runs than another (default 10)
  --rounds N      rounds of a start; each gateway has one burst in each (default 6)
  --messages N    messages a burst (default 1000)
  --sessions N    sessions of the generator (default 50)
  --signatures N  1: the sending domain's RSA-2048 signature (default); 2: the platform's too
  --size N        octets a message (default 4096)
  --warmup N      messages to each gateway before (default 3000)`;

const { values } = parseArgs({
  options: {
    levels: { type: 'string', default: 'none,full' },
    starts: { type: 'string', default: '10' },
    rounds: { type: 'string', default: '6' },
    messages: { type: 'string', default: '1000' },
    sessions: { type: 'string', default: '50' },
    signatures: { type: 'string', default: '1' },
    size: { type: 'string', default: '4096' },
    warmup: { type: 'string', default: '3000' },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  console.log(usage);
  process.exit(0);
}

interface Gateway {
  readonly level: string;
  readonly pid: number;
  readonly port: number;
  readonly sink: SmtpSink;
  readonly stop: () => Promise<void>;
  sent: number;
}

async function start(level: string, index: number): Promise<Gateway> {
  const port = sinkPort + index;
  const sink = startSink(port);
  const journal = level === 'off' ? { enabled: false } : { content: level };
  const postern = await startPostern({ sinkPort: port, platformSignature: values.signatures === '2', journal });
  const stop = async (): Promise<void> => {
    await postern.stop();
    sink.stop();
  };
  return { level, pid: postern.pid, port: postern.port, sink, stop, sent: 0 };
}

/** One burst. @returns messages a second, and microseconds of CPU a message with what was left to do behind the burst */
async function burst(gateway: Gateway, messages: number): Promise<Burst> {
  const before = cpuSeconds(gateway.pid);
  const began = performance.now();
  const args = ['-s', values.sessions, '-m', `${messages}`, '-l', values.size, '-d'];
  const addresses = ['-f', 'bench@example.com', '-t', 'rcpt@example.net', `127.0.0.1:${gateway.port}`];
  const source = spawn('smtp-source', [...args, ...addresses], { stdio: ['ignore', 'inherit', 'inherit'] });
  const [code] = (await once(source, 'exit')) as [number | null];
  if (code !== 0) throw new Error(`smtp-source ended with ${code}`);
  gateway.sent += messages;
  await untilReceived(gateway.sink, gateway.sent);
  const rate = (messages / (performance.now() - began)) * 1000;
  await new Promise((wait) => setTimeout(wait, 400)); // the index is filled behind the messages
  return { rate, cpu: ((cpuSeconds(gateway.pid) - before) / messages) * 1e6 };
}

interface Burst {
  readonly rate: number;
  readonly cpu: number;
}

const levels = ['off', ...values.levels.split(',')];

/** The bursts of one start, by level. @param isBackwards the gateways are started the other way round */
async function measureStart(isBackwards: boolean): Promise<ReadonlyMap<string, readonly Burst[]>> {
  const gateways: Gateway[] = [];
  try {
    const numbered = [...levels.entries()];
    for (const [index, level] of isBackwards ? numbered.toReversed() : numbered)
      gateways.push(await start(level, index));
    for (const gateway of gateways) await burst(gateway, Number(values.warmup));
    const bursts = new Map(levels.map((level) => [level, [] as Burst[]]));
    for (let round = 0; round < Number(values.rounds); round += 1) {
      // Every other round goes backwards, so that none always follows the same one.
      for (const gateway of round % 2 === 0 ? gateways : gateways.toReversed())
        bursts.get(gateway.level)?.push(await burst(gateway, Number(values.messages)));
    }
    return bursts;
  } finally {
    for (const gateway of gateways) await gateway.stop();
  }
}

/** By how many per cent a level differs from off in one start: the median of its rounds. */
function difference(bursts: ReadonlyMap<string, readonly Burst[]>, level: string, of: keyof Burst): number {
  const off = bursts.get('off') ?? [];
  const taken = bursts.get(level) ?? [];
  return median(taken.map((one, round) => (one[of] / (off[round]?.[of] ?? Number.NaN) - 1) * 100));
}

const starts: ReadonlyMap<string, readonly Burst[]>[] = [];
for (let number = 0; number < Number(values.starts); number += 1) {
  const bursts = await measureStart(number % 2 === 1);
  starts.push(bursts);
  const told = levels.slice(1).map((level) => `${level} ${difference(bursts, level, 'cpu').toFixed(1)} % CPU`);
  console.log(`start ${number + 1}: ${told.join(', ')}`);
}
console.log(
  '\n| journal | msg/s | CPU us/msg | CPU beside off: median of the starts, mean | messages a second beside off |',
);
console.log('|---|---|---|---|---|');
for (const level of levels) {
  const all = starts.flatMap((bursts) => bursts.get(level) ?? []);
  const beside = (of: keyof Burst): string => {
    const found = starts.map((bursts) => difference(bursts, level, of));
    const mean = found.reduce((sum, one) => sum + one, 0) / found.length;
    return `${median(found).toFixed(1)} %, ${mean.toFixed(1)} %`;
  };
  const cells = [
    level,
    median(all.map(({ rate }) => rate)).toFixed(0),
    median(all.map(({ cpu }) => cpu)).toFixed(0),
    ...(level === 'off' ? ['', ''] : [beside('cpu'), beside('rate')]),
  ];
  console.log(`| ${cells.join(' | ')} |`);
}
