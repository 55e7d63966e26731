// Deadlines by a clock that the test moves, and the orderly end.

import { afterEach, expect, test } from 'vitest';
import type { SubmitResult } from '../../../src/pipeline/submit.ts';
import {
  type DoorChoices,
  deviceListener,
  type ManualClock,
  manualClock,
  plainListener,
  RawClient,
  type RunningDoor,
  startDoor,
} from '../../support/smtp-peers.ts';

const timeout = '421 4.4.2 Timeout\r\n';
const shuttingDown = '421 4.3.2 Shutting down\r\n';

let running: RunningDoor | undefined;
let clock: ManualClock = manualClock();
afterEach(async () => {
  await running?.door.drain(0);
  running = undefined;
});

async function start(choices: DoorChoices = {}): Promise<RunningDoor> {
  clock = manualClock();
  running = await startDoor({ listeners: [deviceListener, plainListener], clock, ...choices });
  return running;
}

async function greeted(door: RunningDoor, listener = 'devices'): Promise<RawClient> {
  const client = RawClient.open(door.port(listener));
  await client.reply();
  await client.ask('EHLO client.example');
  return client;
}

async function inData(door: RunningDoor): Promise<RawClient> {
  const client = await greeted(door);
  await client.ask('MAIL FROM:<a@example.com>');
  await client.ask('RCPT TO:<b@example.net>');
  await client.ask('DATA');
  return client;
}

/** When a new session has been greeted, everything sent before it began was read. */
async function barrier(door: RunningDoor, listener = 'devices'): Promise<void> {
  const witness = await greeted(door, listener);
  await witness.ask('QUIT');
}

/** Lets the door look at its deadlines at least once: a session of its own is told that its time is over. */
async function afterSweep(door: RunningDoor): Promise<void> {
  const witness = await greeted(door);
  clock.pass(300);
  expect(await witness.untilEnd()).toBe(timeout);
}

test.each([7200, -7200])('a clock set by %i s cuts no session, and keeps none alive', async (seconds) => {
  const door = await start();
  const early = await greeted(door);
  clock.pass(200);
  const late = await greeted(door);
  clock.jump(seconds);
  clock.pass(100);
  expect(await early.untilEnd()).toBe(timeout);
  expect(await late.ask('NOOP')).toMatch(/^250 /);
});

test('an idle session ends after idleSeconds, not before', async () => {
  const door = await start({ limits: { idleSeconds: 400 } });
  const client = await greeted(door);
  clock.pass(399);
  expect(await client.ask('NOOP')).toBe('250 2.0.0 Ok\r\n');
  clock.pass(399);
  expect(await client.ask('NOOP')).toBe('250 2.0.0 Ok\r\n');
  clock.pass(400);
  expect(await client.untilEnd()).toBe(timeout);
});

test('a command line must be complete within commandSeconds, however it trickles', async () => {
  const door = await start();
  const client = await greeted(door);
  client.send('NOOP\r\nNO');
  expect(await client.reply()).toBe('250 2.0.0 Ok\r\n');
  for (const letter of ['O', 'P', ' ', 'x', 'y']) {
    clock.pass(11);
    client.send(letter);
    await barrier(door);
    expect(client.ended).toBe(false);
  }
  clock.pass(5);
  expect(await client.untilEnd()).toBe(timeout);
});

test('a session without AUTH ends after authSeconds, though it talks', async () => {
  const door = await start();
  const client = await greeted(door, 'plain');
  clock.pass(29);
  expect(await client.ask('NOOP')).toBe('250 2.0.0 Ok\r\n');
  clock.pass(1);
  expect(await client.untilEnd()).toBe('421 4.7.0 Not authenticated in time\r\n');
});

test('DATA may pause for dataIdleSeconds, counted from the last octet', async () => {
  const door = await start({ limits: { dataIdleSeconds: 100, idleSeconds: 50 } });
  const client = await inData(door);
  clock.pass(99);
  client.send('X-A: 1\r\n\r\nx\r\n');
  const other = await greeted(door);
  clock.pass(50);
  expect(await other.untilEnd()).toBe(timeout);
  client.send('y\r\n.\r\n');
  expect(await client.reply()).toBe('250 2.0.0 Ok <1@platform.example>\r\n');
  const late = await inData(door);
  clock.pass(100);
  expect(await late.untilEnd()).toBe(timeout);
  expect(door.submissions).toHaveLength(1);
});

test('a drip in DATA is ended after a minute, whatever the idle limit allows', async () => {
  const door = await start();
  const client = await inData(door);
  for (let second = 0; second < 60; second += 10) {
    client.send('0123456789');
    await barrier(door);
    expect(client.ended).toBe(false);
    clock.pass(10);
  }
  expect(await client.untilEnd()).toBe('421 4.4.2 The message comes too slowly\r\n');
  await expect.poll(() => door.door.counts().connections).toBe(0);
});

test('a minute that brings enough may be followed by silence, and by another such minute', async () => {
  const door = await start({ limits: { messageBytes: 50_000 } });
  const client = await inData(door);
  clock.pass(299);
  for (let minute = 0; minute < 3; minute += 1) {
    client.send(`${'x'.repeat(5998)}\r\n`);
    await barrier(door);
    clock.pass(290);
    await barrier(door);
    expect(client.ended).toBe(false);
  }
  client.send('X-A: 1\r\n\r\nx\r\n.\r\n');
  expect(await client.reply()).toBe('250 2.0.0 Ok <1@platform.example>\r\n');
  clock.pass(61);
  expect(await client.ask('NOOP')).toBe('250 2.0.0 Ok\r\n');
});

