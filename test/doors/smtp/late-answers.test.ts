// Commands whose answers come late, because what the door asks (tokens, suppression, rates) answers by promises: replies
// leave in the order of the commands, nothing runs ahead, and who goes away meanwhile leaves nothing behind.

import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, expect, test } from 'vitest';
import type { Submitter } from '../../../src/accounts/account.ts';
import { Guessing } from '../../../src/accounts/guessing.ts';
import { BodyBudget } from '../../../src/base/body-budget.ts';
import { Unavailable } from '../../../src/base/errors.ts';
import { silentLog } from '../../../src/base/log.ts';
import { Dialogue } from '../../../src/doors/smtp/dialogue.ts';
import type { SmtpListener } from '../../../src/doors/smtp/settings.ts';
import type { Submission, Violation } from '../../../src/pipeline/submit.ts';
import { after, answeringLate, type Gate, gate } from '../../support/late-answers.ts';
import { logLines } from '../../support/log-lines.ts';
import {
  accounts,
  type DoorChoices,
  deviceListener,
  limits,
  type ManualClock,
  manualClock,
  plainListener,
  plainResponse,
  RawClient,
  type RunningDoor,
  startDoor,
  tokens,
} from '../../support/smtp-peers.ts';

let running: RunningDoor | undefined;
let bodies: BodyBudget = new BodyBudget(0);
afterEach(async () => {
  await running?.door.drain(0);
  running = undefined;
  expect(bodies.held).toBe(0);
});

async function start(choices: DoorChoices = {}): Promise<RunningDoor> {
  bodies = new BodyBudget(30_000_000);
  running = await startDoor({ listeners: [deviceListener, plainListener], bodies, ...choices });
  return running;
}

async function greeted(door: RunningDoor, listener = 'devices'): Promise<RawClient> {
  const client = RawClient.open(door.port(listener));
  await client.reply();
  await client.ask('EHLO client.example');
  return client;
}

/** A door whose suppression list answers when the test says so, and a client of it inside a transaction. */
async function withGate(choices: DoorChoices = {}) {
  const suppression = gate<boolean>();
  const door = await start({ suppressed: (_account, recipient) => suppression.ask(recipient), ...choices });
  const client = await greeted(door);
  expect(await client.ask('MAIL FROM:<a@example.com>')).toBe(senderOk);
  return { door, client, suppression };
}

/** When a new session has been greeted and left, whatever could be written to the others was. */
async function barrier(door: RunningDoor): Promise<void> {
  const witness = await greeted(door);
  await witness.ask('QUIT');
}

function bodyOf(submission: Submission | undefined): string {
  return submission?.body.kind === 'mime' ? submission.body.bytes.toString('latin1') : '';
}

const ok = '250 2.0.0 Ok\r\n';
const senderOk = '250 2.1.0 Ok\r\n';
const recipientOk = '250 2.1.5 Ok\r\n';
const startData = '354 End data with <CR><LF>.<CR><LF>\r\n';
const noRecipients = '554 5.5.1 No valid recipients\r\n';
const mailFirst = '503 5.5.1 Send MAIL first\r\n';
const accepted = '250 2.0.0 Ok <1@platform.example>\r\n';
const bye = '221 2.0.0 Bye\r\n';
const wrongToken = '535 5.7.8 Authentication credentials invalid\r\n';
const authRequired = '530 5.7.0 Authentication required\r\n';
const authenticated = '235 2.7.0 Authentication successful\r\n';
const timeout = '421 4.4.2 Timeout\r\n';
const shuttingDown = '421 4.3.2 Shutting down\r\n';
const suppressedReply = (recipient: string): string =>
  `550 5.7.1 E_RECIPIENT_SUPPRESSED: ${recipient} is on the suppression list\r\n`;
const tooFast: Violation = { code: 'E_RATE_LIMIT_EXCEEDED', message: 'more than 600 messages a minute' };

