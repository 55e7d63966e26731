// TLS over real sockets: STARTTLS, implicit TLS, what is forgotten and what is never run.

import { connect as connectTls } from 'node:tls';
import { afterEach, expect, test } from 'vitest';
import type { SmtpListener } from '../../../src/doors/smtp/settings.ts';
import {
  type DoorChoices,
  deviceListener,
  plainListener,
  plainResponse,
  RawClient,
  type RunningDoor,
  startDoor,
  tokens,
} from '../../support/smtp-peers.ts';

const starttls: SmtpListener = { ...plainListener, name: 'submission', tls: 'starttls', allowInsecureAuth: false };
const implicit: SmtpListener = { ...starttls, name: 'submissions', tls: 'implicit' };
const login = `AUTH PLAIN ${plainResponse('api_token', tokens.full)}`;

let running: RunningDoor | undefined;
afterEach(async () => {
  await running?.door.drain(0);
  running = undefined;
});

async function start(choices: DoorChoices = {}): Promise<RunningDoor> {
  running = await startDoor({ listeners: [starttls, implicit], ...choices });
  return running;
}

async function secured(door: RunningDoor): Promise<RawClient> {
  const client = RawClient.open(door.port('submission'));
  await client.reply();
  await client.ask('EHLO client.example');
  expect(await client.ask('STARTTLS')).toBe('220 2.0.0 Ready to start TLS\r\n');
  await client.startTls();
  return client;
}

async function sendMessage(client: RawClient, mail = 'MAIL FROM:<a@example.com>'): Promise<string> {
  expect(await client.ask(mail)).toBe('250 2.1.0 Ok\r\n');
  expect(await client.ask('RCPT TO:<b@example.net>')).toBe('250 2.1.5 Ok\r\n');
  await client.ask('DATA');
  return await client.ask('X-A: 1\r\n\r\nhello\r\n.');
}

const underTls =
  '250-mx.platform.example\r\n250-PIPELINING\r\n250-SIZE 4096\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n' +
  '250-ENHANCEDSTATUSCODES\r\n250-DSN\r\n250-AUTH PLAIN LOGIN\r\n250 REQUIRETLS\r\n';

test('STARTTLS, AUTH, a message', async () => {
  const door = await start();
  const client = await secured(door);
  expect(await client.ask('EHLO client.example')).toBe(underTls);
  expect(await client.ask('STARTTLS')).toBe('503 5.5.1 TLS is already active\r\n');
  expect(await client.ask('MAIL FROM:<a@example.com>')).toBe('530 5.7.0 Authentication required\r\n');
  expect(await client.ask(login)).toBe('235 2.7.0 Authentication successful\r\n');
  expect(await sendMessage(client)).toBe('250 2.0.0 Ok <1@platform.example>\r\n');
  expect(door.submissions[0]?.via.protocol).toBe('ESMTPSA');
  client.destroy();
});

test('implicit TLS', async () => {
  const door = await start();
  const client = RawClient.openTls(door.port('submissions'));
  expect(await client.reply()).toBe('220 mx.platform.example ESMTP Postern\r\n');
  expect(await client.ask('EHLO client.example')).toBe(underTls);
  expect(await client.ask(login)).toBe('235 2.7.0 Authentication successful\r\n');
  expect(await sendMessage(client, 'MAIL FROM:<a@example.com> SMTPUTF8 REQUIRETLS')).toBe(
    '250 2.0.0 Ok <1@platform.example>\r\n',
  );
  expect(door.submissions[0]).toMatchObject({
    via: { protocol: 'UTF8SMTPSA' },
    envelope: { smtputf8: true, requireTls: true },
  });
  client.destroy();
});

test('a device under TLS is not said to have authenticated', async () => {
  const door = await start({ listeners: [{ ...deviceListener, tls: 'implicit' }] });
  const client = RawClient.openTls(door.port('devices'));
  await client.reply();
  expect(await client.ask('EHLO client.example')).not.toContain('AUTH');
  await sendMessage(client);
  expect(door.submissions[0]?.via.protocol).toBe('ESMTPS');
  client.destroy();
});

test('a device listener with STARTTLS wants it first', async () => {
  const door = await start({ listeners: [{ ...deviceListener, name: 'submission', tls: 'starttls' }] });
  const client = RawClient.open(door.port('submission'));
  await client.reply();
  await client.ask('EHLO client.example');
  expect(await client.ask('MAIL FROM:<a@example.com>')).toBe('530 5.7.0 Must issue STARTTLS first\r\n');
  await client.ask('STARTTLS');
  await client.startTls();
  await client.ask('EHLO client.example');
  expect(await client.ask('MAIL FROM:<a@example.com>')).toBe('250 2.1.0 Ok\r\n');
  client.destroy();
});

