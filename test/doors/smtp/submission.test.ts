// What the door hands to the pipeline, and what it writes into the log.

import { Writable } from 'node:stream';
import { afterEach, expect, test } from 'vitest';
import { openLog } from '../../../src/base/log.ts';
import { refusalOf, type Submit } from '../../../src/pipeline/submit.ts';
import { logEvent } from '../../../src/spool/events/log-event.ts';
import { type RefusalFacts, refusedEvent } from '../../../src/spool/events/refusal.ts';
import {
  accounts,
  type DoorChoices,
  devAccount,
  deviceListener,
  plainListener,
  plainResponse,
  RawClient,
  type RunningDoor,
  startDoor,
  tokens,
} from '../../support/smtp-peers.ts';

let running: RunningDoor | undefined;
afterEach(async () => {
  await running?.door.drain(0);
  running = undefined;
});

interface LoggedDoor extends RunningDoor {
  readonly lines: () => readonly Record<string, unknown>[];
  readonly text: () => string;
}

async function start(choices: DoorChoices = {}): Promise<LoggedDoor> {
  let text = '';
  const stream = new Writable({
    write(chunk: Buffer, _encoding, done) {
      text += chunk.toString();
      done();
    },
  });
  const { log } = openLog('debug', stream);
  // As the gateway joins them: whoever refuses, door or pipeline, tells the one listener.
  const onRefused = (refusal: RefusalFacts): void => {
    logEvent(log, refusedEvent(refusal, Date.now()));
    choices.onRefused?.(refusal);
  };
  const pipeline = choices.submit;
  const submit: Submit | undefined =
    pipeline &&
    (async (submission) => {
      const result = await pipeline(submission);
      if (!result.accepted) onRefused(refusalOf(submission, result.violations));
      return result;
    });
  running = await startDoor({
    listeners: [plainListener, deviceListener],
    log,
    ...choices,
    onRefused,
    ...(submit ? { submit } : {}),
  });
  const lines = (): readonly Record<string, unknown>[] =>
    text
      .split('\n')
      .filter((line) => line !== '')
      .map((line): Record<string, unknown> => Object.assign({}, JSON.parse(line)));
  return { ...running, lines, text: () => text };
}

async function loggedIn(door: RunningDoor, token: string): Promise<RawClient> {
  const client = RawClient.open(door.port('plain'));
  await client.reply();
  await client.ask('EHLO client.example');
  expect(await client.ask(`AUTH PLAIN ${plainResponse('dev', token)}`)).toBe('235 2.7.0 Authentication successful\r\n');
  return client;
}

const envelope = 'MAIL FROM:<a@Example.com>\r\nRCPT TO:<B@Example.NET>\r\nRCPT TO:<c@bücher.example>\r\n';

test('a submission has the envelope, the fields in their order, the body and how it came', async () => {
  const door = await start();
  const client = await loggedIn(door, tokens.full);
  client.send(Buffer.from(envelope.replace('com>', 'com> SMTPUTF8')).toString('latin1'));
  client.send('DATA\r\nSubject: hi\r\nX-B: 2\r\nX-A:\r\n 1\r\n\r\n..x\r\n\r\ny\r\n.\r\n');
  await client.until((received) => received.includes('Ok <1@'));
  const submission = door.submissions[0];
  expect(submission).toMatchObject({
    via: {
      kind: 'smtp',
      helo: 'client.example',
      remoteAddress: '127.0.0.1',
      protocol: 'UTF8SMTPA',
      legacyCharset: 'windows-1252',
      trustedHop: false,
      lineEndings: 'fix',
    },
    envelope: {
      reversePath: 'a@example.com',
      recipients: ['B@example.net', 'c@xn--bcher-kva.example'],
      smtputf8: true,
      requireTls: false,
    },
    size: 42,
  });
  expect(submission?.via.sessionId).toMatch(/^[0-9a-f]{16}$/);
  expect(submission?.headerSectionTooLarge).toBeUndefined();
  expect(submission?.submitter.credential.name).toBe('default');
  expect(submission?.fields.map(({ name, rawBytes }) => [name, rawBytes.toString()])).toEqual([
    ['Subject', ' hi'],
    ['X-B', ' 2'],
    ['X-A', '\r\n 1'],
  ]);
  expect(submission?.body.kind === 'mime' && submission.body.bytes.toString()).toBe('.x\r\n\r\ny\r\n');
});

