// The queue commands on a database as a server leaves it.

import { statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, test } from 'vitest';
import { runCommandLine } from '../../../src/cli/run.ts';
import { SqliteSpool } from '../../../src/spool/sqlite/sqlite-spool.ts';
import { findSelected } from '../../../src/web/admin/queue/queue-selection.ts';
import { claimAny } from '../../support/claim-any.ts';
import { scratchFolder } from '../../support/scratch.ts';
import { attemptOf, someTime, spoolEntry } from '../../support/spool-entry.ts';

const lease = someTime + 3_600_000;
const reply = { code: 550, text: 'no such user' };
const failed = { kind: 'failed', reply, host: 'default' } as const;

/** A data folder with a spool that the test fills, and the commands on it. */
async function queue(fill: (spool: SqliteSpool) => Promise<void>, prepare: (file: string) => void = () => undefined) {
  const folder = scratchFolder();
  const file = join(folder, 'postern.db');
  prepare(file);
  const spool = await SqliteSpool.open({ file });
  await fill(spool);
  await spool.close();
  const env = { POSTERN_DATA_DIR: folder, POSTERN_CERTS_DIR: join(folder, 'certs') };
  return {
    file,
    open: () => SqliteSpool.open({ file }),
    run: async (...args: readonly string[]) => {
      const pieces: string[] = [];
      const errors: string[] = [];
      const io = {
        stdout: { write: (text: string) => pieces.push(text) },
        stderr: { write: (text: string) => errors.push(text) },
        env,
        cwd: process.cwd(),
      };
      const exitCode = await runCommandLine(['queue', ...args], io);
      return { exitCode, stdout: pieces.join(''), stderr: errors.join(''), pieces };
    },
  };
}

test('a message that failed in part shows in the totals of list and summary', async () => {
  const { run } = await queue(async (spool) => {
    const mixed = spoolEntry({ recipients: ['a@example.org', 'b@example.org'] });
    const other = spoolEntry({ account: 'other' });
    await spool.add(mixed, lease);
    await spool.add(other, lease);
    await spool.record([attemptOf(mixed, failed)]);
  });
  const total = '2 messages queued, 0 failed; recipients: 2 queued, 0 delivered, 1 failed';
  const listed = await run('list', '--state', 'failed');
  expect(listed.stdout).toContain('  a@example.org: failed');
  expect(listed.stdout.split('\n').at(-2)).toBe(`1 shown. In all: ${total}`);

  const told = (await run('summary')).stdout.split('\n');
  expect(told[0]).toMatch(/^account +queued +failed/);
  expect(told.slice(1, 3).map((line) => line.split(/ +/))).toEqual([
    ['dev', '1', '0', expect.any(String), '0', '1', '0', '1'],
    ['other', '1', '0', expect.any(String), '0', '1', '0', '0'],
  ]);
  expect(told[3]).toBe(`In all: ${total}`);
  const json = (await run('summary', '--json')).stdout.trim().split('\n');
  expect(json.map((line) => JSON.parse(line) as unknown)).toMatchObject([
    { account: 'dev', messages: { queued: 1, failed: 0 }, recipients: { queued: 1, delivered: 0, failed: 1 } },
    { account: 'other' },
  ]);
});

const deferred = { kind: 'deferred', reply: { code: 451, text: 'busy' }, host: 'default' } as const;
const tomorrow = Date.now() + 86_400_000;

/** 270 messages in three accounts, each deferred until tomorrow, one in nine failed. */
async function many(spool: SqliteSpool): Promise<void> {
  const entries = Array.from({ length: 270 }, (_, index) =>
    spoolEntry({
      account: ['dev', 'payg', 'gone'][index % 3] ?? '',
      acceptedAt: someTime + index,
      recipients: [`b@${index % 2 ? 'example.org' : 'example.net'}`, 'c@sub.example.net'],
    }),
  );
  await Promise.all(entries.map((entry) => spool.add(entry, lease)));
  await spool.record(
    entries.flatMap((entry, index) =>
      entry.recipients.map((recipient) =>
        index % 9 === 0
          ? attemptOf(entry, failed, { recipient })
          : attemptOf(entry, deferred, { recipient, nextAttemptAt: tomorrow }),
      ),
    ),
  );
}

