// Hundreds of clients that pipeline whatever they like in pieces of any size and vanish at any moment, while the stores
// answer late or not at all well: nothing of them is left behind, and honest clients beside them get what is theirs.

import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { expect, onTestFinished, test } from 'vitest';
import { Guessing } from '../../../src/accounts/guessing.ts';
import { BodyBudget } from '../../../src/base/body-budget.ts';
import { Unavailable } from '../../../src/base/errors.ts';
import type { SmtpListener } from '../../../src/doors/smtp/settings.ts';
import { after, answeringLate } from '../../support/late-answers.ts';
import { logLines } from '../../support/log-lines.ts';
import {
  deviceListener,
  plainListener,
  plainResponse,
  RawClient,
  recordingSubmit,
  startDoor,
  tokens,
} from '../../support/smtp-peers.ts';

function below(limit: number): number {
  return Math.floor(Math.random() * limit);
}

function pick<Item>(items: readonly Item[]): Item {
  return items[below(items.length)] as Item;
}

const starttlsListener: SmtpListener = {
  ...deviceListener,
  name: 'starttls',
  tls: 'starttls',
  allowInsecureAuth: true,
};

const lines: readonly (() => string)[] = [
  () => 'EHLO client.example\r\n',
  () => 'MAIL FROM:<a@example.com>\r\n',
  () => 'MAIL FROM:<a@example.com> SIZE=4000\r\n',
  () => `RCPT TO:<b${below(40)}@example.net>\r\n`.repeat(1 + below(8)),
  () => Array.from({ length: 1000 }, (_, index) => `RCPT TO:<c${index}@example.net>\r\n`).join(''),
  () => 'DATA\r\n',
  () => `DATA\r\nX-A: 1\r\n\r\n${'text\r\n'.repeat(below(1200))}.\r\n`,
  () => 'X-A: 1\r\n\r\n..\r\n.\r\n',
  () => 'RSET\r\n',
  () => 'NOOP\r\n'.repeat(1 + below(300)),
  () => 'STARTTLS\r\n',
  () => 'QUIT\r\n',
  () => `AUTH PLAIN ${plainResponse('api_token', pick([tokens.full, 'wrong', tokens.readOnly]))}\r\n`,
  () => 'AUTH LOGIN\r\n*\r\n',
  () => 'AUTH LOGIN\r\nYXBpX3Rva2Vu\r\n',
  () => 'HELP\n',
  () => 'A'.repeat(below(70_000)),
  () => '\r\n.\r\n',
];

/** Mostly a transaction that begins well, and then anything. */
function script(): Buffer {
  const start =
    below(4) === 0 ? '' : 'EHLO client.example\r\nMAIL FROM:<a@example.com>\r\nRCPT TO:<b1@example.net>\r\n';
  return Buffer.from(start + Array.from({ length: below(10) }, () => pick(lines)()).join(''), 'latin1');
}

const endings: readonly ((socket: Socket) => unknown)[] = [
  (socket) => socket.destroy(),
  (socket) => socket.resetAndDestroy(),
  (socket) => socket.end(),
  (socket) => socket.pause(),
  () => undefined,
];

/** One client from its connection to an end that it does not announce. */
async function suffer(port: number): Promise<void> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: below(2) === 0, allowHalfOpen: true });
  socket.on('error', () => undefined);
  socket.on('end', () => below(2) === 0 && socket.end());
  // Most wait for the greeting; who does not is an early talker.
  if (below(8) > 0) await new Promise((resolve) => socket.once('data', resolve).once('close', resolve));
  if (below(3) > 0) socket.resume();
  const octets = script();
  const piece = pick([1 + below(5), 1 + below(100), octets.length + 1]);
  const dense = Math.max(piece, Math.ceil(octets.length / 40));
  for (let at = 0; at < octets.length && !socket.destroyed; at += dense) {
    socket.write(octets.subarray(at, at + dense));
    if (below(3) === 0) await sleep(below(3));
  }
  if (octets.includes('STARTTLS') && below(2) === 0) {
    connectTls({ socket, rejectUnauthorized: false }).on('error', () => undefined);
  }
  pick(endings)(socket);
  await sleep(below(40));
  if (below(2) === 0) socket.resetAndDestroy();
  else socket.destroy();
}

