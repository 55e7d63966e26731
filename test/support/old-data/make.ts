// Makes the data of an older release, as they are kept beside this file: a gateway of that release runs, takes mail of every fate,
// and is killed. Run once for each commit that there are data of, as root where it has PostgreSQL:
//
//   git worktree add --detach /tmp/old 8e055d7 && (cd /tmp/old && npm ci)
//   npx node test/support/old-data/make.ts /tmp/old 8e055d7 sqlite      # or postgres
//
// What was there is written beside the data (`OldFacts`), as the old release told it.

import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { FaultSink } from '../fault-sink.ts';
import { gatewayOf, hookServer, type OldAnswer, type OldFacts, tokenOf } from '../old-data.ts';
import { type PosternProcess, startPostern } from '../postern-process.ts';
import { type PostgresServer, startPostgres } from '../postgres.ts';
import { connectSmtp } from '../raw-smtp-client.ts';

const [checkout = '', commit = '', engine = ''] = process.argv.slice(2);
const isOldest = commit === '1ee1171';
const big = `${'Text of a large message, which stands in a file of its own, or in parts.'.padEnd(76, '.')}\r\n`.repeat(
  4000,
);
const api = '/client/v4/accounts/dev/email/sending';

/** Sends a message by SMTP. @returns the code of the last reply */
async function send(
  postern: PosternProcess,
  to: readonly string[],
  { body = 'Hello.\r\n', field = '' } = {},
): Promise<number> {
  const client = await connectSmtp(postern.ports['devices'] ?? 0);
  await client.reply();
  await client.command('EHLO old.example.com');
  await client.command('MAIL FROM:<a@example.com>');
  for (const one of to) await client.command(`RCPT TO:<${one}>`);
  await client.command('DATA');
  client.write(`From: a@example.com\r\nTo: ${to[0] ?? ''}\r\nSubject: for ${to[0] ?? ''}\r\n${field}\r\n${body}.\r\n`);
  const { code } = await client.reply();
  client.close();
  return code;
}

