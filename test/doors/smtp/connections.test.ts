// Who gets a session: limits, devices, PROXY headers, early talkers.

import { connect } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { ConfigurationError } from '../../../src/base/errors.ts';
import { logLines } from '../../support/log-lines.ts';
import { proxyV2 } from '../../support/proxy-header.ts';
import {
  type DoorChoices,
  deviceListener,
  plainListener,
  RawClient,
  type RunningDoor,
  startDoor,
} from '../../support/smtp-peers.ts';

const banner = '220 mx.platform.example ESMTP Postern\r\n';
const proxied = { ...plainListener, name: 'proxied', proxyProtocolFrom: ['127.0.0.1'] };

let running: RunningDoor | undefined;
afterEach(async () => {
  await running?.door.drain(0);
  running = undefined;
});

async function start(choices: DoorChoices): Promise<RunningDoor> {
  running = await startDoor(choices);
  return running;
}

test('more connections than the limit are answered 421, and places are given back', async () => {
  const door = await start({ limits: { connections: 2 } });
  const first = RawClient.open(door.port('plain'));
  const second = RawClient.open(door.port('plain'));
  expect(await first.reply()).toBe(banner);
  expect(await second.reply()).toBe(banner);
  const third = RawClient.open(door.port('plain'));
  expect(await third.untilEnd()).toBe('421 4.7.0 Too many connections\r\n');
  expect(door.door.counts().connections).toBe(2);
  await first.ask('QUIT');
  await first.untilEnd();
  await expect.poll(() => door.door.counts().connections).toBe(1);
  expect(await RawClient.open(door.port('plain')).reply()).toBe(banner);
});

test('the limit for an address leaves other addresses alone', async () => {
  const door = await start({
    listeners: [{ ...plainListener, host: '0.0.0.0' }],
    limits: { connectionsPerAddress: 1 },
  });
  const port = door.port('plain');
  expect(await RawClient.open(port).reply()).toBe(banner);
  expect(await RawClient.open(port).untilEnd()).toBe('421 4.7.0 Too many connections\r\n');
  expect(await RawClient.open(port, { localAddress: '127.0.0.2' }).reply()).toBe(banner);
});

test('with implicit TLS a connection too many is closed without a handshake', async () => {
  const door = await start({ listeners: [{ ...plainListener, tls: 'implicit' }], limits: { connections: 1 } });
  expect(await RawClient.openTls(door.port('plain')).reply()).toBe(banner);
  expect(await RawClient.openTls(door.port('plain')).untilEnd()).toBe('');
});

test('a device listener answers only the addresses it names', async () => {
  const listener = { ...deviceListener, host: '0.0.0.0', allowFrom: ['127.0.0.2/32', '::1'] };
  const door = await start({ listeners: [listener] });
  const port = door.port('devices');
  expect(await RawClient.open(port).untilEnd()).toBe('554 5.7.1 Your address may not use this listener\r\n');
  const device = RawClient.open(port, { localAddress: '127.0.0.2' });
  expect(await device.reply()).toBe(banner);
  await device.ask('EHLO printer');
  expect(await device.ask('MAIL FROM:<a@example.com>')).toBe('250 2.1.0 Ok\r\n');
});

test('an IPv4 client of a dual-stack listener is IPv4', async () => {
  const door = await start({ listeners: [{ ...deviceListener, host: '::' }] });
  const client = RawClient.open(door.port('devices'));
  await client.reply();
  await client.ask('EHLO c');
  client.send('MAIL FROM:<a@example.com>\r\nRCPT TO:<b@example.net>\r\nDATA\r\nX-A: 1\r\n\r\nx\r\n.\r\n');
  await client.until((received) => received.includes('2.0.0 Ok <'));
  expect(door.submissions[0]?.via.remoteAddress).toBe('127.0.0.1');
});

