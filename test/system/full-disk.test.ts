// A disk that fills up for real: a small file system of memory as the data folder, or under a database of PostgreSQL (needs root for
// mount).

import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, onTestFinished, test } from 'vitest';
import { deviceConfiguration } from '../support/device-config.ts';
import { freePort } from '../support/free-port.ts';
import { type PosternProcess, projectRoot, startPostern, testToken } from '../support/postern-process.ts';
import { startPostgres } from '../support/postgres.ts';
import { connectSmtp, type RawSmtpClient } from '../support/raw-smtp-client.ts';
import { runCli } from '../support/run-cli.ts';
import { scratchFolder } from '../support/scratch.ts';
import { requirePrograms, runProgram } from './programs.ts';

const megabyte = 1_048_576;
let postern: PosternProcess | undefined;
let mounted = '';

afterEach(async () => {
  await postern?.end('SIGTERM');
  if (mounted !== '') execFileSync('umount', [mounted]);
  mounted = '';
});

interface Started {
  readonly running: PosternProcess;
  readonly client: RawSmtpClient;
}

/** A Postern whose data folder is a file system of 96 MiB, and whose mail has nowhere to go. */
async function start(minFreeBytes: number): Promise<Started> {
  const folder = scratchFolder();
  const data = join(folder, 'data');
  mkdirSync(data);
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=96m,mode=700', 'tmpfs', data]);
  mounted = data;
  return await startIn(folder, { spool: { minFreeBytes, account: { queuedBytes: 1024 * megabyte } } });
}

async function startIn(folder: string, more: object): Promise<Started> {
  const url = `smtp://127.0.0.1:${await freePort()}`;
  const config = deviceConfiguration({
    routes: [{ name: 'dead', type: 'smarthost', url, tls: 'none' }],
    credential: { tokenEnv: 'POSTERN_TOKEN' },
    ...more,
  });
  const running = await startPostern({ config, folder });
  postern = running;
  const client = await connectSmtp(running.ports['devices'] ?? 0);
  await client.reply();
  await client.command('EHLO test.example');
  return { running, client };
}

/** Sends a message with so many lines of 80 octets; the code of the first reply that is not as it goes on. */
async function send(client: RawSmtpClient, lines: number): Promise<number> {
  await client.command('MAIL FROM:<a@example.com>');
  await client.command('RCPT TO:<b@example.net>');
  const { code } = await client.command('DATA');
  if (code !== 354) {
    await client.command('RSET');
    return code;
  }
  client.write(`From: a@example.com\r\nSubject: full\r\n\r\n${`${'x'.repeat(78)}\r\n`.repeat(lines)}.\r\n`);
  return (await client.reply()).code;
}

/** Sends messages, every third with a body that is a file, until one is put off; how many were accepted. */
async function fill(client: RawSmtpClient): Promise<number> {
  for (let accepted = 0; ; accepted += 1) {
    const code = await send(client, accepted % 3 === 0 ? 4000 : 1000);
    if (code === 250) continue;
    expect(code).toBe(452);
    return accepted;
  }
}

/** Sends a message with so many lines by REST; the status, and the code of what it was refused for. */
async function sendByRest({ ports }: PosternProcess, lines: number): Promise<readonly unknown[]> {
  const answer = await fetch(`http://127.0.0.1:${ports['http']}/client/v4/accounts/dev/email/sending/send`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${testToken}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({
      from: 'a@example.com',
      to: 'b@example.net',
      subject: 'full',
      text: `${'x'.repeat(78)}\r\n`.repeat(lines),
    }),
  });
  const { errors } = (await answer.json()) as { readonly errors: readonly { code: number; message: string }[] };
  return [answer.status, answer.headers.get('retry-after'), ...errors.map(({ code, message }) => `${code} ${message}`)];
}

async function readiness({ ports }: PosternProcess): Promise<number> {
  return (await fetch(`http://127.0.0.1:${ports['http']}/readyz`)).status;
}

function queue({ folder, dataDir, certsDir }: PosternProcess, ...args: readonly string[]) {
  const env = {
    POSTERN_CONFIG: join(folder, 'postern.yaml'),
    POSTERN_DATA_DIR: dataDir,
    POSTERN_CERTS_DIR: certsDir,
  };
  return runCli(['queue', ...args], { env });
}

