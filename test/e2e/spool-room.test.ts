// The spool takes no mail: no room, an account over its share, a database that is gone. The doors put mail off, /readyz says so.

import { copyFileSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { captureRoute, deviceConfiguration } from '../support/device-config.ts';
import { freePort } from '../support/free-port.ts';
import { type PosternHere, startHere } from '../support/postern-here.ts';
import { type PosternProcess, type RunningPostern, startPostern, testToken } from '../support/postern-process.ts';
import { connectSmtp, type RawReply } from '../support/raw-smtp-client.ts';
import { isOnPostgres } from '../support/store.ts';

let postern: RunningPostern | undefined;
afterEach(() => postern?.cleanUp());

function configWith(spool: object, route: object): object {
  const config = deviceConfiguration({ routes: [route], spool }) as { accounts: { credentials: object[] }[] };
  const credential = { name: 'devices', tokenEnv: 'POSTERN_TOKEN', scopes: ['email:send'] };
  config.accounts[0]?.credentials.splice(0, 1, credential);
  return config;
}

async function start(spool: object, route: object = captureRoute, folder?: string): Promise<PosternProcess> {
  const started = await startPostern({ config: configWith(spool, route), ...(folder === undefined ? {} : { folder }) });
  postern = started;
  return started;
}

/** In the test's process: where the test itself opens no file of the database, which would end that process's locks of it. */
async function startInside(spool: object, route: object = captureRoute): Promise<PosternHere> {
  const started = await startHere({ config: configWith(spool, route) });
  postern = started;
  return started;
}

/** The reply to DATA, or to the message where DATA was taken. */
async function send({ ports }: RunningPostern, text = 'Hello.'): Promise<RawReply> {
  const client = await connectSmtp(ports['devices'] ?? 0);
  await client.reply();
  await client.command('EHLO test.example');
  await client.command('MAIL FROM:<a@example.com>');
  await client.command('RCPT TO:<b@example.net>');
  let reply = await client.command('DATA');
  if (reply.code === 354) reply = await client.command(`From: a@example.com\r\nSubject: room\r\n\r\n${text}\r\n.`);
  client.close();
  return reply;
}

function get({ ports }: RunningPostern, path: string): Promise<Response> {
  return fetch(`http://127.0.0.1:${ports['http']}${path}`);
}

function sendByRest({ ports }: RunningPostern): Promise<Response> {
  return fetch(`http://127.0.0.1:${ports['http']}/client/v4/accounts/dev/email/sending/send`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${testToken}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ from: 'a@example.com', to: 'b@example.net', subject: 'room', text: 'Hello.' }),
  });
}

const noRoom = { success: false, errors: [{ code: 10003, message: expect.stringMatching(/^E_NO_ROOM: /) }] };

async function untilReady(running: RunningPostern, status: number): Promise<void> {
  await expect.poll(async () => (await get(running, '/readyz')).status, { timeout: 5000 }).toBe(status);
}

// How much room the disk of a server of PostgreSQL has is not known.
test.skipIf(isOnPostgres)(
  'with less room than minFreeBytes mail is put off, and /readyz and /metrics say so',
  async () => {
    const running = await startInside({ minFreeBytes: 2 ** 50 });
    expect(await send(running)).toMatchObject({ code: 452, lines: [expect.stringContaining('452 4.3.1 ')] });
    const refused = await sendByRest(running);
    expect(refused.status).toBe(503);
    expect(refused.headers.get('retry-after')).toBe('30');
    expect(await refused.json()).toMatchObject(noRoom);
    expect((await get(running, '/readyz')).status).toBe(503);
    expect((await get(running, '/livez')).status).toBe(200);
    expect(await (await get(running, '/metrics')).text()).toMatch(/^postern_spool_takes_mail 0$/m);
    const line = running.log().find(({ msg }) => msg === 'the spool takes no mail');
    expect(line?.['reason']).toMatch(/octets free, less than minFreeBytes/);
  },
);