test('replies leave in the order of the commands, whatever each store takes', async () => {
  const delays = [25, 0, 15, 1, 8, 0];
  const door = await start({
    suppressed: (_account, recipient) => after(delays[Number(recipient[1])] ?? 0, recipient.startsWith('x')),
  });
  const client = await greeted(door);
  const recipients = ['b0', 'x1', 'b2', 'x3', 'b4', 'b5'].map((name) => `${name}@example.net`);
  client.send(`MAIL FROM:<a@example.com>\r\n${recipients.map((to) => `RCPT TO:<${to}>\r\n`).join('')}NOOP\r\nQUIT\r\n`);
  const answers = recipients.map((to) => (to.startsWith('x') ? suppressedReply(to) : recipientOk));
  expect(await client.untilEnd()).toBe(`${senderOk}${answers.join('')}${ok}${bye}`);
});

test('DATA does not begin before the recipients are decided, and its octets are not commands', async () => {
  const { door, client, suppression } = await withGate();
  client.send(
    'RCPT TO:<b@example.net>\r\nRCPT TO:<c@example.net>\r\nDATA\r\nX-A: 1\r\n\r\nRSET\r\nQUIT\r\n.\r\nNOOP\r\n',
  );
  await expect.poll(() => suppression.asked).toEqual(['b@example.net']);
  await barrier(door);
  expect(client.received).toBe('');
  suppression.give(true);
  await expect.poll(() => suppression.asked).toHaveLength(2);
  await barrier(door);
  expect(client.received).not.toContain('354');
  suppression.give(false);
  const all = `${suppressedReply('b@example.net')}${recipientOk}${startData}${accepted}${ok}`;
  expect(await client.until((received) => received.length >= all.length)).toBe(all);
  expect(door.submissions[0]?.envelope.recipients).toEqual(['c@example.net']);
  expect(bodyOf(door.submissions[0])).toBe('RSET\r\nQUIT\r\n');
});

test('where no recipient is left, DATA is refused and no octet is taken for the message', async () => {
  const { door, client, suppression } = await withGate();
  client.send('RCPT TO:<b@example.net>\r\nDATA\r\nRSET\r\nQUIT\r\n');
  await expect.poll(() => suppression.asked).toHaveLength(1);
  suppression.give(true);
  expect(await client.untilEnd()).toBe(`${suppressedReply('b@example.net')}${noRecipients}${ok}${bye}`);
  expect(door.submissions).toHaveLength(0);
});

test.each([
  ['refuses', tooFast, '451 4.7.0 E_RATE_LIMIT_EXCEEDED: more than 600 messages a minute\r\n'],
  ['lets pass', undefined, startData],
])('a late rate that %s the message decides what the octets behind DATA are', async (_what, violation, reply) => {
  const rates = gate<Violation | undefined>();
  const door = await start({ rateLimit: (_account, recipients) => rates.ask(String(recipients)) });
  const client = await greeted(door);
  client.send('MAIL FROM:<a@example.com>\r\nRCPT TO:<b@example.net>\r\nDATA\r\nNOOP\r\n.\r\nQUIT\r\n');
  await expect.poll(() => rates.asked).toEqual(['1']);
  await barrier(door);
  expect(client.received).not.toContain('354');
  expect(bodies.held).toBe(0);
  rates.give(violation);
  const rest = violation ? `${ok}500 5.5.1 Command not known\r\n` : '';
  const said = await client.untilEnd();
  expect(said.startsWith(`${senderOk}${recipientOk}${reply}${rest}`)).toBe(true);
  expect(said.endsWith(bye)).toBe(true);
  expect(door.submissions).toHaveLength(violation ? 0 : 1);
});

