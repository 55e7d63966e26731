// DATA where there is no room in memory: refused early, swallowed late, and given back on every way out.

import { afterEach, expect, test } from 'vitest';
import { BodyBudget, type BodyReservation } from '../../../src/base/body-budget.ts';
import type { SubmitResult } from '../../../src/pipeline/submit.ts';
import {
  type DoorChoices,
  devAccount,
  deviceListener,
  type ManualClock,
  manualClock,
  RawClient,
  type RunningDoor,
  startDoor,
} from '../../support/smtp-peers.ts';

const mebibyte = 1_048_576;
const noRoom = '452 4.3.1 Too much mail is under way, try again later\r\n';

let door: RunningDoor | undefined;
let bodies: BodyBudget = new BodyBudget(0);
let clock: ManualClock = manualClock();
afterEach(async () => {
  await door?.door.drain(0);
  expect(bodies.held).toBe(0);
});

async function start(choices: DoorChoices = {}): Promise<RunningDoor> {
  bodies = new BodyBudget(30 * mebibyte);
  clock = manualClock();
  const limits = { messageBytes: 5 * mebibyte };
  door = await startDoor({ listeners: [deviceListener], bodies, clock, limits, ...choices });
  return door;
}

/** Bodies of somebody else that leave room for less than 5 MiB. */
function others(): BodyReservation {
  const hold = bodies.open({ door: 'http', account: 'other', address: '192.0.2.1' });
  expect(hold.grow(6 * mebibyte)).toBe(true);
  return hold;
}

async function greeted(running: RunningDoor): Promise<RawClient> {
  const client = RawClient.open(running.port('devices'));
  await client.reply();
  await client.ask('EHLO client.example');
  return client;
}

async function inData(running: RunningDoor): Promise<RawClient> {
  const client = await greeted(running);
  await client.ask('MAIL FROM:<a@example.com>');
  await client.ask('RCPT TO:<b@example.net>');
  expect(await client.ask('DATA')).toMatch(/^354 /);
  return client;
}

const line = `${'x'.repeat(70)}\r\n`;
const large = `X-A: 1\r\n\r\n${line.repeat(60_000)}`;

test('a declared size that finds no room is refused at MAIL, and again at DATA', async () => {
  const client = await greeted(await start());
  expect(await client.ask('MAIL FROM:<a@example.com> SIZE=5000000')).toMatch(/^250 /);
  expect(await client.ask('RCPT TO:<b@example.net>')).toMatch(/^250 /);
  const hold = others();
  expect(await client.ask('DATA')).toBe(noRoom);
  expect(await client.ask('RSET')).toMatch(/^250 /);
  expect(await client.ask('MAIL FROM:<a@example.com> SIZE=5000000')).toBe(noRoom);
  expect(await client.ask('MAIL FROM:<a@example.com> SIZE=5000')).toMatch(/^250 /);
  expect(bodies.refusals).toEqual({ smtp: 2, http: 0 });
  hold.release();
});

test('what its account has under way elsewhere counts, and what another account has does not', async () => {
  const client = await greeted(await start());
  const replies: string[] = [];
  for (const account of [devAccount.id, 'other']) {
    const hold = bodies.open({ door: 'http', account, address: '192.0.2.1' });
    expect(hold.grow(6 * mebibyte)).toBe(true);
    replies.push(await client.ask('MAIL FROM:<a@example.com> SIZE=5000'));
    hold.release();
  }
  expect(replies).toEqual([noRoom, expect.stringMatching(/^250 /)]);
});

test('room that ends inside DATA: the rest is swallowed, then 452, and the session goes on', async () => {
  const running = await start();
  const hold = others();
  const client = await inData(running);
  client.send(large);
  await expect.poll(() => bodies.refusals.smtp).toBe(1);
  expect(await client.ask('.')).toBe(noRoom);
  expect(running.submissions).toHaveLength(0);
  hold.release();
  client.send(`MAIL FROM:<a@example.com>\r\nRCPT TO:<b@example.net>\r\nDATA\r\n${large}.\r\n`);
  await client.until((received) => received.includes('250 2.0.0 Ok <1@'));
  expect(running.submissions).toHaveLength(1);
});

test('a message over its own limit is told so, room or not', async () => {
  const running = await start({ limits: { messageBytes: 3 * mebibyte } });
  const hold = others();
  const client = await inData(running);
  client.send(large);
  expect(await client.ask('.')).toMatch(/^552 5\.3\.4 /);
  hold.release();
});

const vanishing: readonly [string, (client: RawClient, running: RunningDoor) => Promise<void> | void][] = [
  ['is reset', (client) => client.reset()],
  ['is closed', (client) => client.destroy()],
  ['is closed on one side', (client) => client.halfClose()],
  ['stops to send', () => clock.pass(300)],
  ['is cut by the drain', (_client, running) => running.door.drain(20)],
];

test.each(vanishing)('a connection that %s inside DATA gives its room back', async (_what, end) => {
  const running = await start();
  const client = await inData(running);
  client.send(large);
  await expect.poll(() => bodies.held).toBeGreaterThan(12 * mebibyte);
  await end(client, running);
  await expect.poll(() => bodies.held).toBe(0);
});

test('a client that goes away while its message is judged gives nothing back before that is done', async () => {
  let answer: ((result: SubmitResult) => void) | undefined;
  const submit = (): Promise<SubmitResult> => new Promise((resolve) => (answer = resolve));
  const running = await start({ submit });
  const client = await inData(running);
  client.send(`${large}.\r\n`);
  await expect.poll(() => answer).toBeDefined();
  client.reset();
  await expect.poll(() => running.door.counts().connections).toBe(0);
  expect(bodies.held).toBeGreaterThan(12 * mebibyte);
  answer?.({ accepted: true, id: '1', messageId: '<1@platform.example>' });
  await expect.poll(() => bodies.held).toBe(0);
});

test('a pipeline that fails gives it back too', async () => {
  const running = await start({ submit: () => Promise.reject(new Error('the disk is full')) });
  const client = await inData(running);
  client.send(large);
  expect(await client.ask('.')).toMatch(/^451 4\.3\.0 /);
  expect(bodies.held).toBe(0);
});