test.each([
  [100, 5999, '421 4.4.2 The message comes too slowly\r\n'],
  [100, 6000, ''],
  [0, 1, ''],
])('at %i octets a second, %i in the first minute: %j', async (dataOctetsPerSecond, octets, said) => {
  const door = await start({ limits: { dataOctetsPerSecond, messageBytes: 50_000, idleSeconds: 60 } });
  const client = await inData(door);
  const witness = await greeted(door);
  client.send('x'.repeat(octets));
  await barrier(door);
  clock.pass(60);
  expect(await witness.untilEnd()).toBe(timeout);
  if (said !== '') expect(await client.untilEnd()).toBe(said);
  else expect(client.received).toBe('');
});

test('a connection that never becomes a session is closed after authSeconds', async () => {
  const door = await start({
    listeners: [
      { ...plainListener, name: 'proxied', proxyProtocolFrom: ['127.0.0.1'] },
      { ...plainListener, name: 'tls', tls: 'implicit' },
    ],
  });
  const silent = [RawClient.open(door.port('proxied')), RawClient.open(door.port('tls'))];
  await expect.poll(() => door.door.counts().connections).toBe(2);
  clock.pass(30);
  for (const client of silent) expect(await client.untilEnd()).toBe('');
  await expect.poll(() => door.door.counts().connections).toBe(0);
});

test.each([
  ['does not come', ''],
  ['stops inside its first record', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
])('a STARTTLS handshake that %s is cut', async (_what, octets) => {
  const door = await start({ listeners: [{ ...plainListener, name: 'submission', tls: 'starttls' }] });
  const client = await greeted(door, 'submission');
  expect(await client.ask('STARTTLS')).toBe('220 2.0.0 Ready to start TLS\r\n');
  client.send(octets);
  await barrier(door, 'submission');
  clock.pass(30);
  expect(await client.untilEnd()).toBe('');
  await expect.poll(() => door.door.counts().connections).toBe(0);
});

/** A pipeline that answers when the test says so. */
function heldSubmit(): { submit: () => Promise<SubmitResult>; answer: () => void; asked: () => number } {
  const waiting: ((result: SubmitResult) => void)[] = [];
  return {
    submit: () =>
      new Promise((resolve) => {
        waiting.push(resolve);
      }),
    answer: () => waiting.forEach((resolve) => resolve({ accepted: true, id: '1', messageId: '<1@platform.example>' })),
    asked: () => waiting.length,
  };
}

test('no deadline runs while the pipeline works', async () => {
  const held = heldSubmit();
  const door = await start({ submit: held.submit });
  const client = await inData(door);
  client.send('X-A: 1\r\n\r\nx\r\n.\r\n');
  await expect.poll(held.asked).toBe(1);
  clock.pass(1000);
  await afterSweep(door);
  held.answer();
  expect(await client.reply()).toBe('250 2.0.0 Ok <1@platform.example>\r\n');
  expect(await client.ask('NOOP')).toBe('250 2.0.0 Ok\r\n');
});

test('drain: idle sessions get 421, messages in flight finish first, nobody new comes in', async () => {
  const held = heldSubmit();
  const door = await start({ submit: held.submit });
  const idle = await greeted(door);
  const writing = await inData(door);
  writing.send('X-A: 1\r\n');
  const waiting = await inData(door);
  waiting.send('X-A: 1\r\n\r\nx\r\n.\r\n');
  await expect.poll(held.asked).toBe(1);
  const drained = door.door.drain(60_000);
  expect(await idle.untilEnd()).toBe(shuttingDown);
  expect(await RawClient.open(door.port('devices')).untilEnd()).toBe('');
  writing.send('\r\nx\r\n.\r\nNOOP\r\n');
  await expect.poll(held.asked).toBe(2);
  held.answer();
  expect(await waiting.untilEnd()).toBe(`250 2.0.0 Ok <1@platform.example>\r\n${shuttingDown}`);
  expect(await writing.untilEnd()).toBe(`250 2.0.0 Ok <1@platform.example>\r\n${shuttingDown}`);
  await drained;
  expect(door.door.counts().connections).toBe(0);
});

test('drain cuts what is left at its deadline', async () => {
  const door = await start();
  const client = await inData(door);
  await door.door.drain(50);
  expect(await client.untilEnd()).toBe('');
  expect(door.door.counts().connections).toBe(0);
});

test('drain drops connections that are no session yet', async () => {
  const door = await start({
    listeners: [
      { ...plainListener, name: 'proxied', proxyProtocolFrom: ['127.0.0.1'] },
      { ...plainListener, name: 'tls', tls: 'implicit' },
      { ...plainListener, name: 'starttls', tls: 'starttls' },
    ],
  });
  const silent = [RawClient.open(door.port('proxied')), RawClient.open(door.port('tls'))];
  const upgrading = await greeted(door, 'starttls');
  await upgrading.ask('STARTTLS');
  await expect.poll(() => door.door.counts().connections).toBe(3);
  await door.door.drain(60_000);
  for (const client of [...silent, upgrading]) expect(await client.untilEnd()).toBe('');
});
