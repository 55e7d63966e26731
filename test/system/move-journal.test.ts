// Moving the journal to PostgreSQL: what a person reads of it through the API is the same before and after, and no row is lost in
// silence.

import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { createTransport } from 'nodemailer';
import pg from 'pg';
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { tableMigrations } from '../../src/app/wiring/table-versions.ts';
import { openPostgres } from '../../src/base/database/postgres-database.ts';
import { uuidv7 } from '../../src/base/ids.ts';
import { type JournalFacts, outcomeNumbers } from '../../src/spool/journal/journal-row.ts';
import { searchColumns } from '../../src/spool/journal/writer/postgres-journal.ts';
import { type MoveRequest, moveData } from '../../src/spool/move/move-data.ts';
import { type MovedSource, makeSource } from '../support/moved-source.ts';
import { type PosternProcess, projectRoot, startPostern, testToken } from '../support/postern-process.ts';
import { type PostgresServer, startPostgres } from '../support/postgres.ts';
import { runCli } from '../support/run-cli.ts';
import { scratchFolder } from '../support/scratch.ts';
import { requirePrograms } from './programs.ts';

let server: PostgresServer;
beforeAll(async () => {
  requirePrograms('runuser', 'pg_ctlcluster');
  server = await startPostgres();
});
afterAll(() => server?.remove());

function requestOf(source: MovedSource, url: string, changes: Partial<MoveRequest> = {}): MoveRequest {
  return {
    ...{ ...source, url, shown: 'db.test/postern', migrations: tableMigrations, leaveDamaged: false },
    ...{ signal: new AbortController().signal, progress: () => undefined },
    ...changes,
  };
}

async function ask(url: string, sql: string): Promise<readonly Record<string, unknown>[]> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(sql)).rows;
  } finally {
    await client.end();
  }
}

/** A row of the journal as it is written into SQLite. */
interface Written {
  readonly id: string;
  readonly outcome?: number;
  readonly facts?: object | string;
  readonly more?: object | string;
  readonly content?: readonly (Uint8Array | null)[];
}

const oldFacts = { recipients: ['old@partner.test'], count: 1 };

/** Writes rows beside a gateway, or without one. */
function write(file: string, rows: readonly Written[]): void {
  const database = new DatabaseSync(file, { timeout: 5000 });
  const text = (value: object | string): string => (typeof value === 'string' ? value : JSON.stringify(value));
  database.exec('BEGIN IMMEDIATE');
  for (const { id, outcome = outcomeNumbers.refused, facts = oldFacts, more = { session: 's' }, content } of rows) {
    const octets = content?.reduce((sum, part) => sum + (part?.length ?? 0), 0) ?? 0;
    const { lastInsertRowid } = database
      .prepare('INSERT INTO journal (id, at, account, outcome, waiting, octets, facts, more) VALUES (?,?,?,?,?,?,?,?)')
      .run(
        id,
        Date.now(),
        'dev',
        outcome,
        outcome === outcomeNumbers.deferred ? 3 : 0,
        octets,
        text(facts),
        text(more),
      );
    if (content)
      database.prepare('INSERT INTO journal_content VALUES (?, 0, ?, ?, ?, ?)').run(lastInsertRowid, ...content);
  }
  database.exec('COMMIT');
  database.close();
}

/** Ids of now: rows with older ones would go. */
const begin = uuidv7(Date.now()).slice(0, 14);
const id = (number: number): string => `${begin}7000-8000-${String(number).padStart(12, '0')}`;

const head = 'From: Shop <shop@example.com>\r\nTo: a@partner.test\r\nSubject: ';
const mime = '\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n';
const messages = [
  `${head}=?utf-8?Q?Gr=C3=BC=C3=9Fe?= =?utf-8?B?8J+YgCDmlrDlubQ=?=${mime}Hi.\r\n`,
  `${head}no body${mime}`,
  `${head}second${mime}${'A line of a message.\r\n'.repeat(2000)}`,
  `${head}two\r\nUser-Agent: s-nail v14.9.24${mime}Hi.\r\n`,
  `${head}with a NUL${mime}one\0two\r\n`,
];
const requests = [
  { subject: 'three', headers: { Bcc: 'x@y.example' } },
  { subject: 'half a pair \ud83d of it', headers: { 'X-Mark': 'a\ud800' } },
  { subject: 'with a NUL \0 in it' },
  { subject: 'by REST', text: 'Größe' },
];