test('commands behind STARTTLS in one write are never run (injection)', async () => {
  const door = await start({ listeners: [{ ...starttls, allowInsecureAuth: true }] });
  for (const behind of [
    'NOOP\r\n',
    `EHLO evil\r\n${login}\r\nMAIL FROM:<a@example.com>\r\n`,
    'NOOP\r\n'.repeat(5000),
    'NO',
  ]) {
    const client = RawClient.open(door.port('submission'));
    await client.reply();
    await client.ask('EHLO client.example');
    client.send(`STARTTLS\r\n${behind}`);
    expect(await client.reply()).toBe('220 2.0.0 Ready to start TLS\r\n');
    const upgraded = client.startTls().then(
      () => true,
      () => false,
    );
    // What was left in the socket may break the handshake; what was read by us is dropped.
    if (await upgraded) {
      expect(await client.ask('RCPT TO:<b@example.net>')).toMatch(/^530 5\.7\.0 /);
      expect(client.received).toBe('');
    }
    client.destroy();
  }
  expect(door.submissions).toEqual([]);
});

test('everything said before TLS is forgotten', async () => {
  const door = await start({ listeners: [{ ...starttls, allowInsecureAuth: true }] });
  const client = RawClient.open(door.port('submission'));
  await client.reply();
  await client.ask('EHLO client.example');
  expect(await client.ask(login)).toBe('235 2.7.0 Authentication successful\r\n');
  expect(await client.ask('MAIL FROM:<a@example.com>')).toBe('250 2.1.0 Ok\r\n');
  await client.ask('STARTTLS');
  await client.startTls();
  expect(await client.ask('RCPT TO:<b@example.net>')).toBe('530 5.7.0 Authentication required\r\n');
  expect(await client.ask(login)).toBe('503 5.5.1 Send EHLO first\r\n');
  client.destroy();
});

test('a failed handshake ends the connection and frees its place', async () => {
  const door = await start({ limits: { connectionsPerAddress: 1 } });
  for (const name of ['submission', 'submissions']) {
    const client = RawClient.open(door.port(name));
    if (name === 'submission') {
      await client.reply();
      await client.ask('EHLO client.example');
      await client.ask('STARTTLS');
    }
    client.send('this is no TLS record\r\n');
    await client.untilEnd();
    await expect.poll(() => door.door.counts().connections).toBe(0);
  }
});

test.each(['closes', 'closes its side'])(
  'a client that %s at any point under TLS leaves nothing behind',
  async (how) => {
    const door = await start();
    const clients = [
      // Right behind the handshake, as the server sees it perhaps inside.
      await secured(door),
      RawClient.openTls(door.port('submissions')),
      await secured(door),
      RawClient.openTls(door.port('submissions')),
    ];
    await clients[2]?.ask('EHLO client.example');
    await clients[3]?.reply();
    for (const client of clients) {
      if (how === 'closes') client.destroy();
      else client.halfClose();
    }
    await expect.poll(() => door.door.counts().connections).toBe(0);
  },
);

test('a client that closes its side under TLS gets every reply', async () => {
  const door = await start({ listeners: [{ ...deviceListener, tls: 'implicit' }] });
  const client = RawClient.openTls(door.port('devices'));
  await client.reply();
  client.send('EHLO c\r\nMAIL FROM:<a@example.com>\r\nRCPT TO:<b@example.net>\r\nDATA\r\nX-A: 1\r\n\r\nx\r\n.\r\n');
  client.halfClose();
  expect(await client.untilEnd()).toContain('250 2.0.0 Ok <1@platform.example>\r\n');
});

test('TLS 1.1 is not spoken', async () => {
  const door = await start();
  const outcome = await new Promise<string>((resolve) => {
    const socket = connectTls(
      {
        port: door.port('submissions'),
        host: '127.0.0.1',
        rejectUnauthorized: false,
        minVersion: 'TLSv1',
        maxVersion: 'TLSv1.1',
        ciphers: 'DEFAULT@SECLEVEL=0',
      },
      () => resolve('connected'),
    );
    socket.on('error', (error: Error) => resolve(error.message));
  });
  expect(outcome).toContain('protocol version');
});
