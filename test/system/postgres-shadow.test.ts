// A shadow listener (D4f) of a gateway on PostgreSQL: copies are judged and written to events and journal, and never to the spool.

import { rmSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ask } from '../support/gateway-load.ts';
import { type PosternProcess, startPostern, testToken } from '../support/postern-process.ts';
import { type PostgresServer, startPostgres } from '../support/postgres.ts';
import { RawClient } from '../support/smtp-peers.ts';
import { requirePrograms } from './programs.ts';

const listener = {
  ...{ listen: '127.0.0.1:0', tls: 'none', trustedHop: true },
  ...{ credential: 'dev/box', allowFrom: ['127.0.0.1/32'] },
};
const config = {
  development: { account: 'dev', credential: 'box' },
  platform: { dkim: [{ selector: 'p1', algorithm: 'ed25519' }] },
  http: { listen: '127.0.0.1:0' },
  smtp: {
    listeners: [
      { ...listener, name: 'shadow', shadow: true },
      { ...listener, name: 'real' },
    ],
  },
  // Nobody listens there: what is in the spool stays in it.
  routes: [{ name: 'out', type: 'smarthost', url: 'smtp://127.0.0.1:1', tls: 'none' }],
  journal: { content: 'headers' },
  accounts: [
    {
      ...{ name: 'dev', id: 'a1'.repeat(16) },
      sendingDomains: [{ name: 'example.com', dkim: [{ selector: 's1', algorithm: 'ed25519' }] }],
      credentials: [{ name: 'box', scopes: ['email:send', 'email:events', 'console:read'] }],
    },
  ],
};

let server: PostgresServer;
let url: string;
let postern: PosternProcess;
beforeAll(async () => {
  requirePrograms('runuser', 'pg_ctlcluster');
  server = await startPostgres();
  url = await server.createSchema();
  postern = await startPostern({ config, env: { POSTERN_DATABASE_URL: url }, makesKeys: true });
}, 60_000);
afterAll(async () => {
  await postern?.end('SIGKILL');
  if (postern) rmSync(postern.folder, { recursive: true, force: true });
  await server?.remove();
});

async function hand(name: string, subject: string, ...more: readonly string[]): Promise<string> {
  const client = RawClient.open(postern.ports[name] ?? 0);
  try {
    await client.reply();
    await client.ask('EHLO old.example');
    await client.ask('MAIL FROM:<app@example.com>');
    await client.ask('RCPT TO:<a@partner.test>');
    await client.ask('DATA');
    const header = ['From: app@example.com', 'To: a@partner.test', `Subject: ${subject}`, ...more];
    client.send(`${header.join('\r\n')}\r\n\r\nHi\r\n.\r\n`);
    return await client.reply();
  } finally {
    client.destroy();
  }
}

interface Told {
  readonly kind?: string;
  readonly subject?: string;
  readonly outcome?: string;
  readonly codes?: readonly string[];
  readonly shadow?: boolean;
}

async function list(path: string): Promise<readonly Told[]> {
  const answer = await fetch(
    `http://127.0.0.1:${postern.ports['http']}/client/v4/accounts/dev/email/sending/${path}?per_page=50`,
    { headers: { Authorization: `Bearer ${testToken}` } },
  );
  return ((await answer.json()) as { readonly result: readonly Told[] }).result;
}

/** How many rows the spool's tables have. */
async function spooled(): Promise<unknown> {
  const [counts] = await ask(
    url,
    `SELECT (SELECT count(*)::int FROM spool_messages) AS messages, (SELECT count(*)::int FROM spool_recipients) AS recipients,
      (SELECT count(*)::int FROM mail_events WHERE kind = 'accepted') AS accepted`,
  );
  return counts;
}

test('copies are judged and told, and the spool has what was sent for real alone', { timeout: 60_000 }, async () => {
  expect(await hand('shadow', 'in order')).toMatch(/^250 2\.0\.0 Ok, judged/);
  expect(await hand('shadow', 'not in order', 'User-Agent: old/1')).toMatch(/^250 2\.0\.0 Ok, judged/);
  await expect.poll(async () => (await list('journal')).length, { timeout: 20_000 }).toBe(2);
  expect(await list('journal')).toMatchObject([
    { subject: 'not in order', shadow: true, outcome: 'refused', codes: ['E_HEADER_NOT_ALLOWED'] },
    { subject: 'in order', shadow: true, outcome: 'accepted', codes: [] },
  ]);
  expect((await list('events')).map(({ kind, shadow }) => [kind, shadow])).toEqual([
    ['shadowed', true],
    ['shadowed', true],
  ]);
  expect(await spooled()).toEqual({ messages: 0, recipients: 0, accepted: 0 });
  // The same message to the listener beside it is in the spool, so that these tables are where a copy would be.
  expect(await hand('real', 'for real')).toMatch(/^250 2\.0\.0 Ok </);
  await expect.poll(spooled, { timeout: 20_000 }).toEqual({ messages: 1, recipients: 1, accepted: 1 });
  await expect.poll(async () => (await list('journal')).length, { timeout: 20_000 }).toBe(3);
  expect((await list('journal')).map(({ shadow }) => shadow)).toEqual([false, true, true]);
});