/** Rows as earlier releases wrote them, in every outcome, and one with everything that is hard to keep as it is. */
const rows: readonly Written[] = [
  ...Object.values(outcomeNumbers).map((outcome) => ({ id: id(outcome), outcome })),
  {
    id: id(7),
    facts: {
      ...oldFacts,
      subject: 'NUL \0, half \ud800 and e\u0301 \u{1f600}',
      mailer: 'X-Mailer: \udfff',
      codes: ['E_X\0'],
      fields: ['X-\ud800', 'X-Größe'],
      client: '2001:db8::1',
    },
    content: [Buffer.from('Subject: \0\xff\r\n\r\n', 'latin1'), null, Buffer.from([0, 255, 0]), null],
  },
  { id: id(8), outcome: outcomeNumbers.delivered, content: [null, Buffer.from('X: 1\r\n\r\n'), null, Buffer.alloc(0)] },
];

/** Sends everything; what is refused is refused. */
async function sendAll(running: PosternProcess): Promise<void> {
  const transport = createTransport({
    ...{ host: '127.0.0.1', port: running.ports['submission'] ?? 0, requireTLS: true, name: 'client.example' },
    ...{ tls: { rejectUnauthorized: false }, auth: { user: 'api_token', pass: testToken } },
  });
  for (const raw of messages)
    await transport.sendMail({ envelope: { from: 'shop@example.com', to: ['a@partner.test'] }, raw }).catch(String);
  for (const request of requests)
    await fetch(`http://127.0.0.1:${running.ports['http']}/client/v4/accounts/dev/email/sending/send`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${testToken}`, 'Content-Type': 'application/json' },
      body: JSON.stringify({ from: 'shop@example.com', to: 'b@partner.test', text: 'x', ...request }),
    });
}

/** Answers are of many shapes here; what a test reads of one it also compares. */
// oxlint-disable-next-line typescript/no-explicit-any -- see above
type Json = any;

async function get(running: PosternProcess, path: string): Promise<Json> {
  const answer = await fetch(`http://127.0.0.1:${running.ports['http']}/client/v4/accounts/dev/email/sending/${path}`, {
    headers: { Authorization: `Bearer ${testToken}` },
  });
  const isFile = answer.headers.get('content-type')?.startsWith('message/') === true;
  return isFile ? Buffer.from(await answer.arrayBuffer()).toString('base64') : await answer.json();
}

/** All rows of a list, however it is cut into pages. */
async function listed(running: PosternProcess, query: string): Promise<readonly Json[]> {
  const found: Json[] = [];
  for (let cursor: string | undefined = ''; cursor !== undefined; ) {
    const page: Json = await get(running, `journal?per_page=3${query}${cursor === '' ? '' : `&cursor=${cursor}`}`);
    found.push(...page.result);
    cursor = page.result_info.cursor ?? undefined;
  }
  return found;
}

const queries = [
  '',
  ...Object.keys(outcomeNumbers).map((outcome) => `&outcome=${outcome}`),
  ...['gr%C3%BC%C3%9Fe', 'gr', '%E6%96%B0%E5%B9%B4', 'partner+tes', 'half', 'nul', '%C3%A9', 'e'].map(
    (q) => `&search=${q}`,
  ),
  ...['user-agent', 'x-gr%C3%B6%C3%9Fe', 'BCC'].map((field) => `&field=${field}`),
  ...['&code=E_HEADER_NOT_ALLOWED', '&code=E_X%00', '&client=127.0.0.1', '&client=2001:db8::1', '&credential=default'],
  ...['&credential=nobody', '&outcome=refused&search=old', '&outcome=delivered&credential=default&search=second'],
  '&since=2020-01-01T00:00:00Z&until=2090-01-01T00:00:00Z',
];

/** Everything that a person can read of the journal, by what was asked. */
async function readAll(running: PosternProcess): Promise<ReadonlyMap<string, Json>> {
  const read = new Map<string, Json>();
  for (const query of queries) read.set(query, await listed(running, query));
  for (const { id: own } of read.get(''))
    for (const part of ['', '/received', '/sent', '/preview', '/dkim'])
      read.set(`${own}${part}`, await get(running, `journal/${own}${part}`));
  for (const path of ['refusals', 'refusals?field=User-Agent']) read.set(path, (await get(running, path)).result);
  return read;
}