test('a long queue is listed in pages, oldest first, and the limit ends it', async () => {
  const { run } = await queue(many);
  const all = await run('list', '--limit', '1000', '--json');
  const ids = all.pieces.map((line) => (JSON.parse(line) as { readonly id: string }).id);
  expect(ids).toHaveLength(270);
  expect(ids).toEqual(ids.toSorted());
  const some = await run('list', '--limit', '241');
  expect(some.pieces).toHaveLength(242);
  expect(some.pieces.at(-1)).toMatch(/^241 shown\. In all: 240 messages queued, 30 failed/);
  expect((await run('list', '--state', 'failed')).pieces).toHaveLength(31);
});

test.each([
  [['--all'], '240 messages with 480 recipients\n'],
  [['--all', '--state', 'failed'], '30 messages with 60 recipients, 60 of them had failed'],
  [['--state', 'failed'], '30 messages with 60 recipients, 60 of them had failed'],
  [['--account', 'payg'], '90 messages with 180 recipients\n'],
  [['--account', 'gone', '--state', 'queued'], '90 messages with 180 recipients'],
  [['--domain', 'Example.NET'], '120 messages with 120 recipients\n'],
  [['--route', 'default', '--domain', 'sub.example.net', '--account', 'dev'], '60 messages with 60 recipients\n'],
  [['--account', 'nobody'], '0 messages with 0 recipients'],
  [['--account', '', '--state', 'failed'], '0 messages with 0 recipients'],
])('retry %j', async (selection, wanted) => {
  const { run, open } = await queue(many);
  const { exitCode, stdout } = await run('retry', ...selection);
  expect({ exitCode, stdout }).toEqual({
    exitCode: 0,
    stdout: expect.stringContaining(`Due now: ${wanted}`) as unknown,
  });
  const spool = await open();
  const claimed = await claimAny(spool, { now: Date.now(), limit: 1000, claimUntil: tomorrow });
  const due = claimed.reduce((sum, message) => sum + message.due.length, 0);
  expect(due).toBe(Number(/with (\d+) recipient/.exec(stdout)?.[1]));
  await spool.close();
});

test('what is made due at once has some thousands of recipients at most', async () => {
  const recipients = Array.from({ length: 1000 }, (_, at) => `r${at}@x.test`);
  const { open } = await queue(async (spool) => {
    for (let at = 0; at < 8; at += 1) await spool.add(spoolEntry({ recipients }), lease);
  });
  const spool = await open();
  const parts = { spool, routeOf: () => 'default' };
  const first = await findSelected(parts, {}, { limit: 200 });
  expect(first.selected).toHaveLength(6);
  const rest = await findSelected(parts, {}, { limit: 200, after: first.next });
  expect([rest.selected.length, rest.next]).toEqual([2, undefined]);
  await spool.close();
});

test('messages that are named are tried where they wait, and where they failed with --state failed alone', async () => {
  const [waits, mixed, gone] = [spoolEntry(), spoolEntry({ recipients: ['a@x.test', 'b@x.test'] }), spoolEntry()];
  const { run, open } = await queue(async (spool) => {
    for (const entry of [waits, mixed, gone]) await spool.add(entry, 0);
    await spool.record([attemptOf(mixed, failed, { recipient: 'b@x.test' }), attemptOf(gone, failed)]);
  });
  const ids = [waits.id, mixed.id, gone.id];
  const states = async () => {
    const spool = await open();
    const items = await Promise.all(ids.map((id) => spool.show(id)));
    await spool.close();
    return items.map((item) => item?.recipients.map(({ state }) => state).join());
  };
  expect(await run('retry', ...ids)).toMatchObject({
    exitCode: 1,
    stdout: `${waits.id} is due now\n${mixed.id} is due now\n`,
    stderr: `No recipient of ${gone.id} waits; --state failed tries those again that failed for good\n`,
  });
  expect(await states()).toEqual(['queued', 'queued,failed', 'failed']);
  expect(await run('retry', '--state', 'failed', ...ids)).toMatchObject({
    exitCode: 1,
    stdout: `${mixed.id} is due now\n${gone.id} is due now\n`,
    stderr: `No recipient of ${waits.id} has failed\n`,
  });
  expect(await states()).toEqual(['queued', 'queued,queued', 'queued']);
  const unknown = '0199f3c1-0000-7000-8000-000000000000';
  expect(await run('retry', unknown)).toMatchObject({
    exitCode: 1,
    stderr: expect.stringContaining('no message') as unknown,
  });
});

