// With `journal.content: none` nothing of a message itself is kept once it has left or was refused: not in the journal, not in the
// events, not in an index, and not in what the database has written beside.

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { createTransport } from 'nodemailer';
import pg from 'pg';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { parse } from 'yaml';
import { type PosternProcess, projectRoot, startPostern, testToken } from '../support/postern-process.ts';
import { type PostgresServer, startPostgres } from '../support/postgres.ts';
import { requirePrograms } from './programs.ts';

let server: PostgresServer;
beforeAll(async () => {
  requirePrograms('runuser', 'pg_ctlcluster');
  server = await startPostgres();
});
afterAll(() => server?.remove());

/** Stands wherever nothing is kept, and where something is by decision D53a. */
const [secret, fact] = ['zqxsecretq', 'zqxfactq'];

const head = 'From: shop@example.com\r\nTo: a@partner.test\r\n';
const refused = [
  `${head}Subject: ${secret}\r\nUser-Agent: ${fact}\r\n\r\n${secret}\r\n`,
  `From: ${secret} <<>\r\nTo: a@partner.test\r\n\r\n${secret}\r\n`,
  `From: ${secret} "${secret}" <${secret}>\r\nTo: a@partner.test\r\n\r\n${secret}\r\n`,
  // The empty line is missing, so that text stands where a header would.
  `${head}Subject: x\r\n${secret} says\r\nDear ${secret}: hello\r\n${secret}"${secret}\r\n${secret}\r\n`,
  `${head}Subject: ${secret}\r\nSubject: ${secret}\r\n\r\nb\r\n`,
  `${head}List-Unsubscribe: <ftp:${secret}>, "${secret}"; got "${secret}"\r\nList-Unsubscribe-Post: ${secret}\r\n\r\nb\r\n`,
  `${head}Precedence: ${secret}\r\nAuto-Submitted: "${secret}\r\nSensitivity: ${secret}\r\nX-${fact}: \x01${secret}\r\n\r\nb\r\n`,
];
const accepted = `From: ${secret} <shop@example.com>\r\nTo: ${secret} <a@partner.test>\r\nSubject: ${secret}\r\nX-A: ${secret}\r\nX-Mailer: ${fact}\r\n\r\n${secret}\r\n`;
const requests = [
  { subject: secret, text: secret, headers: { Bcc: secret, 'X-A': secret }, to: `${secret} <<` },
  { subject: secret, text: secret, html: 7, reply_to: secret, headers: { 'List-Unsubscribe': secret } },
  { subject: secret, text: secret, headers: { 'In-Reply-To': secret, Precedence: secret } },
];

async function submit(running: PosternProcess, raw: string): Promise<string> {
  const transport = createTransport({
    ...{ host: '127.0.0.1', port: running.ports['submission'] ?? 0, requireTLS: true, name: 'client.example' },
    ...{ tls: { rejectUnauthorized: false }, auth: { user: 'api_token', pass: testToken } },
  });
  const envelope = { from: 'shop@example.com', to: ['a@partner.test'] };
  return await transport.sendMail({ envelope, raw }).then(({ response }) => response, String);
}

/** Everything that tables hold, octets as Latin-1. */
type Tables = (like: RegExp) => Promise<string>;

function sqliteTables(file: string): Tables {
  return async (like) => {
    const database = new DatabaseSync(file, { readOnly: true, timeout: 5000 });
    const names = database.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all();
    let text = '';
    for (const { name } of names.filter((row) => like.test(String(row['name'])))) {
      const rows = database.prepare(`SELECT * FROM "${String(name)}"`);
      rows.setReadBigInts(true);
      for (const value of rows.all().flatMap((row) => Object.values(row)))
        text += value instanceof Uint8Array ? Buffer.from(value).toString('latin1') : `${String(value)}\n`;
    }
    database.close();
    return await Promise.resolve(text);
  };
}

function postgresTables(url: string): Tables {
  return async (like) => {
    const client = new pg.Client(url);
    await client.connect();
    const { rows: names } = await client.query<{ name: string }>(
      "SELECT relname AS name FROM pg_class WHERE relnamespace = to_regnamespace(current_schema()) AND relkind IN ('r', 'p')",
    );
    let text = '';
    for (const { name } of names.filter((row) => like.test(row.name))) {
      const { rows } = await client.query<{ row: string }>(`SELECT t::text AS row FROM "${name}" t`);
      for (const { row } of rows) {
        const octets = [...row.matchAll(/\\x([\da-f]+)/g)].map(([, hex = '']) =>
          Buffer.from(hex, 'hex').toString('latin1'),
        );
        text += `${row}\n${octets.join('\n')}\n`;
      }
    }
    await client.end();
    return text;
  };
}

async function start(env: Record<string, string>): Promise<PosternProcess> {
  const shipped = parse(readFileSync(join(projectRoot, 'config/postern.yaml'), 'utf8')) as object;
  const running = await startPostern({
    config: {
      ...shipped,
      journal: { content: 'none' },
      smtp: {
        hostname: 'mx.platform.example',
        listeners: [{ name: 'submission', listen: '127.0.0.1:0', tls: 'starttls' }],
      },
      http: { listen: '127.0.0.1:0', tlsListen: '' },
    },
    env,
  });
  onTestFinished(() => running.cleanUp());
  return running;
}

test.each(['SQLite', 'PostgreSQL'])('nothing of a message is kept: %s', { timeout: 60_000 }, async (engine) => {
  const url = engine === 'SQLite' ? undefined : await server.createSchema();
  const running = await start(url === undefined ? {} : { POSTERN_DATABASE_URL: url });
  const file = join(running.dataDir, 'postern.db');
  const tables = url === undefined ? sqliteTables(file) : postgresTables(url);
  const replies = await Promise.all(refused.map((raw) => submit(running, raw)));
  // The client is told what it has sent; only what is kept is without it.
  expect(replies.filter((reply) => reply.includes(' 55') && reply.includes(`got "${secret}`)).length).toBeGreaterThan(
    2,
  );
  for (const request of requests) {
    const answer = await fetch(`http://127.0.0.1:${running.ports['http']}/client/v4/accounts/dev/email/sending/send`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${testToken}`, 'Content-Type': 'application/json' },
      body: JSON.stringify({ from: 'shop@example.com', to: 'b@partner.test', ...request }),
    });
    expect(answer.status).toBe(400);
  }
  const rows = refused.length + requests.length;
  await vi.waitFor(async () => expect((await tables(/^journal$/)).match(/"session"/g)).toHaveLength(rows), 10_000);
  // The index of the search has it within a second.
  await vi.waitFor(async () => expect(await tables(/^journal_words_data$|^journal$/)).toContain(fact), 10_000);
  const told = await tables(/./);
  expect(told).toContain(fact);
  expect(told).not.toContain(secret);
  expect(told).toContain('[not kept]');
  if (url === undefined)
    for (const ending of ['', '-wal', '-shm'].filter((end) => existsSync(`${file}${end}`)))
      expect([ending, readFileSync(`${file}${ending}`).includes(secret)]).toEqual([ending, false]);

  // What is accepted stands in the queue until it has left, and nowhere else.
  expect(await submit(running, accepted)).toMatch(/^250 /);
  await vi.waitFor(async () => {
    expect(await tables(/^spool_/)).not.toContain(secret);
    expect((await tables(/^journal$/)).match(/"session"/g)).toHaveLength(rows + 1);
  }, 10_000);
  expect(await tables(/./)).not.toContain(secret);
});