test('what the API tells of the journal is the same from PostgreSQL as it was from SQLite', {
  timeout: 120_000,
}, async () => {
  const running = await startPostern();
  onTestFinished(() => rmSync(running.folder, { recursive: true, force: true }));
  await sendAll(running);
  const file = join(running.dataDir, 'postern.db');
  write(file, rows);
  await vi.waitFor(
    async () => {
      const found = await listed(running, '');
      expect(found).toHaveLength(messages.length + requests.length + rows.length);
      // The last one is of `rows`; what was really accepted is delivered.
      expect(found.filter(({ outcome }) => outcome === 'accepted')).toHaveLength(1);
    },
    { timeout: 20_000, interval: 100 },
  );
  const before = await readAll(running);
  expect(before.get('&outcome=delivered').length).toBeGreaterThanOrEqual(6);
  expect(before.get('&field=user-agent')).toHaveLength(1);
  expect(before.get('&search=%E6%96%B0%E5%B9%B4')).toHaveLength(1);
  expect(before.get('refusals').length).toBeGreaterThan(1);
  expect(await running.end('SIGTERM')).toBe(0);

  const url = await server.createSchema();
  const env = { ...running.env } as Record<string, string>;
  const moved = await runCli(['migrate', '--to', url], { env, cwd: running.folder });
  expect([moved.exitCode, moved.stderr]).toEqual([0, '']);
  expect(moved.stdout).toMatch(new RegExp(`^ +journal +${before.get('').length}$`, 'm'));
  const onPostgres = await startPostern({ folder: running.folder, env: { POSTERN_DATABASE_URL: url } });
  onTestFinished(async () => void (await onPostgres.end('SIGKILL')));
  const after = await readAll(onPostgres);
  for (const [asked, answer] of before) expect([asked, after.get(asked)]).toEqual([asked, answer]);
  expect([...after.keys()]).toEqual([...before.keys()]);
  // The next row has the next number, so that it is the first of the list.
  await sendAll(onPostgres);
  const newest = await listed(onPostgres, '');
  expect(newest.slice(-before.get('').length).map((row) => row.id)).toEqual(before.get('').map((row: Json) => row.id));
  expect(await onPostgres.end('SIGTERM')).toBe(0);
});

test('every row and its octets arrive, over many statements', async () => {
  const source = makeSource(scratchFolder());
  const octets = (length: number, of: number): Buffer => Buffer.alloc(length, of);
  const many = Array.from({ length: 2500 }, (_, at) => ({
    id: id(at),
    outcome: 1 + (at % 6),
    facts: { ...oldFacts, subject: `Nr. ${at} \u{1f600}`, fields: ['X-A', `X-${at}`] },
    ...(at % 3 === 0 ? {} : { content: [octets(at, 1), at % 2 ? null : octets(7, 2), octets(0, 0), octets(900, at)] }),
  }));
  write(source.file, many);
  const database = new DatabaseSync(source.file);
  // Numbers have gaps, and the newest row is gone.
  database.exec('DELETE FROM journal WHERE seq % 7 = 0 OR seq = 2500');
  database.exec('DELETE FROM journal_content WHERE seq NOT IN (SELECT seq FROM journal)');
  const stored = database.prepare('SELECT * FROM journal ORDER BY seq').all();
  const content = database
    .prepare('SELECT c.*, j.id FROM journal_content c JOIN journal j ON j.seq = c.seq ORDER BY c.seq')
    .all();
  database.close();
  const url = await server.createSchema();
  const steps = new Set<string>();
  const moved = await moveData(requestOf(source, url, { progress: ({ step }) => steps.add(step) }));
  expect([moved.rows.get('journal'), moved.rows.get('journal_content')]).toEqual([stored.length, content.length]);
  expect([...steps]).toEqual(
    expect.arrayContaining(['Copying journal', 'Copying journal_content', 'Checking journal']),
  );
  const wanted = stored.map((row) => ({ ...row, ...searchColumns(String(row['facts'])) }));
  const numbers = (row: Record<string, unknown>) => ({
    ...row,
    ...{ seq: Number(row['seq']), at: Number(row['at']), octets: Number(row['octets']) },
  });
  expect((await ask(url, 'SELECT * FROM journal ORDER BY seq')).map(numbers)).toEqual(wanted);
  const hex = (row: Record<string, unknown>) =>
    Object.entries(row).map(([name, value]) => [
      name,
      value instanceof Uint8Array ? Buffer.from(value).toString('hex') : String(value),
    ]);
  const got = (await ask(url, 'SELECT * FROM journal_content ORDER BY seq')).map(hex);
  expect(got).toEqual(content.map(hex));
  const next =
    "INSERT INTO journal (id, at, account, outcome, waiting, octets, facts, more, keys, words) VALUES ('n',1,'a',1,0,0,'{}','{}','','')";
  expect(await ask(url, `${next} RETURNING seq`)).toEqual([{ seq: '2501' }]);
});