test('a hold of the console is listed and lifted', async () => {
  const { run } = await queue(async (spool) => {
    await spool.add(spoolEntry({ transports: ['default#1/x.test'] }), 0);
    await spool.addHold({ kind: 'line', value: 'dev default/x.test', at: someTime, by: 'console dev/editor', why: '' });
  });
  expect((await run('destinations')).stdout).toMatch(/^default \(x\.test\) +1 +1 /m);
  expect((await run('holds')).stdout).toMatch(/^line +dev default\/x\.test +\S+ +console dev\/editor/m);
  expect(await run('release', '--line', 'dev default/x.test')).toMatchObject({ exitCode: 0 });
  const { stdout } = await run('hold', '--line', 'dev default');
  expect(stdout).toContain('(line dev default)');
  // No variable names the user, as in a container.
  expect(stdout).toContain(`held by uid ${process.getuid?.()} since`);
  expect((await run('release', '--line', 'dev default/x.test')).exitCode).toBe(1);
});

test.each([
  [['retry'], 'want ID..., --all'],
  [['hold', '--line', 'default'], '--line wants "ACCOUNT ROUTE" or'],
  [['retry', '--state', 'gone', 'an-id'], '--state: got'],
  [['retry', '--all', 'an-id'], 'not both'],
  [['retry', '--all', '--account', 'dev'], '--all is everything'],
  [['retry', '--route', 'nowhere'], '--route wants one of default, got "nowhere"'],
  [['retry', '--domain', 'not a domain'], '--domain wants a domain'],
  [['retry', '--state', 'delivered'], '--state: got'],
])('%j is a fault of usage', async (args, wanted) => {
  const { run } = await queue(async () => undefined);
  const { exitCode, stderr } = await run(...args);
  expect({ exitCode, stderr }).toEqual({ exitCode: 64, stderr: expect.stringContaining(wanted) as unknown });
});

test('compact converts a database of before, not under a server, and gives its room back', async () => {
  const bodies = Array.from({ length: 40 }, () => spoolEntry({ body: Buffer.alloc(200_000, 'x') }));
  const { file, open, run } = await queue(
    async (spool) => {
      await Promise.all(bodies.map((entry) => spool.add(entry, lease)));
      await Promise.all(bodies.map((entry) => spool.drop(entry.id)));
    },
    (path) => {
      const old = new DatabaseSync(path);
      old.exec('PRAGMA auto_vacuum = NONE; PRAGMA journal_mode = WAL; CREATE TABLE old (n)');
      old.close();
    },
  );
  const server = await open();
  await server.recover();
  const refused = await run('compact');
  expect(refused).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('stop that first') as unknown });
  await server.close();
  const before = statSync(file).size;
  expect(before).toBeGreaterThan(8_000_000);
  expect(await run('compact')).toMatchObject({ exitCode: 0, stderr: '' });
  expect(statSync(file).size).toBeLessThan(1_000_000);
  const converted = new DatabaseSync(file);
  expect(converted.prepare('PRAGMA auto_vacuum').get()).toEqual({ auto_vacuum: 2 });
  converted.close();
});

test('messages are found by Message-ID, recipient and sender, exactly and in any spelling', async () => {
  const one = spoolEntry({ clientMessageId: '<own_1@client.example>', senderPath: 'Ann@Example.com' });
  const two = spoolEntry({ recipients: ['Bob@xn--bcher-kva.example', 'bob@example.org'], senderPath: '' });
  const { run } = await queue(async (spool) => {
    for (const entry of [one, two, spoolEntry({ recipients: ['notbob@example.org'] })]) await spool.add(entry, lease);
    await spool.record([attemptOf(two, failed, { recipient: 'Bob@xn--bcher-kva.example' })]);
  });
  const found = async (...args: string[]) =>
    (await run('list', '--json', ...args)).stdout
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => (JSON.parse(line) as { id: string }).id);
  expect(await found('--message-id', one.messageId)).toEqual([one.id]);
  expect(await found('--message-id', 'own_1@client.example')).toEqual([one.id]);
  for (const pattern of ['own%', 'own_1', '%', 'ownx1@client.example'])
    expect(await found('--message-id', pattern), pattern).toEqual([]);
  expect(await found('--recipient', 'BOB@bücher.example')).toEqual([two.id]);
  expect(await found('--recipient', 'bob@bücher.example', '--state', 'queued')).toEqual([]);
  expect(await found('--recipient', 'bob@bücher.example', '--state', 'failed')).toEqual([two.id]);
  expect((await found('--recipient', 'bob@example.org')).toSorted()).toEqual([one.id, two.id].toSorted());
  expect(await found('--sender', 'ann@example.COM')).toEqual([one.id]);
  expect(await found('--sender', '<>')).toEqual([two.id]);
});