/** Asks the API. @returns the body of its answer */
async function ask(
  postern: PosternProcess,
  path: string,
  body?: object,
  headers: Record<string, string> = {},
): Promise<OldAnswer> {
  const answer = await fetch(`http://127.0.0.1:${postern.ports['http']}${path}`, {
    method: body ? 'POST' : 'GET',
    headers: { Authorization: `Bearer ${tokenOf}`, 'Content-Type': 'application/json', ...headers },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
  const told = (await answer.json()) as OldAnswer;
  if (!answer.ok) throw new Error(`${path}: ${JSON.stringify(told.errors)}`);
  return told;
}

/** Runs a command of the old release beside its gateway. */
function command({ env, folder }: PosternProcess, ...args: readonly string[]): string {
  return execFileSync(process.execPath, [join(checkout, 'src/main.ts'), ...args], {
    env,
    cwd: folder,
    encoding: 'utf8',
  });
}

const idempotent = { from: 'a@example.com', to: 'idempotent@one.test', subject: 'Once', text: 'Once.' };

/** What this release kept beside mail that both have: events, the journal, holds, webhooks. */
async function addLater(postern: PosternProcess, urls: readonly string[]): Promise<void> {
  for (const url of urls) await ask(postern, `${api}/webhooks`, { url });
  command(postern, 'queue', 'hold', '--destination', 'held.test', '--why', 'kept for the next release', '--by', 'ops');
  // A gateway on SQLite looks for holds of others once a second.
  await sleep(3000);
}

async function takeMail(postern: PosternProcess, sink: FaultSink): Promise<OldFacts['idempotent']> {
  const taken = [
    await send(postern, ['d1@one.test']),
    await send(postern, ['d2@one.test', 'd3@two.test'], { body: big }),
    await send(postern, ['defer-rcpt+q1@one.test', 'd4@one.test']),
    await send(postern, ['defer-rcpt+q2@two.test'], { body: big }),
    await send(postern, ['defer-dot+q3@one.test']),
    // Its failure is told to the sender an hour later, because it waits for another recipient.
    await send(postern, ['fail-rcpt+f1@one.test', 'd5@two.test', 'defer-rcpt+q4@two.test']),
    ...(isOldest ? [] : [await send(postern, ['h1@held.test', 'h2@held.test']), await send(postern, ['h3@held.test'])]),
    await send(postern, ['c1@stuck.test', 'c2@stuck.test']),
  ];
  if (taken.some((code) => code !== 250)) throw new Error(`Not all was taken: ${taken.join()}`);
  if ((await send(postern, ['refused@one.test'], { field: 'User-Agent: refused\r\n' })) < 500) throw new Error('Taken');
  const answer = await ask(postern, `${api}/send`, idempotent, { 'Idempotency-Key': 'once' });
  command(postern, 'suppression', 'add', '--account', 'dev', 'nobody@one.test');
  while (sink.messages.flatMap(({ recipients }) => recipients).length < 6) await sleep(100);
  return { request: idempotent, key: 'once', answer: answer.result };
}

/** What the old release tells of itself, once all that can be told has been. */
async function toldBy(postern: PosternProcess, hooks: ReturnType<typeof hookServer>[]): Promise<Partial<OldFacts>> {
  const events = await ask(postern, `${api}/events?order=oldest&per_page=1000`);
  const [all, some] = hooks;
  while (new Set(all?.taken).size < events.result.length) await sleep(100);
  const rows = await ask(postern, `${api}/journal?per_page=100`);
  const journal = rows.result.map(({ id }) => id).toReversed();
  const kept: Record<string, string> = {};
  for (const id of journal) {
    const answer = await fetch(`http://127.0.0.1:${postern.ports['http']}${api}/journal/${id}/received`, {
      headers: { Authorization: `Bearer ${tokenOf}` },
    });
    if (answer.ok)
      kept[id] = createHash('sha256')
        .update(Buffer.from(await answer.arrayBuffer()))
        .digest('hex');
  }
  return {
    events: events.result.map(({ id, kind }) => `${id} ${kind}`),
    cursor: events.result_info?.cursor ?? '',
    journal,
    kept,
    hooks: [all?.taken ?? [], some?.taken ?? []],
  };
}

/** Writes the database of a gateway that was killed, and its bodies. */
function keep(postern: PosternProcess, name: string, url: string | undefined): void {
  if (url !== undefined) {
    const dump = execFileSync('runuser', ['-u', 'postgres', '--', 'pg_dump', '--no-owner', '-d', url], {
      maxBuffer: 2 ** 28,
    });
    writeFileSync(join(import.meta.dirname, `${name}.sql.gz`), gzipSync(dump, { level: 9 }));
    return;
  }
  // The log is written back, as whoever opens the file next would do.
  const database = new DatabaseSync(join(postern.dataDir, 'postern.db'));
  database.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  database.close();
  const archive = execFileSync(
    'tar',
    ['-C', postern.dataDir, '--exclude=*.lock', '--exclude=*.sock', '--exclude=dev-*', '-c', '.'],
    {
      maxBuffer: 2 ** 28,
    },
  );
  writeFileSync(join(import.meta.dirname, `${name}.tar.gz`), gzipSync(archive, { level: 9 }));
}

async function make(server: PostgresServer | undefined): Promise<void> {
  const url = await server?.createDatabase();
  const folder = mkdtempSync(join(tmpdir(), 'postern-old-'));
  const sink = await FaultSink.start();
  // A next hop that never says a word: what goes there is in hand when the gateway is killed.
  const silent = createServer(() => undefined);
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
  const place = silent.address();
  const hooks = isOldest ? [] : [hookServer(), hookServer(5)];
  const { config, env } = gatewayOf({
    port: sink.port,
    stuckPort: typeof place === 'object' && place ? place.port : 0,
    url,
    isOldest,
  });
  const postern = await startPostern({ checkout, config, env, folder });
  process.on('exit', () => void postern.end('SIGKILL'));
  if (!isOldest) await addLater(postern, await Promise.all(hooks.map(async ({ url: at }) => await at)));
  const kept = await takeMail(postern, sink);
  // Whatever can be tried has been tried by then.
  await sleep(5000);
  const facts: OldFacts = {
    from: `Made by test/support/old-data/make.ts of commit ${commit}.`,
    madeAt: Date.now(),
    delivered: sink.messages.flatMap(({ recipients }) => recipients).toSorted(),
    idempotent: kept,
    ...(isOldest ? {} : await toldBy(postern, hooks)),
  };
  // The cursors of the webhooks are written some time after the answers.
  await sleep(5000);
  await postern.end('SIGKILL');
  const name = `${commit}-${engine}`;
  keep(postern, name, url);
  writeFileSync(join(import.meta.dirname, `${name}.json`), `${JSON.stringify(facts, undefined, 1)}\n`);
  silent.close();
  await sink.close();
  for (const hook of hooks) hook.close();
  rmSync(folder, { recursive: true, force: true });
}

const server = engine === 'postgres' ? await startPostgres() : undefined;
try {
  await make(server);
} finally {
  await server?.remove();
}
process.exit();
