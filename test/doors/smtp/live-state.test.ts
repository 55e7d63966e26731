// What changes in the database while sessions are open: tokens and the suppression list (D51, D93, D94).

import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { createAccounts } from '../../../src/accounts/accounts.ts';
import { type NewToken, openTokenStore } from '../../../src/accounts/token-store.ts';
import { openSuppressionStore } from '../../../src/delivery/feedback/suppression-store.ts';
import { openTestDatabase } from '../../support/engines.ts';
import { logLines } from '../../support/log-lines.ts';
import { scratchFolder } from '../../support/scratch.ts';
import {
  devAccount,
  deviceListener,
  manualClock,
  plainListener,
  plainResponse,
  RawClient,
  type RunningDoor,
  startDoor,
} from '../../support/smtp-peers.ts';

const running: RunningDoor[] = [];
afterEach(async () => {
  for (const { door } of running.splice(0)) await door.drain(1000);
});

/** A door on a real database, another connection to the same, and a clock that stands still. */
async function start() {
  const file = join(scratchFolder(), 'postern.db');
  const clock = manualClock();
  const store = await openTokenStore(await openTestDatabase(file));
  const accounts = createAccounts({ accounts: [devAccount], tokens: [], store, clock });
  const suppressions = await openSuppressionStore(await openTestDatabase(file), clock);
  const { log, lines } = logLines();
  const door = await startDoor({
    listeners: [plainListener, deviceListener],
    accounts,
    clock,
    log,
    suppressed: (account, recipient) => suppressions.isSuppressed(account.id, recipient),
  });
  running.push(door);
  const beside = await openTokenStore(await openTestDatabase(file));
  const make = (more: Partial<NewToken> = {}) =>
    beside.create({ account: devAccount.id, credential: 'default', createdAt: clock.now(), ...more });
  return {
    door,
    clock,
    lines,
    beside,
    database: await openTestDatabase(file),
    make,
    elsewhere: await openSuppressionStore(await openTestDatabase(file), clock),
  };
}

async function hello(port: number): Promise<RawClient> {
  const client = RawClient.open(port);
  await client.reply();
  await client.ask('EHLO client.example');
  return client;
}

const gone = '530 5.7.0 This token is no longer valid, authentication required\r\n';

test('a token revoked beside the session stops working at its next MAIL', async () => {
  const { door, make, beside, clock, lines } = await start();
  const { token, record } = await make();
  const client = await hello(door.port('plain'));
  expect(await client.ask(`AUTH PLAIN ${plainResponse('dev', token)}`)).toMatch(/^235 /);
  expect(await client.ask('MAIL FROM:<a@example.com>')).toMatch(/^250 /);
  await beside.revoke({ id: record.id, now: clock.now() });
  // The transaction that was open may be finished.
  expect(await client.ask('RCPT TO:<b@example.net>')).toMatch(/^250 /);
  expect(await client.ask('RSET')).toMatch(/^250 /);
  expect(await client.ask('MAIL FROM:<a@example.com>')).toBe(gone);
  expect(await client.ask('MAIL FROM:<a@example.com>')).toBe('530 5.7.0 Authentication required\r\n');
  expect(await client.ask('DATA')).toBe('530 5.7.0 Authentication required\r\n');
  expect(lines.find(({ msg }) => msg === 'token no longer valid')).toMatchObject({
    account: 'dev',
    credential: 'default',
    listener: 'plain',
  });
  expect(JSON.stringify(lines)).not.toContain(token);
  // Another token lets the session go on.
  expect(await client.ask(`AUTH PLAIN ${plainResponse('dev', token)}`)).toMatch(/^535 /);
  expect(await client.ask(`AUTH PLAIN ${plainResponse('dev', (await make()).token)}`)).toMatch(/^235 /);
  expect(await client.ask('MAIL FROM:<a@example.com>')).toMatch(/^250 /);
});

test('so does one that expires', async () => {
  const { door, make, clock } = await start();
  const { token } = await make({ expiresAt: clock.now() + 2000 });
  const client = await hello(door.port('plain'));
  expect(await client.ask(`AUTH PLAIN ${plainResponse('dev', token)}`)).toMatch(/^235 /);
  clock.pass(1.999);
  expect(await client.ask('MAIL FROM:<a@example.com>')).toMatch(/^250 /);
  await client.ask('RSET');
  clock.pass(0.001);
  expect(await client.ask('MAIL FROM:<a@example.com>')).toBe(gone);
});

test('so does one that may send no more', async () => {
  const { door, make, database } = await start();
  const { token } = await make({ scopes: ['email:send'] });
  const client = await hello(door.port('plain'));
  expect(await client.ask(`AUTH PLAIN ${plainResponse('dev', token)}`)).toMatch(/^235 /);
  expect(await client.ask('MAIL FROM:<a@example.com>')).toMatch(/^250 /);
  await client.ask('RSET');
  await database.run("UPDATE tokens SET scopes = 'email:suppressions'");
  expect(await client.ask('MAIL FROM:<a@example.com>')).toBe(gone);
});

test('a token narrowed to other scopes does not open the door', async () => {
  const { door, make } = await start();
  const client = await hello(door.port('plain'));
  const { token } = await make({ scopes: ['email:suppressions'] });
  expect(await client.ask(`AUTH PLAIN ${plainResponse('dev', token)}`)).toBe(
    '535 5.7.8 This token lacks the scope email:send\r\n',
  );
});

test('a device without AUTH has no token to lose', async () => {
  const { door } = await start();
  const client = await hello(door.port('devices'));
  expect(await client.ask('MAIL FROM:<a@example.com>')).toMatch(/^250 /);
});

test('a suppressed recipient is refused at RCPT in any spelling, the others are taken', async () => {
  const { door, clock, elsewhere } = await start();
  const client = await hello(door.port('devices'));
  await client.ask('MAIL FROM:<a@example.com> SMTPUTF8');
  expect(await client.ask('RCPT TO:<first@xn--bcher-kva.example>')).toMatch(/^250 /);
  const entry = await elsewhere.add({ account: devAccount.id, address: 'gone@bücher.example', reason: 'hard_bounce' });
  clock.pass(0.999);
  for (const spelling of ['gone@xn--bcher-kva.example', 'GONE@XN--bcher-kva.EXAMPLE', '"Gone"@xn--bcher-kva.example']) {
    expect(await client.ask(`RCPT TO:<${spelling}>`), spelling).toMatch(
      /^550 5\.7\.1 E_RECIPIENT_SUPPRESSED: "?gone"?@xn--bcher-kva\.example is on the suppression list\r\n$/i,
    );
  }
  expect(await client.ask('RCPT TO:<gone@example.net>')).toMatch(/^250 /);
  await elsewhere.remove(devAccount.id, entry.id);
  expect(await client.ask('RCPT TO:<gone@xn--bcher-kva.example>')).toMatch(/^250 /);
  expect(await client.ask('DATA')).toMatch(/^354 /);
  client.send('From: a@example.com\r\n\r\nHi.\r\n.\r\n');
  expect(await client.reply()).toMatch(/^250 /);
  expect(door.submissions[0]?.envelope.recipients).toEqual([
    'first@xn--bcher-kva.example',
    'gone@example.net',
    'gone@xn--bcher-kva.example',
  ]);
});
