// AUTH by guessing: the answers wait, the session reads nothing meanwhile, and a valid token passes (D92).

import { afterEach, expect, test } from 'vitest';
import { Guessing } from '../../../src/accounts/guessing.ts';
import { plainResponse, RawClient, type RunningDoor, startDoor, tokens } from '../../support/smtp-peers.ts';

let door: RunningDoor | undefined;
let guessing: Guessing | undefined;
afterEach(async () => {
  guessing?.close();
  await door?.door.drain(0);
});

async function start(): Promise<RunningDoor> {
  guessing = new Guessing({ firstDelayMs: 3_600_000, maxDelayMs: 3_600_000, pauseMs: 1 });
  door = await startDoor({ guessing, limits: { connectionsPerAddress: 50, authFailures: 100 } });
  return door;
}

async function greeted(running: RunningDoor): Promise<RawClient> {
  const client = RawClient.open(running.port('plain'));
  await client.reply();
  await client.ask('EHLO client.example');
  return client;
}

const guess = `AUTH PLAIN ${plainResponse('api_token', 'guess')}`;
const wrong = '535 5.7.8 Authentication credentials invalid\r\n';

test('pipelined guesses wait one after another; a valid token from the same address passes at once', async () => {
  const running = await start();
  const guesser = await greeted(running);
  guesser.send(`${guess}\r\n`.repeat(50));
  await expect.poll(() => guessing?.waiting).toBe(1);
  expect(running.door.counts().authFailures).toBe(6);
  const honest = await greeted(running);
  expect(await honest.ask(`AUTH PLAIN ${plainResponse('api_token', tokens.full)}`)).toMatch(/^235 2\.7\.0 /);
  guessing?.close();
  await guesser.until((received) => received.split(wrong).length === 51);
});

test('who guesses by many connections is turned away once enough of them wait; who leaves frees no room', async () => {
  const running = await start();
  const guessers = await Promise.all(Array.from({ length: 20 }, () => greeted(running)));
  for (const client of guessers) client.send(`${guess}\r\n`);
  await expect.poll(() => running.door.counts().authFailures).toBe(20);
  await expect.poll(() => guessing?.waiting).toBe(8);
  await expect.poll(() => guessers.filter(({ ended }) => ended).length).toBe(20 - 5 - 8);
  expect(guessers.filter(({ received }) => received === wrong)).toHaveLength(5);
  expect(guessers.find(({ ended }) => ended)?.received).toBe('421 4.7.0 Too many authentication failures\r\n');
  for (const client of guessers) client.destroy();
  await expect.poll(() => running.door.counts().connections).toBe(8);
  const again = await greeted(running);
  expect(await again.ask(guess)).toBe('421 4.7.0 Too many authentication failures\r\n');
  const honest = await greeted(running);
  expect(await honest.ask(`AUTH PLAIN ${plainResponse('api_token', tokens.full)}`)).toMatch(/^235 2\.7\.0 /);
});

test('a drain ends sessions whose answer waits', async () => {
  const running = await start();
  const client = await greeted(running);
  client.send(`${guess}\r\n`.repeat(6));
  await expect.poll(() => guessing?.waiting).toBe(1);
  await running.door.drain(60_000);
  expect((await client.untilEnd()).endsWith(`${wrong}421 4.3.2 Shutting down\r\n`)).toBe(true);
});