const honest = 'MAIL FROM:<a@example.com>\r\nRCPT TO:<b@example.net>\r\nRCPT TO:<s@example.net>\r\nDATA\r\n';

/** Sends a message as it should be sent, pipelined, and holds that each reply is right. */
async function send(port: number): Promise<void> {
  const client = RawClient.open(port);
  await client.reply();
  await client.ask('EHLO client.example');
  client.send(honest);
  expect(await client.reply()).toBe('250 2.1.0 Ok\r\n');
  expect(await client.reply()).toBe('250 2.1.5 Ok\r\n');
  expect(await client.reply()).toMatch(/^550 5\.7\.1 E_RECIPIENT_SUPPRESSED: s@example\.net /);
  expect(await client.reply()).toMatch(/^354 /);
  client.send('X-A: honest\r\n\r\nHello.\r\n.\r\nQUIT\r\n');
  expect(await client.untilEnd()).toMatch(/^250 2\.0\.0 Ok <\d+@platform\.example>\r\n221 2\.0\.0 Bye\r\n$/);
}

test('hostile pipelining leaves nothing behind, and honest clients get every reply in order', {
  timeout: 60_000,
}, async () => {
  const faults: unknown[] = [];
  const note = (error: unknown): unknown => faults.push(error);
  process.on('unhandledRejection', note).on('uncaughtException', note);
  onTestFinished(() => void process.off('unhandledRejection', note).off('uncaughtException', note));
  const bodies = new BodyBudget(30_000_000);
  const { log, lines: logged } = logLines();
  const guessing = new Guessing({ firstDelayMs: 5, maxDelayMs: 20, pauseMs: 1 });
  onTestFinished(() => guessing.close());
  const submissions: Parameters<typeof recordingSubmit>[0] = [];
  const accept = recordingSubmit(submissions);
  const late = answeringLate({ suppressed: (_account, recipient) => recipient === 's@example.net' }, () =>
    pick([0, 0, 0, 1, 3]),
  );
  const running = await startDoor({
    ...late,
    listeners: [deviceListener, plainListener, starttlsListener],
    limits: { connections: 1000, connectionsPerAddress: 1000, recipients: 100, authFailures: 5 },
    bodies,
    guessing,
    log,
    suppressed: async (account, recipient) => {
      // A store that is in trouble now and then, though never for the honest.
      if (recipient.startsWith('b3') && below(4) === 0) {
        throw new Unavailable('the store is locked', { reason: 'store', retryAfterSeconds: 1 });
      }
      return (await late.suppressed?.(account, recipient)) ?? false;
    },
    submit: async (submission) => await after(below(5), await accept(submission)),
  });
  const ports = ['devices', 'devices', 'plain', 'starttls'].map((name) => running.port(name));
  let attacks = 0;
  const attacker = async (): Promise<void> => {
    while (attacks < 600) {
      attacks += 1;
      await suffer(pick(ports));
    }
  };
  let honestLeft = 40;
  const sender = async (): Promise<void> => {
    while (honestLeft > 0) {
      honestLeft -= 1;
      await send(running.port('devices'));
    }
  };
  await Promise.all([...Array.from({ length: 20 }, attacker), ...Array.from({ length: 4 }, sender)]);
  // The penalties of guessers run out, and then everything has gone.
  await expect.poll(() => running.door.counts().connections, { timeout: 20_000 }).toBe(0);
  expect(bodies.held).toBe(0);
  expect(faults).toEqual([]);
  expect(logged.filter(({ msg }) => msg === 'command failed' || msg === 'failed' || msg === 'listener failed')).toEqual(
    [],
  );
  const fromHonest = submissions.filter(({ fields }) => fields.some(({ rawBytes }) => rawBytes.includes('honest')));
  expect(fromHonest).toHaveLength(40);
  await send(running.port('devices'));
  await running.door.drain(1000);
});