test('the credential decides where listener and credential differ', async () => {
  const door = await start({ listeners: [{ ...plainListener, trustedHop: true, lineEndings: 'reject' }] });
  const client = await loggedIn(door, tokens.cron);
  client.send('MAIL FROM:<root>\r\nRCPT TO:<admin>\r\nDATA\r\nX-A: 1\r\n\r\nx\r\n.\r\n');
  await client.until((received) => received.includes('Ok <1@'));
  expect(door.submissions[0]).toMatchObject({
    via: { legacyCharset: 'iso-8859-1', trustedHop: true, lineEndings: 'reject', protocol: 'ESMTPA' },
    envelope: { reversePath: 'root@example.com', recipients: ['admin@example.com'], smtputf8: false },
    submitter: { credential: { name: 'cron' } },
  });
});

test('a header section over the reader’s limit is said to be too large', async () => {
  const door = await start({ listeners: [deviceListener], limits: { messageBytes: 1_000_000 } });
  const client = RawClient.open(door.port('devices'));
  await client.reply();
  await client.ask('HELO client');
  client.send(`MAIL FROM:<>\r\nRCPT TO:<b@example.net>\r\nDATA\r\nX: ${'a'.repeat(262_144)}\r\n\r\nbody\r\n.\r\n`);
  await client.until((received) => received.includes('Ok <1@'));
  expect(door.submissions[0]).toMatchObject({ headerSectionTooLarge: true, fields: [], via: { protocol: 'SMTP' } });
  expect(door.submissions[0]?.size).toBe(262_144 + 3 + 4 + 6);
});

test('25 MiB pass whole', async () => {
  const door = await start({ listeners: [deviceListener], limits: { messageBytes: 26_214_400 } });
  const client = RawClient.open(door.port('devices'));
  await client.reply();
  await client.ask('EHLO client');
  const body = `${'0123456789'.repeat(7)}\r\n`.repeat(360_000);
  client.send(`MAIL FROM:<a@example.com>\r\nRCPT TO:<b@example.net>\r\nDATA\r\nX-A: 1\r\n\r\n${body}.\r\n`);
  await client.until((received) => received.includes('Ok <1@'));
  const taken = door.submissions[0]?.body;
  expect(taken?.kind === 'mime' && taken.bytes.equals(Buffer.from(body))).toBe(true);
});

test('AUTH failures are logged without the password, and an unknown user name not at all', async () => {
  const door = await start();
  const client = RawClient.open(door.port('plain'));
  await client.reply();
  await client.ask('EHLO client.example');
  await client.ask(`AUTH PLAIN ${plainResponse('dev', 'secret-one')}`);
  await client.ask(`AUTH PLAIN ${plainResponse(tokens.full, 'secret-two')}`);
  client.send(`AUTH PLAIN ${plainResponse('someone', tokens.full)}\r\n`);
  await client.untilEnd();
  const failures = door.lines().filter(({ msg }) => msg === 'authentication failed');
  expect(failures).toMatchObject([
    { user: 'dev', failures: 1, client: '127.0.0.1', helo: 'client.example', mechanism: 'PLAIN', listener: 'plain' },
    { user: '(unknown)', failures: 2 },
    { user: '(unknown)', failures: 3 },
  ]);
  expect(door.text()).not.toContain('secret');
  expect(door.text()).not.toContain(tokens.full);
  expect(door.text()).not.toContain(plainResponse('dev', 'secret-one'));
  expect(door.door.counts().authFailures).toBe(3);
});