const behindRecipient: readonly [string, string, string][] = [
  ['RSET', 'RSET\r\nDATA\r\nNOOP\r\n', `${recipientOk}${ok}${mailFirst}${ok}`],
  ['EHLO', 'HELO client.example\r\nDATA\r\nNOOP\r\n', `${recipientOk}250 mx.platform.example\r\n${mailFirst}${ok}`],
  ['QUIT', 'QUIT\r\nNOOP\r\nDATA\r\n', `${recipientOk}${bye}`],
  ['BDAT', 'BDAT 5 LAST\r\nNOOP\r\n', `${recipientOk}502 5.5.1 CHUNKING is not offered\r\n`],
  ['a bare LF', 'NOOP\nNOOP\r\n', `${recipientOk}500 5.5.2 Bare CR or LF in a command line\r\n`],
  ['the same again', 'RCPT TO:<b@example.net>\r\nNOOP\r\n', `${recipientOk}${recipientOk}${ok}`],
];

test.each(behindRecipient)('%s behind a recipient that waits', async (_what, commands, replies) => {
  const { door, client, suppression } = await withGate();
  client.send(`RCPT TO:<b@example.net>\r\n${commands}`);
  await expect.poll(() => suppression.asked).toHaveLength(1);
  await barrier(door);
  expect(client.received).toBe('');
  suppression.give(false);
  expect(await client.until((received) => received.length >= replies.length)).toBe(replies);
  await barrier(door);
  expect(client.received).toBe(replies);
  expect(suppression.asked).toHaveLength(1);
});

test('STARTTLS behind a recipient that waits: what stands behind it in plaintext never runs, all before is forgotten', async () => {
  const listener: SmtpListener = { ...deviceListener, tls: 'starttls', allowInsecureAuth: true };
  const { client, suppression } = await withGate({ listeners: [listener] });
  client.send('RCPT TO:<b@example.net>\r\nSTARTTLS\r\nRSET\r\nQUIT\r\n');
  await expect.poll(() => suppression.asked).toHaveLength(1);
  expect(client.received).toBe('');
  suppression.give(false);
  const ready = `${recipientOk}220 2.0.0 Ready to start TLS\r\n`;
  expect(await client.until((received) => received.length >= ready.length)).toBe(ready);
  client.received = '';
  await client.startTls();
  expect(await client.ask('DATA')).toBe(mailFirst);
  expect(await client.ask('EHLO client.example')).toContain('REQUIRETLS');
  expect(await client.ask('MAIL FROM:<a@example.com>')).toBe(senderOk);
});

test.each(['halfClose', 'destroy'] as const)(
  'a client that ends (%s) behind STARTTLS while an answer is due begins no handshake',
  async (end) => {
    const listener: SmtpListener = { ...deviceListener, tls: 'starttls', allowInsecureAuth: true };
    const { door, client, suppression } = await withGate({ listeners: [listener] });
    client.send('RCPT TO:<b@example.net>\r\nSTARTTLS\r\n');
    client[end]();
    await expect.poll(() => suppression.asked).toHaveLength(1);
    await barrier(door);
    suppression.give(false);
    await expect.poll(() => door.door.counts().connections).toBe(0);
    const said = `${recipientOk}220 2.0.0 Ready to start TLS\r\n`;
    expect(await client.untilEnd()).toBe(end === 'halfClose' ? said : '');
  },
);

/** Each question that may be under way, and the octets that lead to it. */
const questions: readonly [string, string, string][] = [
  ['token of AUTH', 'plain', `AUTH PLAIN ${plainResponse('api_token', tokens.full)}\r\n`],
  ['token of MAIL', 'plain', `AUTH PLAIN ${plainResponse('api_token', tokens.full)}\r\nMAIL FROM:<a@example.com>\r\n`],
  ['recipient', 'devices', 'MAIL FROM:<a@example.com>\r\nRCPT TO:<b@example.net>\r\nDATA\r\n'],
  ['rate', 'devices', 'MAIL FROM:<a@example.com>\r\nRCPT TO:<r@example.net>\r\nDATA\r\nX-A: 1\r\n\r\n'],
];

