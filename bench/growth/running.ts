// How the cost of running grows: with idle connections, with what the journal keeps, and with webhooks.

import { readdirSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { PosternUnderTest } from '../postern-under-test.ts';
import { cpuSeconds, residentMebibytes } from '../process-usage.ts';
import type { GrowthCase, Point } from './case.ts';
import { costOf, refusalOf, untilIdle, warmGateway } from './gateway.ts';

/** Opens a connection and waits for its greeting. @returns undefined where there was none */
function greeted(port: number): Promise<Socket | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' });
    socket.once('data', (data) => {
      if (data.toString('latin1').startsWith('220')) return resolve(socket);
      socket.destroy();
      return resolve(undefined);
    });
    socket.once('error', () => resolve(undefined));
    socket.once('close', () => resolve(undefined));
  });
}

/** Opens so many connections, a hundred at a time. @returns those that were greeted */
async function openMany(port: number, count: number): Promise<readonly Socket[]> {
  const open: Socket[] = [];
  for (let done = 0; done < count; done += 100) {
    const more = await Promise.all(Array.from({ length: Math.min(100, count - done) }, () => greeted(port)));
    for (const socket of more) if (socket) open.push(socket);
  }
  return open;
}

async function* measureConnections(sizes: readonly number[]): AsyncGenerator<Point> {
  const most = Math.max(...sizes) + 20;
  const smtpLimits = { connections: most, connectionsPerAddress: most, idleSeconds: 3600, commandSeconds: 3600 };
  const postern = await warmGateway({ smtpLimits });
  const open: Socket[] = [];
  try {
    const before = residentMebibytes(postern.pid);
    for (const size of sizes) {
      const wanted = size - open.length;
      open.push(...(await openMany(postern.port, wanted)));
      if (open.length < size) {
        yield { size, figures: {}, refusal: `only ${open.length} were greeted` };
        return;
      }
      await untilIdle(postern.pid);
      const mebibytes = residentMebibytes(postern.pid);
      const cpu = cpuSeconds(postern.pid);
      await sleep(5000);
      const idle = ((cpuSeconds(postern.pid) - cpu) / 5) * 1000;
      const { cpu: message, p50, p99 } = await costOf(postern, { messages: 600, size: 4096 });
      yield {
        size,
        figures: {
          'memory, MiB': mebibytes,
          'KiB a connection': ((mebibytes - before) / size) * 1024,
          'idle CPU, ms a second': idle,
          'CPU us a message beside': message,
          'ms until its reply': p50,
          p99: p99,
        },
      };
    }
  } finally {
    for (const socket of open) socket.destroy();
    await postern.stop();
  }
}

const connections: GrowthCase = {
  name: 'connections',
  title: 'Idle connections',
  unit: 'connections',
  sizes: [1, 10, 100, 1000, 3000, 10_000],
  small: [1, 100],
  note: 'Connections by SMTP that were greeted and say nothing, and 600 messages beside them in four sessions. Limits raised for it: by default 1,000 connections in all and 100 of one address.',
  plot: { y: 'MiB, and us', columns: ['memory, MiB', 'CPU us a message beside'] },
  measure: measureConnections,
};

/** Octets of all files below a folder. */
function octetsBelow(folder: string): number {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  return names.reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
}

const levels = ['off', 'none', 'headers', 'full'] as const;

async function* measureJournal(sizes: readonly number[]): AsyncGenerator<Point> {
  for (const size of sizes) {
    const level = levels[size] ?? 'off';
    const postern = await warmGateway({ journal: level === 'off' ? { enabled: false } : { content: level } });
    try {
      const before = octetsBelow(join(postern.folder, 'data'));
      const messages = 3000;
      const { cpu, p50, p99 } = await costOf(postern, { messages, sessions: 10, size: 4096 });
      const octets = (octetsBelow(join(postern.folder, 'data')) - before) / messages;
      const figures = { 'CPU us a message': cpu, 'ms until the reply': p50, p99: p99 };
      yield { size, label: level, figures: { ...figures, 'octets on the disk a message, log with it': octets } };
    } finally {
      await postern.stop();
    }
  }
}

const journal: GrowthCase = {
  name: 'journal',
  title: 'What the journal keeps',
  unit: '`journal.content`',
  sizes: [0, 1, 2, 3],
  small: [0, 3],
  note: '3,000 messages of 4 KB in ten sessions; `off` is `journal.enabled: false`. `node bench/journal-cost.ts` compares levels more finely.',
  measure: measureJournal,
};

/** An account's webhooks that all lead to one port. */
function hooks(count: number, port: number): readonly object[] {
  return Array.from({ length: count }, (_, at) => ({
    ...{ name: `hook-${at}`, url: `http://127.0.0.1:${port}/${at}`, secretEnv: 'BENCH_SECRET' },
  }));
}

async function webhookPoint(postern: PosternUnderTest, size: number, calls: () => number): Promise<Point> {
  await untilIdle(postern.pid);
  const before = calls();
  const messages = size > 5 ? 300 : 1000;
  const { cpu, p50, mebibytes } = await costOf(postern, { messages, sessions: 4, size: 4096 });
  const figures = { 'CPU us a message': cpu, 'ms until the reply': p50, 'MiB more at the peak': mebibytes };
  return { size, figures: { ...figures, 'calls a message': (calls() - before) / messages } };
}

async function* measureWebhooks(sizes: readonly number[]): AsyncGenerator<Point> {
  let calls = 0;
  const server = createServer((request, response) => {
    calls += 1;
    request.resume().on('end', () => response.writeHead(204).end());
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;
  try {
    for (const size of sizes) {
      let postern: PosternUnderTest;
      try {
        const account = size === 0 ? {} : { webhooks: hooks(size, port) };
        const webhooks = { allowHttp: true, allowNetworks: ['127.0.0.0/8'] };
        postern = await warmGateway({ account, more: { webhooks } }, size > 5 ? 300 : 1000);
      } catch (error) {
        yield { size, figures: {}, refusal: refusalOf(error) };
        continue;
      }
      try {
        yield await webhookPoint(postern, size, () => calls);
      } finally {
        await postern.stop();
      }
    }
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

const webhooks: GrowthCase = {
  name: 'webhooks',
  title: 'Webhooks of an account',
  unit: 'webhooks',
  sizes: [0, 1, 5, 20, 100],
  small: [0, 1, 100],
  note: 'Each is told of every event of the account, by HTTP to a server on the same machine. The cost has the calls in it.',
  plot: { y: 'CPU us', columns: ['CPU us a message'] },
  measure: measureWebhooks,
};

/** The cases of a gateway that runs. */
export const runningCases: readonly GrowthCase[] = [connections, journal, webhooks];
