// Several smarthosts of a route: who is tried when, and the way back to the first.

import { afterEach, expect, test } from 'vitest';
import type { Smarthost } from '../../src/delivery/settings.ts';
import { smarthostHops } from '../../src/delivery/smarthost.ts';
import { SmtpConnection } from '../../src/delivery/smtp/smtp-client.ts';
import { defaultTimeouts } from '../../src/delivery/smtp/smtp-transaction.ts';
import { FaultSink } from '../support/fault-sink.ts';
import { freePort } from '../support/free-port.ts';
import { manualClock } from '../support/manual-clock.ts';

let closers: (() => unknown)[] = [];

afterEach(async () => {
  for (const close of closers.toReversed()) await close();
  closers = [];
});

async function startSink(options = {}): Promise<FaultSink> {
  const sink = await FaultSink.start(options);
  closers.push(() => sink.close());
  return sink;
}

const server = (port: number, priority = 0): Smarthost => ({
  host: '127.0.0.1',
  port,
  tls: 'none',
  tlsVerify: false,
  priority,
});

function route(servers: readonly Smarthost[], localAddress: readonly { address: string; hostname?: string }[] = []) {
  const clock = manualClock();
  const [first, ...standby] = servers;
  if (!first) throw new Error('no server');
  const settings = {
    ...({ name: 'out', type: 'smarthost', platformSignature: true, connections: 4, standby, ...first } as const),
    ...(localAddress.length > 0 ? { localAddress } : {}),
  };
  const hops = smarthostHops(settings, {
    hostname: 'gateway.test',
    timeouts: defaultTimeouts,
    clock,
    random: Math.random,
  });
  const connect = async (): Promise<SmtpConnection | string> => {
    const hop = await hops.find('x.test', undefined, 'dev');
    if ('kind' in hop) throw new Error(hop.reply.text);
    const result = await hop.connect({ domain: 'x.test', signal: new AbortController().signal });
    if (!(result instanceof SmtpConnection)) return `${result.refused.code} ${result.refused.text}`;
    closers.push(() => result.destroy({ code: 451, text: 'the test is over' }));
    return result;
  };
  const reached = async (): Promise<number | string> => {
    const result = await connect();
    return typeof result === 'string' ? result : Number(result.peer.split(':').at(-1));
  };
  return { clock, hops, connect, reached };
}

test('the first by priority takes the mail while it works, whatever the order in the file', async () => {
  const [first, second] = [await startSink(), await startSink()];
  const { reached } = route([server(second.port, 20), server(first.port, 10)]);
  for (let count = 0; count < 5; count += 1) expect(await reached()).toBe(first.port);
  expect(second.connections).toBe(0);
});

test('servers of one priority share it', async () => {
  const [first, second] = [await startSink(), await startSink()];
  const { reached } = route([server(first.port), server(second.port)]);
  const all = new Set<number | string>();
  for (let count = 0; count < 40; count += 1) all.add(await reached());
  expect(all).toEqual(new Set([first.port, second.port]));
});

test.each([
  ['refuses connections', undefined],
  ['greets with 421', '421 closing'],
  ['greets with 554', '554 no'],
  ['speaks no SMTP', 'SSH-2.0-OpenSSH'],
])('one that %s gives way, and is asked again when its time is over', async (_, greeting) => {
  const port = greeting === undefined ? await freePort() : (await startSink({ greeting })).port;
  const second = await startSink();
  const { reached, clock } = route([server(port, 1), server(second.port, 2)]);
  expect(await reached()).toBe(second.port);
  expect(await reached()).toBe(second.port);
  if (greeting === undefined) {
    const back = await startSink({ port });
    expect(await reached()).toBe(second.port);
    clock.pass(2);
    expect(await reached()).toBe(back.port);
  }
});

test('where none works the words of the best are told, and one is tried at a time', async () => {
  const [one, two] = [await freePort(), await freePort()];
  const { reached, clock } = route([server(one, 1), server(two, 2)]);
  expect(await reached()).toMatch(new RegExp(`^451 127\\.0\\.0\\.1:${one}: Cannot connect`));
  const back = await startSink({ port: two });
  clock.pass(2);
  expect(await reached()).toBe(back.port);
});

test('a connection to a stand-in is not used for ever', async () => {
  const second = await startSink();
  const { connect } = route([server(await freePort(), 1), server(second.port, 2)]);
  const connection = await connect();
  if (typeof connection === 'string') throw new Error(connection);
  expect(connection.lastsUntil).toBeLessThan(performance.now() + 60_001);
  const first = await startSink();
  const alone = await route([server(first.port)]).connect();
  if (typeof alone === 'string') throw new Error(alone);
  expect(alone.lastsUntil).toBe(Number.POSITIVE_INFINITY);
});

test('the address of the route that fits the server is used, with its name', async () => {
  const sink = await startSink();
  const { connect } = route([server(sink.port)], [{ address: '::1' }, { address: '127.0.0.9', hostname: 'out.test' }]);
  const connection = await connect();
  expect(typeof connection === 'string' ? connection : connection.localAddress).toBe('127.0.0.9');
  expect(sink.commands).toEqual(['EHLO out.test']);
});