/** A door whose questions all wait, but for the first about a token where MAIL is to wait for the second. */
async function withQuestions(what: string) {
  const asked = gate<unknown>();
  const { log, lines } = logLines();
  let known = what === 'token of MAIL' ? 1 : 0;
  const clock = manualClock();
  const door = await start({
    log,
    clock,
    accounts: {
      ...accounts,
      authenticateHash: async (sha256): Promise<Submitter | undefined> => {
        known -= 1;
        if (known < 0) await asked.ask('token');
        return await Promise.resolve(accounts.authenticateHash(sha256));
      },
    },
    suppressed: async (_account, recipient) => {
      if (what === 'recipient') await asked.ask(recipient);
      return false;
    },
    rateLimit: async () => {
      if (what === 'rate') await asked.ask('rate');
      return undefined;
    },
  });
  return { door, asked, lines, clock };
}

test.each(questions)(
  'a client that is cut off while the %s is asked about leaves nothing behind',
  async (what, listener, octets) => {
    const { door, asked, lines } = await withQuestions(what);
    const client = await greeted(door, listener);
    client.send(octets);
    await expect.poll(() => asked.asked).toHaveLength(1);
    client.reset();
    await expect.poll(() => door.door.counts().connections).toBe(0);
    asked.give(undefined);
    await barrierWithoutQuestions(door);
    expect(asked.asked).toHaveLength(1);
    expect(bodies.held).toBe(0);
    expect(door.submissions).toHaveLength(0);
    expect(lines.filter(({ msg }) => msg === 'command failed')).toEqual([]);
  },
);

// It cannot be told from one that has closed its side only, and waits for its replies.
test.each(questions)(
  'a client that closes while the %s is asked about is gone with the answer',
  async (what, listener, octets) => {
    const { door, asked } = await withQuestions(what);
    const client = await greeted(door, listener);
    client.send(octets);
    await expect.poll(() => asked.asked).toHaveLength(1);
    client.destroy();
    await barrierWithoutQuestions(door);
    expect(bodies.held).toBe(0);
    asked.give(undefined);
    await expect.poll(() => door.door.counts().connections).toBe(0);
    expect(asked.asked).toHaveLength(1);
    expect(bodies.held).toBe(0);
    expect(door.submissions).toHaveLength(0);
  },
);

async function barrierWithoutQuestions(door: RunningDoor): Promise<void> {
  const witness = await greeted(door, 'plain');
  await witness.ask('QUIT');
}

const enders: readonly [string, (door: RunningDoor, clock: ManualClock) => unknown, RegExp][] = [
  ['the drain', (door) => door.door.drain(10_000), /421 4\.3\.2 Shutting down\r\n$/],
  ['the deadline', (_door, clock) => clock.pass(300), /421 4\.(?:4\.2 Timeout|7\.0 Not authenticated in time)\r\n$/],
];

test.each(questions.flatMap((question) => enders.map((way) => [...way, ...question] as const)))(
  'a session that %s ends while an answer is due says nothing more (%#)',
  async (_way, end, last, what, listener, octets) => {
    const { door, asked, clock } = await withQuestions(what);
    const client = await greeted(door, listener);
    client.send(octets);
    await expect.poll(() => asked.asked).toHaveLength(1);
    const ended = end(door, clock);
    const said = await client.untilEnd();
    expect(said).toMatch(last);
    // A reply for each command before, and the last word.
    expect(said.split('\r\n')).toHaveLength(octets.split('\r\n').indexOf(waitingLine(what, octets)) + 2);
    asked.give(undefined);
    await ended;
    await nextTurn();
    expect(client.received).toBe(said);
    expect(bodies.held).toBe(0);
  },
);

/** The line of the octets whose answer waits. */
function waitingLine(what: string, octets: string): string {
  const lines = octets.split('\r\n');
  const verb = { 'token of AUTH': 'AUTH', 'token of MAIL': 'MAIL', recipient: 'RCPT', rate: 'DATA' }[what] ?? '';
  return lines.find((line) => line.startsWith(verb)) ?? '';
}