test.for([
  [{ queuedMessages: 2 }, 'Account dev has 2 messages queued, and spool.account.queuedMessages is 2: '],
  [
    { queuedBytes: 4500 },
    /^Account dev has \d+ octets of messages queued, and spool\.account\.queuedBytes is 4500; this message has \d+: /,
  ],
] as const)(
  'an account over its share of the queue is put off and hears which limit that is: %j',
  async ([account, said]) => {
    const url = `smtp://127.0.0.1:${await freePort()}`;
    const running = await startInside(
      { minFreeBytes: 0, account },
      { name: 'dead', type: 'smarthost', url, tls: 'none' },
    );
    expect([(await send(running)).code, (await send(running)).code]).toEqual([250, 250]);
    const put = await send(running);
    const words = put.lines.join(' ').replace(/^452 4\.3\.1 /, '');
    expect([put.code, words]).toEqual([452, expect.stringMatching(said)]);
    expect(words).toMatch(/: try again when some have left the queue, or have the operator raise the limit$/);
    const refused = await sendByRest(running);
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '30']);
    expect(await refused.json()).toMatchObject({
      errors: [{ code: 10003, message: expect.stringMatching(/^E_NO_ROOM: Account dev has \d+ .+ raise the limit$/) }],
    });
    // The others may still send: the spool itself is well.
    expect((await get(running, '/readyz')).status).toBe(200);
  },
);

// SQLite's file is moved here; for PostgreSQL a server that is gone is its like (test/system/postgres-gateway.test.ts).
test.skipIf(isOnPostgres)(
  'a database that was moved away or replaced is noticed, and the message that hit it is not accepted',
  async () => {
    const running = await start({ minFreeBytes: 0 });
    expect((await send(running)).code).toBe(250);
    const [file, aside] = [join(running.dataDir, 'postern.db'), join(running.dataDir, 'aside.db')];
    renameSync(file, aside);
    expect((await send(running)).code).toBe(451);
    await untilReady(running, 503);
    const refused = await sendByRest(running);
    expect([refused.status, await refused.json()]).toMatchObject([503, { errors: [{ code: 10002 }] }]);
    await running.until(() => running.log().find(({ msg }) => msg === 'the spool takes no mail'));

    copyFileSync(aside, file);
    await new Promise((wait) => setTimeout(wait, 1500));
    expect((await send(running)).code).toBe(451);
    rmSync(file);
    renameSync(aside, file);
    await untilReady(running, 200);
    expect((await send(running)).code).toBe(250);
  },
);

// A process that is killed leaves the log behind for the next one to read; where its path has gone, nobody can.
test.skipIf(isOnPostgres)(
  'a write-ahead log that was removed puts mail off, and what was accepted into it survives a kill',
  async () => {
    const route = { name: 'dead', type: 'smarthost', url: `smtp://127.0.0.1:${await freePort()}`, tls: 'none' };
    const running = await start({ minFreeBytes: 0 }, route);
    expect((await send(running)).code).toBe(250);
    rmSync(join(running.dataDir, 'postern.db-wal'));
    expect((await send(running)).code).toBe(451);
    await untilReady(running, 503);
    const line = await running.until(() => running.log().find(({ msg }) => msg === 'the spool takes no mail'));
    expect(line['reason']).toMatch(/postern\.db-wal" of the database was removed or replaced .* restart Postern$/);

    await running.end('SIGKILL');
    const next = await start({ minFreeBytes: 0 }, route, running.folder);
    await untilReady(next, 200);
    // The second was answered 451, and may have been kept all the same.
    expect(await (await get(next, '/metrics')).text()).toMatch(/^postern_spool_queued [12]$/m);
    expect((await send(next)).code).toBe(250);
  },
);

test.skipIf(isOnPostgres)(
  'a folder of bodies that was removed is made again for the next large message, one that cannot be made puts it off',
  async () => {
    const route = { name: 'dead', type: 'smarthost', url: `smtp://127.0.0.1:${await freePort()}`, tls: 'none' };
    const running = await startInside({ minFreeBytes: 0 }, route);
    const large = `${'x'.repeat(78)}\r\n`.repeat(5000);
    const bodies = join(running.dataDir, 'bodies');
    expect((await send(running, large)).code).toBe(250);
    expect(readdirSync(bodies)).toHaveLength(1);
    rmSync(bodies, { recursive: true });
    expect((await send(running, large)).code).toBe(250);
    expect(readdirSync(bodies)).toHaveLength(1);

    rmSync(bodies, { recursive: true });
    writeFileSync(bodies, 'no folder');
    expect(await send(running, large)).toMatchObject({ code: 451, lines: [expect.stringContaining('cannot be kept')] });
    expect((await send(running)).code).toBe(250);
  },
);
