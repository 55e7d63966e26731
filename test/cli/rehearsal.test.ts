// `postern check` over folders, Maildirs and mbox files: the report of what would be refused, and the share accepted with
// what it proposes.

import { execFileSync } from 'node:child_process';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { runCommandLine } from '../../src/cli/run.ts';
import { scratchFolder } from '../support/scratch.ts';

const fromLine = 'From a@example.com Sun Nov 22 08:00:00 2026';
const plain = 'From: a@example.com\nSubject: plain\n\nx\n';
const marked =
  'From: a@example.com\nSubject: marked\nUser-Agent: s-nail v14.9.24\nDate: Sun, 22 Nov 2026 08:00:00 +0000\n\nx\n';
const foreign = 'From: a@example.edu\nSubject: foreign\n\nx\n';

async function check(args: readonly string[]) {
  const written = { stdout: '', stderr: '' };
  const into = (name: 'stdout' | 'stderr') => ({
    write: (text: string) => {
      written[name] += text;
    },
  });
  const io = { stdout: into('stdout'), stderr: into('stderr'), env: {}, cwd: process.cwd() };
  return { exitCode: await runCommandLine(['check', ...args], io), ...written };
}

function archive(files: Readonly<Record<string, string | Buffer>>): string {
  const folder = scratchFolder();
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(join(folder, name, '..'), { recursive: true });
    writeFileSync(join(folder, name), content);
  }
  return folder;
}

function mbox(...messages: readonly string[]): string {
  return messages.map((message) => `${fromLine}\n${message}\n`).join('');
}

test('an mbox: what would be refused, by mailer, and the lines that cure it', async () => {
  const file = join(archive({ 'sent.mbox': mbox(plain, marked, marked, foreign) }), 'sent.mbox');
  const { exitCode, stdout, stderr } = await check([file]);
  expect([exitCode, stderr]).toEqual([1, '']);
  expect(stdout).toContain('dev/default: 1 of 4 messages accepted (25.0 %)\n');
  expect(stdout).toContain('  User-Agent: s-nail v14.9.24: 2 messages refused, last 2026-11-22T08:00:00Z\n');
  expect(stdout).toContain('strip: [User-Agent]   or in the program: set stealthmua=noagent\n');
  expect(stdout).toContain('add example.edu to sendingDomains');
  expect(stdout).not.toContain('With these lines');
  // Each finding names messages that have it, by file and number.
  expect(stdout).toContain(`\n            for example ${file}:2, ${file}:3\n`);
  expect(stdout).toContain(`\n            for example ${file}:4\n`);
});

test('a finding names three messages at most, in JSON too', async () => {
  const folder = archive({ 'a.eml': marked, 'sent.mbox': mbox(plain, marked, marked, marked, marked) });
  const { mailers } = JSON.parse((await check(['--json', join(folder, 'a.eml'), join(folder, 'sent.mbox')])).stdout);
  expect(mailers[0].problems[0]).toMatchObject({
    count: 5,
    examples: [3, 4, 5].map((number) => `${join(folder, 'sent.mbox')}:${number}`),
  });
});

test('--apply judges again with what it proposes, and tells both shares', async () => {
  const folder = archive({ 'a.eml': plain, 'b.eml': marked, 'c.eml': foreign });
  const { exitCode, stdout } = await check(['--apply', folder]);
  expect(exitCode).toBe(1);
  expect(stdout).toContain('Without these lines 1 of 3 messages accepted (33.3 %)\n');
  expect(stdout).toContain('With these lines    2 of 3 messages accepted (66.6 %)\n');
  const json: unknown = JSON.parse((await check(['--apply', '--json', folder])).stdout);
  expect(json).toMatchObject({
    messages: 3,
    accepted: 1,
    proposal: ['strip: [User-Agent]'],
    after: { accepted: 2, refused: 1, mailers: [{ problems: [{ code: 'E_SENDER_NOT_VERIFIED' }] }] },
  });
  expect((await check(['--apply', join(folder, 'a.eml'), join(folder, 'b.eml')])).exitCode).toBe(0);
});

test('what stood behind another fault is cured as well', async () => {
  // D2: of a name the first broken rule is told. X-Loop is too long in one message, and repeats in another one.
  const long = `From: a@example.com\nX-Old: ${'a '.repeat(1100)}b\nX-Loop: 1\nX-Loop: 2\n\nx\n`;
  const cron = 'From: root (Cron Daemon)\nReceived: by x; y\nX-Cron-Env: <A=1>\nX-Cron-Env: <B=2>\nX-Empty:\n\nx\n';
  const { exitCode, stdout } = await check(['--apply', archive({ cron, long })]);
  expect(exitCode).toBe(0);
  expect(stdout).toContain(
    '\n      strip: [X-Cron-Env]\n      stripInvalid: [X-Old]\n      stripEmpty: true\n      keepFirst: [X-Loop]\n      trustedHop: true\n      defaultDomain: example.com\n',
  );
});