test('a refused and a failed message have a line each, with codes and without content', async () => {
  const answers = [
    () =>
      Promise.resolve({
        accepted: false as const,
        violations: [
          { code: 'E_HEADER_NOT_ALLOWED' as const, name: 'Foo', message: 'Foo is not on the allowlist' },
          { code: 'E_HEADERS_TOO_MANY' as const, message: 'too many' },
        ],
      }),
    () => Promise.reject(new Error('the disk is full')),
  ];
  const door = await start({ submit: () => (answers.shift() ?? answers[0] ?? (() => Promise.reject()))() });
  const client = await loggedIn(door, tokens.full);
  const message = 'MAIL FROM:<a@example.com>\r\nRCPT TO:<b@example.net>\r\nDATA\r\nFoo: 1\r\n\r\nthe body\r\n.\r\n';
  client.send(message);
  await client.until((received) => received.includes('too many\r\n'));
  client.send(message);
  await client.until((received) => received.includes('451 4.3.0 '));
  const id = /451 4\.3\.0 Internal error, id ([0-9a-f]{16})\r\n/.exec(client.received)?.[1];
  const facts = {
    account: devAccount.name,
    credential: 'default',
    client: '127.0.0.1',
    helo: 'client.example',
    from: 'a@example.com',
    recipients: 1,
    size: 20,
  };
  const lines = door.lines();
  expect(lines.find(({ msg }) => msg === 'refused')).toMatchObject({
    ...facts,
    level: 'info',
    codes: ['E_HEADER_NOT_ALLOWED', 'E_HEADERS_TOO_MANY'],
  });
  expect(lines.find(({ msg }) => msg === 'failed')).toMatchObject({ ...facts, level: 'error', session: id });
  expect(door.text()).toContain('the disk is full');
  expect(client.received).not.toContain('disk');
  expect(door.text()).not.toContain('the body');
});

test('a store that fails while a command is answered is 451, and the session goes on', async () => {
  const broken = {
    ...accounts,
    authenticateHash: () => {
      throw new Error('database is locked');
    },
  };
  const door = await start({ accounts: broken });
  const client = RawClient.open(door.port('plain'));
  await client.reply();
  await client.ask('EHLO client.example');
  expect(await client.ask(`AUTH PLAIN ${plainResponse('dev', 'x')}`)).toMatch(
    /^451 4\.3\.0 Internal error, id [0-9a-f]{16}\r\n$/,
  );
  expect(await client.ask('NOOP')).toBe('250 2.0.0 Ok\r\n');
  expect(door.text()).toContain('database is locked');
});

test('a message refused before the pipeline sees it has one line and is counted: declared or found too large, a rate', async () => {
  const counted: string[] = [];
  const rates = [undefined, { code: 'E_RATE_LIMIT_EXCEEDED' as const, message: 'more than 1 message a minute' }];
  const door = await start({
    rateLimit: () => rates.shift(),
    onRefused: ({ violations }) => counted.push(...violations.map(({ code }) => code)),
  });
  const client = await loggedIn(door, tokens.full);
  expect(await client.ask('MAIL FROM:<a@example.com> SIZE=4097')).toMatch(/^552 5\.3\.4 /);
  client.send(`MAIL FROM:<a@example.com>\r\nRCPT TO:<b@example.net>\r\nDATA\r\n${'x'.repeat(5000)}\r\n.\r\n`);
  await client.until((received) => received.includes('552 5.3.4 The message is larger than the limit of 4096 octets'));
  client.send('MAIL FROM:<a@example.com>\r\nRCPT TO:<b@example.net>\r\nDATA\r\n');
  await client.until((received) => received.includes('451 4.7.0 E_RATE_LIMIT_EXCEEDED: more than 1 message a minute'));
  const lines = door.lines().filter(({ msg }) => msg === 'refused');
  const who = { account: 'dev', credential: 'default', client: '127.0.0.1', from: 'a@example.com' };
  expect(lines).toMatchObject([
    { ...who, codes: ['E_CONTENT_TOO_LARGE'], size: 4097 },
    { ...who, codes: ['E_CONTENT_TOO_LARGE'], size: 5002, recipients: 1 },
    { ...who, codes: ['E_RATE_LIMIT_EXCEEDED'], recipients: 1 },
  ]);
  expect(counted).toEqual(['E_CONTENT_TOO_LARGE', 'E_CONTENT_TOO_LARGE', 'E_RATE_LIMIT_EXCEEDED']);
});