// The log of SQLite (WAL) may grow by 16 MiB before it is written back: the room that stays free is more than that.
test('mail is put off before the disk is full, nothing accepted is lost, and with room it is taken again', async () => {
  const { running, client } = await start(40 * megabyte);
  const accepted = await fill(client);
  const { bavail, bsize } = statfsSync(running.dataDir);
  expect(bavail * bsize).toBeGreaterThan(0);
  await running.until(() => running.log().find(({ msg }) => msg === 'the spool takes no mail'));
  expect(await readiness(running)).toBe(503);
  expect(await send(client, 1)).toBe(452);
  expect(await sendByRest(running, 1)).toEqual([503, '30', expect.stringMatching(/^10003 E_NO_ROOM: /)]);
  const { stdout } = await queue(running, 'list', '--json', '--limit', '10000');
  const ids = stdout
    .trim()
    .split('\n')
    .map((line) => (JSON.parse(line) as { readonly id: string }).id);
  expect(ids).toHaveLength(accepted);

  // The bodies of every third message are files, which are gone when the message is.
  expect(await queue(running, 'drop', ...ids)).toMatchObject({ exitCode: 0, stderr: '' });
  await expect.poll(() => readiness(running), { timeout: 10_000 }).toBe(200);
  expect(await send(client, 1000)).toBe(250);
});

test('a disk that is full all the same puts mail off, keeps what was accepted, and is over when there is room', async () => {
  const { running, client } = await start(0);
  const ballast = join(running.dataDir, 'ballast');
  const { bavail, bsize } = statfsSync(running.dataDir);
  writeFileSync(ballast, Buffer.alloc(Math.max(0, bavail * bsize - 6 * megabyte)));
  const accepted = await fill(client);
  expect(accepted).toBeGreaterThan(0);
  expect(await sendByRest(running, 4000)).toEqual([503, '30', expect.stringMatching(/^10003 E_NO_ROOM: /)]);
  rmSync(ballast);
  await expect.poll(() => send(client, 1000), { timeout: 10_000 }).toBe(250);
  await expect.poll(() => readiness(running), { timeout: 10_000 }).toBe(200);
  // What was put off is not among them.
  const summary = (await queue(running, 'summary')).stdout;
  expect(summary).toContain(`In all: ${accepted + 1} messages queued, 0 failed`);
});

test('the full disk of a PostgreSQL puts mail off, keeps what was accepted, and is over when there is room', async () => {
  requirePrograms('runuser', 'pg_ctlcluster');
  const server = await startPostgres();
  onTestFinished(() => server.remove());
  const { url, disk } = await server.createSmallDatabase(96);
  const { running, client } = await startIn(scratchFolder(), { database: { url } });
  disk.fill(megabyte / 4);
  const accepted = await fill(client);
  expect(await sendByRest(running, 4000)).toEqual([503, '30', expect.stringMatching(/^10003 E_NO_ROOM: /)]);
  await expect.poll(() => readiness(running), { timeout: 10_000 }).toBe(503);
  disk.makeRoom();
  await expect.poll(() => send(client, 1000), { timeout: 30_000 }).toBe(250);
  await expect.poll(() => readiness(running), { timeout: 30_000 }).toBe(200);
  const summary = (await queue(running, 'summary')).stdout;
  expect(summary).toContain(`In all: ${accepted + 1} messages queued, 0 failed`);
  await running.end('SIGTERM');
});

test('compiled code that a full disk cannot take leaves no descriptors open, in the first thread or in a database’s, which ends', async () => {
  const folder = scratchFolder();
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m,mode=700', 'tmpfs', folder]);
  mounted = folder;
  writeFileSync(join(folder, 'fill'), Buffer.alloc(1_048_576));
  const file = (name: string): string => JSON.stringify(join(projectRoot, 'src', name));
  const code = `import { readdirSync } from 'node:fs';
    import { settleHeap } from ${file('base/load/compiled-code.ts')};
    import { openDatabase } from ${file('base/database/sqlite-database.ts')};
    const open = () => readdirSync('/proc/self/fd').length;
    await import(${file('app/config/config.ts')});
    const before = open();
    settleHeap();
    const settled = open();
    const database = await openDatabase(${JSON.stringify(join(scratchFolder(), 'a.db'))});
    await database.close();
    console.log(JSON.stringify([settled - before, open() <= settled]));`;
  const env = { NODE_COMPILE_CACHE: folder };
  const program = join(scratchFolder(), 'program.mjs');
  writeFileSync(program, code);
  const { output } = await runProgram(process.execPath, [program], { env });
  expect(output).toBe('[0,true]\n');
});