test('a client that closes its side behind its commands still gets every late reply', async () => {
  const { client, suppression } = await withGate();
  client.send('RCPT TO:<b@example.net>\r\nRCPT TO:<c@example.net>\r\n');
  client.halfClose();
  await expect.poll(() => suppression.asked).toHaveLength(1);
  suppression.give(false);
  await expect.poll(() => suppression.asked).toHaveLength(2);
  suppression.give(true);
  expect(await client.untilEnd()).toBe(`${recipientOk}${suppressedReply('c@example.net')}`);
});

test('what is decided goes out while the next answer is still due', async () => {
  const suppression = gate<boolean>();
  const door = await start({ suppressed: (_account, recipient) => suppression.ask(recipient) });
  const client = await greeted(door);
  client.send('MAIL FROM:<a@example.com>\r\nRCPT TO:<b@example.net>\r\nRCPT TO:<c@example.net>\r\n');
  expect(await client.reply()).toBe(senderOk);
  suppression.give(false);
  expect(await client.reply()).toBe(recipientOk);
  expect(suppression.asked).toHaveLength(2);
  suppression.give(false);
});

test('the time that answers take is not counted against the client, but a store that never answers ends the session', async () => {
  const clock = manualClock();
  const { door, client, suppression } = await withGate({ clock });
  const idle = await greeted(door);
  client.send(['b', 'c', 'd', 'e'].map((name) => `RCPT TO:<${name}@example.net>\r\n`).join(''));
  for (const count of [1, 2, 3]) {
    await expect.poll(() => suppression.asked).toHaveLength(count);
    clock.pass(200);
    suppression.give(false);
  }
  await expect.poll(() => suppression.asked).toHaveLength(4);
  // The deadlines were looked at.
  expect(await idle.untilEnd()).toBe(timeout);
  suppression.give(false);
  const taken = recipientOk.repeat(4);
  expect(await client.until((received) => received.length >= taken.length)).toBe(taken);
  client.send('RCPT TO:<f@example.net>\r\n');
  await expect.poll(() => suppression.asked).toHaveLength(5);
  clock.pass(300);
  expect(await client.untilEnd()).toBe(`${taken}${timeout}`);
  await expect.poll(() => door.door.counts().connections).toBe(0);
});

test('a store that fails late is answered 451, the recipient is not taken, and the session goes on', async () => {
  const { log, lines } = logLines();
  const { door, client, suppression } = await withGate({ log });
  client.send(['b', 'c', 'd'].map((name) => `RCPT TO:<${name}@example.net>\r\n`).join(''));
  await expect.poll(() => suppression.asked).toHaveLength(1);
  suppression.fail(new Error('the store is broken'));
  await expect.poll(() => suppression.asked).toHaveLength(2);
  suppression.fail(new Unavailable('the store is locked', { reason: 'store', retryAfterSeconds: 1 }));
  await expect.poll(() => suppression.asked).toHaveLength(3);
  suppression.give(false);
  expect(await client.reply()).toMatch(/^451 4\.3\.0 Internal error, id [0-9a-f]{16}\r\n$/);
  expect(await client.reply()).toBe('451 4.3.0 Mail cannot be kept at the moment, try again later\r\n');
  expect(await client.reply()).toBe(recipientOk);
  expect(lines.map(({ msg }) => msg)).toEqual(expect.arrayContaining(['command failed', 'put off']));
  expect(await client.ask('DATA')).toBe(startData);
  client.send('X-A: 1\r\n\r\n.\r\n');
  expect(await client.reply()).toBe(accepted);
  expect(door.submissions[0]?.envelope.recipients).toEqual(['d@example.net']);
});