test('a hold is told wherever the mail that it keeps is shown, until it is released', async () => {
  const held = spoolEntry({ account: 'dev', transports: ['default#1'] });
  const { run, open } = await queue(async (spool) => {
    await spool.add(held, 0);
    await spool.add(spoolEntry({ account: 'payg', transports: ['default#1'] }), 0);
  });
  const made = await run('hold', '--account', 'dev', '--why', 'a complaint', '--by', 'ops\u001b[2J');
  expect(made).toMatchObject({ exitCode: 0, stderr: '' });
  expect(made.stdout).toMatch(/^held by ops\?\[2J since \S+Z \(account dev\): a complaint\n$/);
  for (const args of [['list'], ['show', held.id], ['summary']]) {
    expect((await run(...args)).stdout, args[0]).toContain('(account dev): a complaint');
  }
  expect((await run('destinations')).stdout).toMatch(/^default +2 +1 /m);
  expect((await run('holds')).stdout).toContain('account  dev');
  const spool = await open();
  expect(await spool.turns({ transport: 'default#1', now: Date.now(), limit: 10 })).toEqual([
    { transport: 'default#1', account: 'payg' },
  ]);
  await spool.close();
  expect(await run('release', '--account', 'dev')).toMatchObject({ exitCode: 0, stdout: 'account dev is released\n' });
  expect((await run('release', '--account', 'dev')).exitCode).toBe(1);
  expect((await run('list')).stdout).not.toContain('held by');
  expect((await run('holds')).stdout).toBe('Nothing is held\n');
});

test.each([
  [['hold'], 'want one of --message'],
  [['hold', '--account', 'dev', '--route', 'default'], 'want one of --message'],
  [['hold', '--account', "no'body; DROP TABLE spool_holds\u001b[0m"], 'got "no\'body; DROP TABLE spool_holds?[0m"'],
  [['hold', '--message', ''], '--message wants the id of a message'],
  [['hold', '--route', 'nowhere'], '--route wants one of default'],
  [['hold', '--destination', 'not a domain'], '--destination wants a domain'],
  [['hold', '--account', 'dev', '--why', 'x'.repeat(201)], '--why wants at most 200'],
])('%j is refused', async (args, text) => {
  const { run } = await queue(async () => undefined);
  const { exitCode, stderr } = await run(...args);
  expect(exitCode).toBe(64);
  expect(stderr).toContain(text);
});

test('a hold is made on a message of the queue alone', async () => {
  const held = spoolEntry();
  const { run } = await queue(async (spool) => spool.add(held, 0));
  const unknown = '0199f3c1-0000-7000-8000-000000000000';
  for (const id of [unknown, held.id.slice(0, -1), 'all', '%']) {
    const { exitCode, stderr } = await run('hold', '--message', id);
    expect([exitCode, stderr], id).toEqual([1, expect.stringContaining(`There is no message "${id}"`)]);
  }
  expect((await run('holds')).stdout).toBe('Nothing is held\n');
  expect((await run('hold', '--message', held.id.toUpperCase())).exitCode).toBe(0);
  expect((await run('holds')).stdout).toContain(held.id);
});

test('what waits is told by destination, without a server too', async () => {
  const { run } = await queue(async (spool) => {
    for (const domain of ['a.test', 'a.test', 'b.test']) {
      await spool.add(spoolEntry({ recipients: [`x@${domain}`], transports: [`mx#1/${domain}`] }), 0);
    }
  });
  const { exitCode, stdout } = await run('destinations');
  expect(exitCode).toBe(0);
  const rows = stdout.split('\n').map((line) => line.split(/ {2,}/).slice(0, 3));
  expect(rows.slice(0, 3)).toEqual([
    ['destination', 'queued', 'held'],
    ['mx (a.test)', '2', '0'],
    ['mx (b.test)', '1', '0'],
  ]);
  expect(stdout).toContain('No server runs');
  const [first] = (await run('destinations', '--json', '--limit', '1')).stdout.trim().split('\n');
  expect(JSON.parse(first ?? '')).toMatchObject({
    route: 'mx',
    domain: 'a.test',
    queued: 2,
    oldestAcceptedAt: someTime,
  });
});