test('a Maildir: cur and new, folders within it, never tmp nor what is beside them', async () => {
  const folder = archive({
    'cur/1:2,S': plain,
    'new/2': marked,
    'tmp/3': foreign,
    'dovecot-uidlist': foreign,
    '.Sent/cur/4': plain,
    '.Sent/new/.keep': '',
    '.Sent/tmp/5': foreign,
  });
  const { stdout } = await check([folder]);
  expect(stdout).toContain('2 of 3 messages accepted');
  expect(stdout).not.toContain('example.edu');
});

test('links are not followed, pipes are not waited for, and what is no message is told', async () => {
  const outside = archive({ secret: foreign });
  const folder = archive({
    'good.eml': plain,
    'picture.png': Buffer.from([0x89, 0x50, 0x4e, 0x47, 0, 0, 0]),
    empty: '',
    'notes.txt': 'Dear all,\nno header here\n',
    'data.json': '{"from": "x"}\n',
    'escape\u001b[2J.eml': 'no: message\n\n',
  });
  symlinkSync(join(outside, 'secret'), join(folder, 'link.eml'));
  symlinkSync(outside, join(folder, 'linked'));
  execFileSync('mkfifo', [join(folder, 'pipe')]);
  const { exitCode, stdout, stderr } = await check([folder]);
  expect(exitCode).toBe(0);
  expect(stdout).toContain('1 of 1 message accepted (100.0 %)');
  const told = stderr.split('\n').filter((one) => one !== '');
  expect(told).toHaveLength(8);
  expect(told.filter((one) => one.endsWith('passed over: no plain file'))).toHaveLength(3);
  expect(stderr).toContain('escape\\x1b[2J.eml: passed over: no message');
});

test('what delivery and the mailbox wrote is set aside; a Return-Path tells the sender', async () => {
  const trace = 'Received: by a; b\nDKIM-Signature: v=1\n';
  const delivered = `Return-Path: <a@example.com>\nDelivered-To: b\n${trace}${plain}`;
  const bounce = `Return-Path: <>\n${trace}From: MAILER-DAEMON@box.internal\nSubject: failed\n\nx\n`;
  const kept = plain.replace('\n', '\nStatus: RO\nX-Status: A\nContent-Length: 2\nLines: 1\n');
  const folder = archive({ delivered, bounce, 'in.mbox': mbox(kept), sent: `${trace}${plain}` });
  const { stdout, stderr } = await check(['--apply', folder]);
  expect(stderr).toContain('Of 3 messages fields were set aside');
  expect(stdout).toContain('2 of 4 messages accepted (50.0 %)\n');
  expect(stdout).toContain(
    '\n      strip: [DKIM-Signature]\n      trustedHop: true\n      defaultDomain: example.com\n',
  );
  expect(stdout).toContain('With these lines    4 of 4 messages accepted (100.0 %)\n');
});

test('text of another character set is told, though nothing is refused', async () => {
  const polish = Buffer.from(
    'From: a@example.com\nSubject: \xb1\xe6\xea\nContent-Type: text/plain; charset=iso-8859-2\n\nx\n',
    'latin1',
  );
  const { exitCode, stdout } = await check([archive({ polish })]);
  expect(exitCode).toBe(0);
  expect(stdout).toContain('is iso-8859-2, and is read as windows-1252');
  expect(stdout).toContain('\n      legacyCharset: iso-8859-2\n');
});

test('a message over the limit is refused by its size, with its mailer known', async () => {
  const large = `${marked}${'x'.repeat(6_000_000)}\n`;
  const { stdout } = await check([archive({ large })]);
  expect(stdout).toContain('User-Agent: s-nail v14.9.24: 1 message refused');
  expect(stdout).toMatch(/E_CONTENT_TOO_LARGE: The message has 600\d{4} octets, at most 5242880 are allowed/);
});

test('single files are judged one by one as before, unless the report is asked for', async () => {
  const file = join(archive({ 'a.eml': marked }), 'a.eml');
  expect((await check([file])).stdout).toContain('a.eml: refused, 1 reason\n');
  expect((await check(['--report', file])).stdout).toContain('0 of 1 message accepted');
  expect(await check(['--report', '-'])).toMatchObject({ exitCode: 64, stdout: '' });
  expect(await check(['--report', '--as-sent', file])).toMatchObject({ exitCode: 64, stdout: '' });
  expect(await check([join(file, 'nowhere')])).toMatchObject({ exitCode: 64 });
});

test('an archive without a message is no success', async () => {
  expect(await check([archive({ 'a.txt': 'no' })])).toMatchObject({ exitCode: 1 });
});