test.each([
  ['version 1', Buffer.from('PROXY TCP4 192.0.2.7 127.0.0.1 4711 25\r\n'), '192.0.2.7'],
  ['version 2', proxyV2({ address: '2001:db8::7', port: 4711, tlv: Buffer.from([4, 0, 1, 0]) }), '2001:db8::7'],
  ['LOCAL', proxyV2({ address: '192.0.2.7', port: 1, command: 0 }), '127.0.0.1'],
  ['UNKNOWN', Buffer.from('PROXY UNKNOWN\r\n'), '127.0.0.1'],
])('a PROXY header is believed: %s, whole and in single octets', async (_what, header, address) => {
  const credential = { account: 'dev', name: 'default' };
  const door = await start({ listeners: [{ ...proxied, credential, allowFrom: [address] }] });
  for (const pieces of [[header], [...header].map((octet) => Buffer.of(octet))]) {
    const client = RawClient.open(door.port('proxied'));
    await client.sendPieces(pieces);
    expect(await client.reply()).toBe(banner);
    await client.ask('EHLO c');
    client.send('MAIL FROM:<a@example.com>\r\nRCPT TO:<b@example.net>\r\nDATA\r\nX-A: 1\r\n\r\nx\r\n.\r\n');
    await client.until((received) => received.includes('2.0.0 Ok <'));
    expect(door.submissions.at(-1)?.via.remoteAddress).toBe(address);
  }
});

test('a PROXY header stands before implicit TLS', async () => {
  const door = await start({ listeners: [{ ...proxied, tls: 'implicit' }] });
  const client = RawClient.open(door.port('proxied'));
  client.send('PROXY TCP4 192.0.2.7 127.0.0.1 4711 25\r\n');
  await client.startTls();
  expect(await client.reply()).toBe(banner);
});

test.each(['EHLO client\r\n', 'PROXY TCP4 localhost 127.0.0.1 1 2\r\n', 'PROXY UNKNOWN '.padEnd(200, 'a')])(
  'without a right PROXY header the connection is closed: %j',
  async (octets) => {
    const { log, lines } = logLines();
    const door = await start({ listeners: [proxied], log });
    const client = RawClient.open(door.port('proxied'));
    client.send(octets);
    expect(await client.untilEnd()).toBe('');
    await expect.poll(() => door.door.counts().connections).toBe(0);
    expect(lines.map(({ msg }) => msg)).toEqual(['connection refused']);
  },
);

test('a client that ends before its PROXY header is whole leaves nothing behind', async () => {
  const door = await start({ listeners: [proxied] });
  const client = RawClient.open(door.port('proxied'));
  client.send('PROXY TCP4 192.0.2');
  client.halfClose();
  expect(await client.untilEnd()).toBe('');
  await expect.poll(() => door.door.counts().connections).toBe(0);
});

test('a PROXY header from elsewhere is no header', async () => {
  const door = await start({ listeners: [{ ...proxied, proxyProtocolFrom: ['192.0.2.0/24'] }] });
  const client = RawClient.open(door.port('proxied'));
  expect(await client.reply()).toBe(banner);
  expect(await client.ask('PROXY TCP4 192.0.2.7 127.0.0.1 4711 25')).toBe('500 5.5.1 Command not known\r\n');
});

test('limits count the address behind the balancer', async () => {
  const door = await start({ listeners: [proxied], limits: { connectionsPerAddress: 1 } });
  const open = async (address: string): Promise<string> => {
    const client = RawClient.open(door.port('proxied'));
    client.send(`PROXY TCP4 ${address} 127.0.0.1 4711 25\r\n`);
    return await client.reply();
  };
  expect(await open('192.0.2.1')).toBe(banner);
  expect(await open('192.0.2.2')).toBe(banner);
  expect(await open('192.0.2.1')).toBe('421 4.7.0 Too many connections\r\n');
});

test('a client that speaks before the greeting is refused', async () => {
  const door = await start({ listeners: [proxied] });
  const client = RawClient.open(door.port('proxied'));
  client.send('PROXY TCP4 192.0.2.7 127.0.0.1 4711 25\r\nEHLO client\r\nMAIL FROM:<a@example.com>\r\n');
  expect(await client.untilEnd()).toBe('554 5.5.0 Protocol error: you spoke before the greeting\r\n');
});

test('a client that closes its side behind its last command gets every reply', async () => {
  const door = await start({ listeners: [deviceListener] });
  const client = RawClient.open(door.port('devices'));
  await client.reply();
  client.send('EHLO c\r\nMAIL FROM:<a@example.com>\r\nRCPT TO:<b@example.net>\r\nDATA\r\nX-A: 1\r\n\r\nx\r\n.\r\n');
  client.halfClose();
  expect(await client.untilEnd()).toContain('250 2.0.0 Ok <1@platform.example>\r\n');
  expect(door.submissions).toHaveLength(1);
});