/** Facts that break a rule, with the words that name it. */
const broken: readonly (readonly [facts: JournalFacts | object | string, words: string])[] = [
  ['{"recipients":["a', 'facts is no JSON'],
  ['[]', 'facts is no object'],
  [{ count: 1 }, 'facts.recipients is missing or of another type'],
  [{ ...oldFacts, subject: 7 }, 'facts.subject is missing or of another type'],
  [{ ...oldFacts, codes: [1] }, 'facts.codes is missing or of another type'],
];

test('a damaged entry keeps everything from being moved and is named with its fault, unless it may be left behind', async () => {
  const source = makeSource(scratchFolder());
  const content = [null, null, Buffer.from('x'), null];
  write(source.file, [
    { id: id(100) },
    ...broken.map(([facts], at) => ({ id: id(at), facts, content })),
    { id: id(50), more: 'null' },
    { id: id(101), content },
  ]);
  const database = new DatabaseSync(source.file);
  database.exec(`UPDATE journal SET outcome = 9 WHERE id = '${id(101)}'`);
  database.exec("INSERT INTO journal_content VALUES (77, 0, NULL, NULL, x'00', NULL)");
  database.close();
  const url = await server.createSchema();
  const env = { POSTERN_CONFIG: join(projectRoot, 'config/postern.yaml'), POSTERN_DATA_DIR: join(source.file, '..') };
  const cli = (...args: string[]) => runCli(['migrate', '--to', url, ...args], { env });
  const refused = await cli();
  expect([refused.exitCode, refused.stdout]).toEqual([1, '']);
  const named = [
    '8 damaged entries of the journal keep everything from being moved:',
    ...broken.map(([, words], at) => `entry ${at + 2}, ${id(at)}: ${words}`),
    `entry 7, ${id(50)}: more is no object`,
    `entry 8, ${id(101)}: outcome is 9, and not 1 to 6`,
    'entry 77, it has content, and no row',
    'Leave what is damaged behind with --leave-damaged',
  ];
  for (const words of named) expect(refused.stderr).toContain(words);
  expect(refused.stderr).not.toContain(id(100));

  const moved = await cli('--leave-damaged');
  expect(moved.exitCode).toBe(1);
  expect(moved.stdout).toMatch(/^ +journal +1$/m);
  expect(moved.stderr).toContain('8 damaged entries of the journal were left behind:');
  expect(await ask(url, 'SELECT id FROM journal')).toEqual([{ id: id(100) }]);
  expect(await ask(url, 'SELECT seq FROM journal_content')).toEqual([]);
});

test('a target that changes a row on its way keeps nothing', async () => {
  const source = makeSource(scratchFolder());
  write(source.file, [{ id: id(1), content: [null, null, Buffer.from('octets'), null] }, { id: id(2) }]);
  const url = await server.createSchema();
  const database = await openPostgres({ url });
  for (const one of tableMigrations.postgres) await database.migrate(one);
  await database.close();
  for (const [table, change] of [
    ['journal', "NEW.words := NEW.words || 'x'"],
    ['journal_content', "NEW.received_body := 'octetS'"],
  ] as const) {
    await ask(
      url,
      `CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ${change}; RETURN NEW; END $$;
       CREATE TRIGGER changes BEFORE INSERT ON ${table} FOR EACH ROW EXECUTE FUNCTION change()`,
    );
    await expect(moveData(requestOf(source, url))).rejects.toThrow(`rows of ${table} that are not as they were sent`);
    expect(await ask(url, `SELECT * FROM ${table}`)).toEqual([]);
    await ask(url, `DROP FUNCTION change CASCADE`);
  }
  expect((await moveData(requestOf(source, url))).rows.get('journal')).toBe(2);
});
