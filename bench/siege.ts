// An honest client under siege: a long queue to a dead next hop and another to one that never greets, `/metrics` read ten
// times a second, and REST faults at full rate. How long the final dot waits for its 250, and how long after that the
// message is at a third next hop: alone, and besieged. `npm run bench:siege -- --help` tells the options.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { uuidv7 } from '../src/base/ids.ts';
import { SqliteSpool } from '../src/spool/sqlite/sqlite-spool.ts';
import { FaultSink } from '../test/support/fault-sink.ts';
import { connectSmtp } from '../test/support/raw-smtp-client.ts';
import { type PosternUnderTest, startPostern } from './postern-under-test.ts';

const usage = `Usage: npm run bench:siege -- [options]
  --queued N     messages that wait for the dead hop (default 100000)
  --hanging N    and for the one that never greets (default 5000)
  --clients N    clients that post faults by REST (default 4)
  --messages N   honest messages, one after another (default 300)
  --warmup N     and before they are timed (default 100)`;

const head = Buffer.from(`From: alice@example.com\r\nSubject: ${'x'.repeat(900)}\r\n\r\n`);
const body = Buffer.from('A line of text.\r\n'.repeat(180));

/** Writes the queue into the spool of a Postern that does not run yet; its delivery names the transports at its start. */
async function fill(dataFolder: string, wanted: Readonly<Record<string, number>>): Promise<void> {
  const spool = await SqliteSpool.open({
    file: join(dataFolder, 'postern.db'),
    bodiesFolder: join(dataFolder, 'bodies'),
  });
  for (const [recipient, count] of Object.entries(wanted)) {
    for (let done = 0; done < count; done += 5000) {
      const now = Date.now();
      const entries = Array.from({ length: Math.min(5000, count - done) }, () => ({ id: uuidv7(now) }));
      await Promise.all(
        entries.map(({ id }) =>
          spool.add(
            {
              ...{
                id,
                account: 'dev',
                credential: 'devices',
                sessionId: 'siege',
                messageId: `<${id}@platform.example>`,
              },
              ...{
                reversePath: 'b@bounces.platform.example',
                senderPath: 'alice@example.com',
                recipients: [recipient],
              },
              ...{ smtputf8: false, requireTls: false, acceptedAt: now, expiresAt: now + 432_000_000, head, body },
            },
            0,
          ),
        ),
      );
    }
  }
  await spool.close();
}

async function silentHop(): Promise<{ readonly port: number; readonly close: () => void }> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => void sockets.add(socket.on('error', () => undefined)));
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const close = (): void => {
    for (const socket of sockets) socket.destroy();
    server.close();
  };
  return { port: typeof address === 'object' && address ? address.port : 0, close };
}

interface Times {
  /** Milliseconds from the final dot to its reply. */
  readonly answered: number[];
  /** Milliseconds from that reply until the next hop has the message; 0 where it had it before. */
  readonly delivered: number[];
}

/** Sends honest messages in one session, one after another, each when the one before it has arrived. */
async function send(port: number, sink: FaultSink, messages: number): Promise<Times> {
  const times: Times = { answered: [], delivered: [] };
  const client = await connectSmtp(port);
  await client.reply();
  await client.command('EHLO siege.test');
  for (let count = 0; count < messages; count += 1) {
    await client.command('MAIL FROM:<alice@example.com>');
    await client.command('RCPT TO:<bob@honest.test>');
    await client.command('DATA');
    const wanted = sink.messages.length + 1;
    const began = performance.now();
    client.write(`From: alice@example.com\r\nSubject: x\r\n\r\n${body.toString('latin1')}`);
    const { code, lines } = await client.command('.');
    if (code !== 250) throw new Error(lines.join(' '));
    const answered = performance.now();
    await sink.received(wanted);
    times.answered.push(answered - began);
    times.delivered.push(performance.now() - answered);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  client.close();
  return times;
}

function figures(times: readonly number[]): string {
  const sorted = times.toSorted((left, right) => left - right);
  const at = (part: number): string =>
    (sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN).toFixed(1);
  return [at(0.5), at(0.99), at(1)].join(' | ');
}

interface Load {
  readonly end: () => Promise<string>;
}

async function besiege(postern: PosternUnderTest, clients: string): Promise<Load> {
  const load: ChildProcess = spawn(
    process.execPath,
    [join(import.meta.dirname, 'siege-load.ts'), '--port', String(postern.httpPort), '--clients', clients],
    { stdio: ['pipe', 'pipe', 'inherit'] },
  );
  let printed = '';
  load.stdout?.setEncoding('utf8').on('data', (text: string) => {
    printed += text;
  });
  if (load.stdout) await once(load.stdout, 'data');
  return {
    end: async () => {
      load.stdin?.end();
      await once(load, 'close');
      return printed.split('\n')[1] ?? '';
    },
  };
}

const { values } = parseArgs({
  options: {
    queued: { type: 'string', default: '100000' },
    hanging: { type: 'string', default: '5000' },
    clients: { type: 'string', default: '4' },
    messages: { type: 'string', default: '300' },
    warmup: { type: 'string', default: '100' },
    help: { type: 'boolean', default: false },
  },
});

/** Measures one Postern, besieged or alone. */
async function measure(besieged: boolean): Promise<void> {
  const [sink, silent] = [await FaultSink.start(), await silentHop()];
  const to = (name: string, port: number, domain?: string): object => ({
    ...{ name, type: 'smarthost', url: `smtp://127.0.0.1:${port}`, tls: 'none' },
    ...(domain ? { match: { recipientDomains: [domain] } } : {}),
  });
  const wanted = { 'a@dead.test': Number(values.queued), 'a@hanging.test': Number(values.hanging) };
  const postern = await startPostern({
    platformSignature: true,
    routes: [to('dead', 1, 'dead.test'), to('hanging', silent.port, 'hanging.test'), to('honest', sink.port)],
    ...(besieged ? { prepare: (folder: string) => fill(folder, wanted) } : {}),
  });
  try {
    const load = besieged ? await besiege(postern, values.clients) : undefined;
    await send(postern.port, sink, Number(values.warmup));
    const { answered, delivered } = await send(postern.port, sink, Number(values.messages));
    console.log(`| ${besieged ? 'besieged' : 'alone'} | ${figures(answered)} | ${figures(delivered)} |`);
    if (load) console.log(`\nAnswers to the besiegers: ${await load.end()}`);
  } finally {
    await postern.stop();
    silent.close();
    await sink.close();
  }
}

if (values.help) {
  console.log(usage);
} else {
  console.log('| | answered p50 ms | p99 | longest | delivered p50 ms | p99 | longest |');
  console.log('|---|---|---|---|---|---|---|');
  await measure(false);
  await measure(true);
}
