// Another program holds the write lock on the database: who needs it is put off, everybody else is served.

import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { captureRoute, deviceConfiguration } from '../support/device-config.ts';
import { holdLock, type LockHolder } from '../support/lock-holder.ts';
import { type PosternProcess, startPostern, testToken } from '../support/postern-process.ts';
import { connectSmtp, type RawSmtpClient } from '../support/raw-smtp-client.ts';
import { isOnPostgres } from '../support/store.ts';

let postern: PosternProcess | undefined;
let holder: LockHolder | undefined;

afterEach(async () => {
  await holder?.release();
  await postern?.cleanUp();
});

const message = 'From: a@example.com\r\nSubject: lock\r\n\r\nHello.\r\n.\r\n';

async function envelope(client: RawSmtpClient): Promise<void> {
  await client.command('MAIL FROM:<a@example.com>');
  await client.command('RCPT TO:<b@example.net>');
  expect((await client.command('DATA')).code).toBe(354);
}

function listed(port: number): Promise<Response> {
  return fetch(`http://127.0.0.1:${port}/client/v4/accounts/dev/email/sending/suppressions`, {
    headers: { Authorization: `Bearer ${testToken}` },
  });
}

function suppress(port: number): Promise<Response> {
  return fetch(`http://127.0.0.1:${port}/client/v4/accounts/dev/email/sending/suppressions`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${testToken}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ address: 'gone@example.net' }),
  });
}

// The lock is that of SQLite's file. In PostgreSQL no program holds the whole database.
test.skipIf(isOnPostgres)(
  'a lock held by another process puts mail and changes off and stops nothing else',
  async () => {
    const config = deviceConfiguration({ routes: [captureRoute] }) as { accounts: { credentials: object[] }[] };
    config.accounts[0]?.credentials.splice(0, 1, {
      name: 'devices',
      tokenEnv: 'POSTERN_TOKEN',
      scopes: ['email:send', 'email:suppressions'],
    });
    postern = await startPostern({ config });
    const { http = 0, devices = 0 } = postern.ports;
    const client = await connectSmtp(devices);
    await client.reply();
    await client.command('EHLO test.example');
    await envelope(client);
    holder = await holdLock(join(postern.dataDir, 'postern.db'));

    const order: string[] = [];
    client.write(message);
    const answered = client.reply().then((reply) => {
      order.push('451');
      return reply;
    });
    // A change waits for the lock, and nobody waits behind it: neither who asks the same tables, nor another session.
    const waiting = suppress(http).then((answer) => {
      order.push('503');
      return answer;
    });
    // At once: the spool's thread gives up its own wait after five seconds, and then DATA is answered 451 everywhere.
    const another = await connectSmtp(devices);
    const asking = Array.from({ length: 20 }, async () => (await listed(http)).status);
    await another.reply();
    await another.command('EHLO test.example');
    await envelope(another);
    another.close();
    expect(new Set(await Promise.all(asking))).toEqual(new Set([200]));
    order.push('others');
    const refused = await waiting;
    expect(refused.status).toBe(503);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(await refused.json()).toMatchObject({ success: false, errors: [{ code: 10002 }] });
    // The spool's thread waits for the lock with the message; what only reads does not wait behind it.
    const metrics = await (await fetch(`http://127.0.0.1:${http}/metrics`)).text();
    order.push('metrics');
    expect(metrics).toMatch(/^postern_spool_queued 0$/m);
    expect(await answered).toMatchObject({ code: 451, lines: [expect.stringContaining('451 4.3.0 ')] });
    expect(order).toEqual(['others', '503', 'metrics', '451']);
    expect(holder.isHolding()).toBe(true);

    await holder.release();
    // It is looked at once a second whether mail can be kept again.
    await expect
      .poll(async () => (await fetch(`http://127.0.0.1:${http}/readyz`)).status, { timeout: 10_000 })
      .toBe(200);
    await envelope(client);
    client.write(message);
    expect((await client.reply()).code).toBe(250);
    expect((await suppress(http)).status).toBe(200);
    client.close();
  },
);