test('a command cut off by the end of the connection is not run', async () => {
  const door = await start({ listeners: [deviceListener] });
  const client = RawClient.open(door.port('devices'));
  await client.reply();
  client.send('EHLO c\r\nNOOP');
  client.halfClose();
  expect(await client.untilEnd()).not.toContain('2.0.0');
});

test('a message cut off by the end of the connection is not handed over', async () => {
  const door = await start({ listeners: [deviceListener] });
  const client = RawClient.open(door.port('devices'));
  await client.reply();
  client.send('EHLO c\r\nMAIL FROM:<a@example.com>\r\nRCPT TO:<b@example.net>\r\nDATA\r\nX-A: 1\r\n\r\nx\r\n.\r');
  client.halfClose();
  await client.untilEnd();
  expect(door.submissions).toEqual([]);
  await expect.poll(() => door.door.counts().connections).toBe(0);
});

test('a client that does not read its replies is not read either', async () => {
  const door = await start({ listeners: [deviceListener] });
  const socket = connect({ port: door.port('devices'), host: '127.0.0.1' });
  socket.on('error', () => undefined);
  await new Promise((resolve) => {
    socket.once('data', resolve);
  });
  socket.pause();
  const commands = Buffer.from('HELP\r\n'.repeat(20_000));
  let taken = 0;
  // The buffers of both sides take some megabytes; without a stop this would go on as long as it is sent.
  const fill = (): number => {
    if (socket.writableLength < 1_000_000) socket.write(commands, () => (taken += commands.length));
    return socket.writableLength;
  };
  await expect.poll(fill, { timeout: 15_000, interval: 5 }).toBeGreaterThanOrEqual(1_000_000);
  // What the buffers have is still worked on for a while.
  let before = -1;
  const stands = (): boolean => fill() >= 1_000_000 && before === (before = taken);
  await expect.poll(stands, { timeout: 15_000, interval: 300 }).toBe(true);
  expect(taken).toBeLessThan(40_000_000);
  // And once it reads, it goes on.
  socket.resume();
  await expect.poll(() => socket.writableLength, { timeout: 15_000 }).toBe(0);
  socket.destroy();
});

test('a client that is cut off in the middle leaves nothing behind', async () => {
  const door = await start({ listeners: [deviceListener] });
  const clients = [0, 1, 2].map(() => RawClient.open(door.port('devices')));
  for (const client of clients) expect(await client.reply()).toBe(banner);
  clients[1]?.send('EHLO c\r\nMAIL FROM:<a@example.com>\r\nRCPT TO:<b@example.net>\r\nDATA\r\nX-A: 1\r\n');
  await clients[1]?.until((received) => received.includes('354 '));
  clients[2]?.send('NOO');
  for (const client of clients) client.reset();
  await expect.poll(() => door.door.counts().connections).toBe(0);
  expect(door.submissions).toEqual([]);
});

test.each([
  ['role "bounce"', [{ ...plainListener, role: 'bounce' as const }]],
  ['no credential "dev/nobody"', [{ ...deviceListener, credential: { account: 'dev', name: 'nobody' } }]],
  ['lacks the scope', [{ ...deviceListener, credential: { account: 'dev', name: 'reader' } }]],
  ['go together', [{ ...deviceListener, allowFrom: [] }]],
  ['go together', [{ ...plainListener, allowFrom: ['127.0.0.1'] }]],
  ['address range', [{ ...plainListener, proxyProtocolFrom: ['balancer'] }]],
])('a listener that cannot work is a configuration error: %s', async (words, listeners) => {
  const failed = startDoor({ listeners });
  await expect(failed).rejects.toThrow(ConfigurationError);
  await expect(failed).rejects.toThrow(words);
});

test('a port in use is named, and no other listener stays bound', async () => {
  const door = await start({});
  const port = door.port('plain');
  const failed = startDoor({
    listeners: [
      { ...plainListener, name: 'one' },
      { ...plainListener, name: 'two', port },
    ],
  });
  await expect(failed).rejects.toThrow(`127.0.0.1:${port} for SMTP listener "two"`);
});