test('a thousand recipients in one packet are asked about one after another, and all are answered', async () => {
  let under = 0;
  let most = 0;
  const door = await start({
    limits: { recipients: 1000, messageBytes: 4096 },
    suppressed: async (_account, recipient) => {
      under += 1;
      most = Math.max(most, under);
      await nextTurn();
      under -= 1;
      return recipient.endsWith('7@example.net');
    },
  });
  const client = await greeted(door);
  const names = Array.from({ length: 1001 }, (_, index) => `b${index}`);
  const rcpt = names.map((name) => `RCPT TO:<${name}@example.net>\r\n`).join('');
  client.send(`MAIL FROM:<a@example.com>\r\n${rcpt}DATA\r\nX-A: 1\r\n\r\n.\r\nQUIT\r\n`);
  const answers = names.map((name) => (name.endsWith('7') ? suppressedReply(`${name}@example.net`) : recipientOk));
  expect(await client.untilEnd()).toBe(`${senderOk}${answers.join('')}${startData}${accepted}${bye}`);
  expect(most).toBe(1);
  expect(door.submissions[0]?.envelope.recipients).toHaveLength(1001 - 100);
});

const longRecipient = `x@${'a'.repeat(60)}.${'b'.repeat(60)}.${'c'.repeat(60)}.${'d'.repeat(60)}`;

test('a client that does not read its late replies is asked no more', async () => {
  let asked = 0;
  const door = await start({
    suppressed: async () => {
      asked += 1;
      await nextTurn();
      return true;
    },
  });
  const client = await greeted(door);
  client.pause();
  client.send('MAIL FROM:<a@example.com>\r\n');
  const commands = `RCPT TO:<${longRecipient}>\r\n`.repeat(60_000);
  client.send(commands);
  let before = -1;
  // The buffers of both sides take some megabytes; behind them it stops.
  await expect
    .poll(
      () => {
        const stands = asked === before && asked > 1000;
        before = asked;
        return stands;
      },
      { timeout: 15_000, interval: 400 },
    )
    .toBe(true);
  expect(asked).toBeLessThan(60_000);
  client.destroy();
  await expect.poll(() => door.door.counts().connections).toBe(0);
});

test('answers that are there at once, but as promises, do not keep other sessions waiting', async () => {
  let inTurn = 0;
  let most = 0;
  const door = await start({
    suppressed: () => {
      if (inTurn === 0) setImmediate(() => (inTurn = 0));
      inTurn += 1;
      most = Math.max(most, inTurn);
      return Promise.resolve(true);
    },
  });
  const client = await greeted(door);
  client.send(`MAIL FROM:<a@example.com>\r\n${'RCPT TO:<b@example.net>\r\n'.repeat(2000)}QUIT\r\n`);
  expect((await client.untilEnd()).match(/^550 /gm)).toHaveLength(2000);
  expect(most).toBeLessThanOrEqual(100);
});

test('replies go out while a packet full of commands is still being answered', async () => {
  let client: RawClient | undefined;
  let asked = 0;
  let receivedAtLast = 0;
  const door = await start({
    suppressed: () => {
      asked += 1;
      receivedAtLast = client?.received.length ?? 0;
      return Promise.resolve(true);
    },
  });
  client = await greeted(door);
  client.send(`MAIL FROM:<a@example.com>\r\n${'RCPT TO:<b@example.net>\r\n'.repeat(2000)}QUIT\r\n`);
  await client.untilEnd();
  expect(asked).toBe(2000);
  expect(receivedAtLast).toBeGreaterThan(16_384);
});

test('a token that is checked late: what is pipelined behind AUTH waits for it', async () => {
  const asked: Gate<Submitter | undefined> = gate();
  const door = await start({ accounts: { ...accounts, authenticateHash: (sha256) => asked.ask(sha256) } });
  const client = await greeted(door, 'plain');
  const auth = `AUTH PLAIN ${plainResponse('api_token', tokens.full)}\r\n`;
  const mail = 'MAIL FROM:<a@example.com>\r\n';
  client.send(`${auth}${mail}${auth}${mail}RSET\r\n${mail}${mail}`);
  const submitter = accounts.submitter('dev', 'default');
  for (const [index, answer] of [undefined, submitter, submitter, undefined].entries()) {
    await expect.poll(() => asked.asked).toHaveLength(index + 1);
    asked.give(answer);
  }
  const gone = '530 5.7.0 This token is no longer valid, authentication required\r\n';
  const all = `${wrongToken}${authRequired}${authenticated}${senderOk}${ok}${gone}${authRequired}`;
  expect(await client.until((received) => received.length >= all.length)).toBe(all);
});

