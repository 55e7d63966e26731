// npm run bench:rest: send requests a second by REST and how long each takes, over connections that are kept open, each
// answer given after the durable commit. Every message is signed and relayed to Postfix's smtp-sink (Debian package
// postfix). `--help` tells the options. Prints one JSON line a run, then a table of medians.

import { appendFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { parseArgs } from 'node:util';
import { benchToken, startPostern } from './postern-under-test.ts';
import { cpuSeconds, median, peakMebibytes } from './process-usage.ts';
import { sinkPort, startSink, untilReceived } from './smtp-sink.ts';

const usage = `Usage: npm run bench:rest -- [options]
  --requests N       requests a run (default 4000)
  --size N           octets of text and HTML together (default 4096)
  --connections LIST connections, each with one request at a time (default 1,10,50)
  --rounds N         rounds (default 3)
  --signatures N     1: the sending domain's RSA-2048 signature; 2: the platform's too (default 1)
  --out FILE         append every run's JSON line to FILE too`;

/** One run's figures. */
interface Run {
  readonly connections: number;
  readonly requestsPerSecond: number;
  readonly p50Milliseconds: number;
  readonly p99Milliseconds: number;
  readonly cpuMicrosecondsPerMessage: number;
  readonly peakMebibytes: number;
}

interface Load {
  readonly requests: number;
  readonly size: number;
  readonly connections: number;
  readonly signatures: number;
}

function requestBody(size: number): string {
  const line = 'The quick brown fox jumps over the lazy dog, and then it does so again.\n';
  const text = line.repeat(Math.ceil(size / 2 / line.length)).slice(0, size / 2);
  const html = `<p>${text.slice(0, size / 2 - 7)}</p>`;
  const fields = { from: 'bench@example.com', to: 'rcpt@example.net', subject: 'A message of the benchmark' };
  return JSON.stringify({ ...fields, text, html, headers: { 'X-Campaign-ID': 'bench' } });
}

/** Sends one request; resolves to the milliseconds until its whole answer was there. */
function send(agent: Agent, port: number, body: string): Promise<number> {
  const start = performance.now();
  const path = '/client/v4/accounts/dev/email/sending/send';
  const headers = {
    authorization: `Bearer ${benchToken}`,
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
  };
  return new Promise((resolve, reject) => {
    const asking = request({ host: '127.0.0.1', port, path, method: 'POST', agent, headers }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
      response.on('end', () => {
        if (response.statusCode === 200) resolve(performance.now() - start);
        else reject(new Error(`${response.statusCode}: ${text}`));
      });
    });
    asking.on('error', reject).end(body);
  });
}

/** Keeps every connection busy until all requests are answered; gives their milliseconds. */
async function sendAll(port: number, load: Load): Promise<number[]> {
  const agent = new Agent({ keepAlive: true, maxSockets: load.connections });
  const body = requestBody(load.size);
  const times: number[] = [];
  let begun = 0;
  const oneConnection = async (): Promise<void> => {
    while (begun < load.requests) {
      begun += 1;
      times.push(await send(agent, port, body));
    }
  };
  await Promise.all(Array.from({ length: load.connections }, oneConnection));
  agent.destroy();
  return times;
}

function percentile(sorted: readonly number[], part: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN;
}

async function measure(load: Load): Promise<Run> {
  const sink = startSink();
  const postern = await startPostern({ sinkPort, platformSignature: load.signatures === 2 });
  try {
    // Warm: the first requests compile what the others run.
    const warm = Math.min(300, load.requests);
    await sendAll(postern.httpPort, { ...load, requests: warm });
    await untilReceived(sink, warm);
    const cpuBefore = cpuSeconds(postern.pid);
    const start = performance.now();
    const times = (await sendAll(postern.httpPort, load)).sort((a, b) => a - b);
    const seconds = (performance.now() - start) / 1000;
    await untilReceived(sink, warm + load.requests);
    return {
      connections: load.connections,
      requestsPerSecond: load.requests / seconds,
      p50Milliseconds: percentile(times, 0.5),
      p99Milliseconds: percentile(times, 0.99),
      cpuMicrosecondsPerMessage: ((cpuSeconds(postern.pid) - cpuBefore) / load.requests) * 1e6,
      peakMebibytes: peakMebibytes(postern.pid),
    };
  } finally {
    await postern.stop();
    sink.stop();
  }
}

function printTable(runs: readonly Run[]): void {
  console.log(
    '\n| connections | requests/s | p50 ms | p99 ms | CPU us/msg | peak RSS MiB |\n|---|---|---|---|---|---|',
  );
  for (const [connections, group] of Map.groupBy(runs, (run) => run.connections)) {
    const middle = (pick: (run: Run) => number, digits = 0): string =>
      median(group.map(pick)).toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits });
    console.log(
      `| ${connections} | ${middle((run) => run.requestsPerSecond)} | ${middle((run) => run.p50Milliseconds, 1)} | ${middle((run) => run.p99Milliseconds, 1)} | ${middle((run) => run.cpuMicrosecondsPerMessage)} | ${middle((run) => run.peakMebibytes)} |`,
    );
  }
}

const { values } = parseArgs({
  options: {
    requests: { type: 'string', default: '4000' },
    size: { type: 'string', default: '4096' },
    connections: { type: 'string', default: '1,10,50' },
    rounds: { type: 'string', default: '3' },
    signatures: { type: 'string', default: '1' },
    out: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  console.log(usage);
  process.exit(0);
}
const runs: Run[] = [];
for (let round = 0; round < Number(values.rounds); round += 1) {
  for (const connections of values.connections.split(',').map(Number)) {
    const load = {
      requests: Number(values.requests),
      size: Number(values.size),
      signatures: Number(values.signatures),
    };
    const run = await measure({ ...load, connections });
    runs.push(run);
    const line = JSON.stringify(run);
    console.log(line);
    if (values.out) appendFileSync(values.out, `${line}\n`);
  }
}
printTable(runs);