test('a wrong token counts though its client has gone before that was known', async () => {
  const asked: Gate<Submitter | undefined> = gate();
  const door = await start({ accounts: { ...accounts, authenticateHash: (sha256) => asked.ask(sha256) } });
  const client = await greeted(door, 'plain');
  client.send(`AUTH PLAIN ${plainResponse('api_token', 'guess')}\r\n`);
  await expect.poll(() => asked.asked).toHaveLength(1);
  client.reset();
  await expect.poll(() => door.door.counts().connections).toBe(0);
  asked.give(undefined);
  await expect.poll(() => door.door.counts().authFailures).toBe(1);
});

test('many sessions at once, each with delays of its own, get the same as from stores that answer at once', async () => {
  const script = [
    'MAIL FROM:<a@example.com>',
    ...Array.from({ length: 20 }, (_, index) => `RCPT TO:<b${index % 15}@example.net>`),
    'NOOP',
    'RSET',
    'DATA',
    'MAIL FROM:<a@example.com>',
    'RCPT TO:<b7@example.net>',
    'RCPT TO:<b8@example.net>',
    'DATA',
    'X-A: 1',
    '',
    'RSET',
    '.',
    'QUIT',
    'NOOP',
  ].join('\r\n');
  const octets = Buffer.from(`${script}\r\n`);
  const choices: DoorChoices = { suppressed: (_account, recipient) => recipient.endsWith('7@example.net') };
  const transcript = async (door: RunningDoor, piece: number): Promise<string> => {
    const client = await greeted(door);
    const pieces = Array.from({ length: Math.ceil(octets.length / piece) }, (_, index) =>
      octets.subarray(index * piece, (index + 1) * piece),
    );
    await client.sendPieces(pieces);
    return (await client.untilEnd()).replace(/<\d+@/, '<@');
  };
  const expected = await transcript(await start(choices), octets.length);
  await running?.door.drain(0);
  let asked = 0;
  const door = await start(answeringLate(choices, () => (asked++ * 7) % 4));
  const pieces = [1, 2, 3, 7, 11, 13, 26, 27, 28, 100, 300, octets.length];
  const transcripts = await Promise.all(pieces.map((piece) => transcript(door, piece)));
  expect(transcripts).toEqual(pieces.map(() => expected));
  await expect.poll(() => door.door.counts().connections).toBe(0);
});

test('where the stores answer at once, so does every command: no promise is made', () => {
  const dialogue = new Dialogue(
    {
      hostname: 'mx.platform.example',
      listener: plainListener,
      limits,
      accounts,
      bodies: new BodyBudget(30_000_000),
      log: silentLog,
      suppressed: (_account, recipient) => recipient.startsWith('x'),
      rateLimit: () => undefined,
      guessing: new Guessing({}),
      onAuthFailure: () => undefined,
      onRefused: () => undefined,
    },
    { client: { sessionId: '1', address: '127.0.0.1', submitter: () => undefined }, secure: false },
  );
  const lines = [
    ['EHLO client.example', 250],
    [`AUTH PLAIN ${plainResponse('api_token', 'wrong')}`, 535],
    [`AUTH PLAIN ${plainResponse('api_token', tokens.full)}`, 235],
    ['MAIL FROM:<a@example.com>', 250],
    ['RCPT TO:<x@example.net>', 550],
    ['RCPT TO:<b@example.net>', 250],
    ['DATA', 354],
  ] as const;
  for (const [line, code] of lines) expect(dialogue.answer(Buffer.from(line)), line).toMatchObject({ code });
});

test('a drain waits for no answer of a store', async () => {
  const { door, client, suppression } = await withGate();
  client.send('RCPT TO:<b@example.net>\r\nRCPT TO:<c@example.net>\r\n');
  await expect.poll(() => suppression.asked).toHaveLength(1);
  await door.door.drain(60_000);
  expect(await client.untilEnd()).toBe(shuttingDown);
});
