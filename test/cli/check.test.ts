// `postern check`: the verdict on files before anything is sent (D47).

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { runCommandLine } from '../../src/cli/run.ts';
import { dkimRecords, verifySignatures } from '../support/dkim-verifier.ts';
import { startHere } from '../support/postern-here.ts';
import { runCli } from '../support/run-cli.ts';
import { scratchFolder } from '../support/scratch.ts';

const timeout = 60_000;

async function check(message: string | Buffer, ...options: string[]) {
  const folder = scratchFolder();
  writeFileSync(join(folder, 'message.eml'), message);
  const written = { stdout: '', stderr: '' };
  const into = (name: 'stdout' | 'stderr') => ({
    write: (text: string) => {
      written[name] += text;
    },
  });
  const args = ['check', ...options, join(folder, 'message.eml')];
  const io = { stdout: into('stdout'), stderr: into('stderr'), env: {}, cwd: process.cwd() };
  return { exitCode: await runCommandLine(args, io), ...written };
}

test('each header’s verdict, every reason, and what the limits counted', async () => {
  const message = 'From: a@example.com\nUser-Agent: x\nX-Foo: bar\nPrecedence: first-class\n\nHi\n';
  const { exitCode, stdout } = await check(message);
  expect(exitCode).toBe(1);
  expect(stdout).toContain(': refused, 2 reasons\n');
  expect(stdout).toMatch(/^ {2}From: lifted +One of the message’s own fields/m);
  expect(stdout).toMatch(/^ {2}User-Agent: refused +E_HEADER_NOT_ALLOWED: /m);
  expect(stdout).toMatch(/^ {2}X-Foo: admitted +Any name/m);
  expect(stdout).toMatch(/^ {2}Precedence: refused +E_HEADER_VALUE_INVALID: /m);
  // X-Foo: 5 + 2 + 3 + 2; Precedence: 10 + 2 + 11 + 2.
  expect(stdout).toContain('  1 of 20 allowlisted headers, 37 of 16384 bytes\n');
  const json: unknown = JSON.parse((await check(message, '--json')).stdout);
  expect(json).toMatchObject({ admitted: false, usage: { allowlisted: 1, bytes: 37 } });
});

test('what --as may name is told', async () => {
  const { exitCode, stderr } = await check('From: a@example.com\n\n', '--as', 'dev/cronn');
  expect([exitCode, stderr]).toEqual([
    64,
    expect.stringMatching(/^--as: no credential "dev\/cronn"; did you mean "dev\/cron"\?/),
  ]);
});

test('the credential named by --as decides', async () => {
  const message = 'From: root\nX-Cron-Env: <A=B>\nX-Cron-Env: <C=D>\n\nHi\n';
  expect((await check(message)).exitCode).toBe(1);
  const cron = await check(message, '--as', 'dev/cron');
  expect(cron.exitCode).toBe(0);
  expect(cron.stdout).toMatch(/X-Cron-Env: stripped/);
});

test('--from <> judges a message as a bounce; without it the reverse-path is the account’s own (D4b)', async () => {
  const message = 'From: MAILER-DAEMON@box.internal\n\nHi\n';
  const options = ['--as', 'dev/oldbox'];
  expect((await check(message, ...options)).stdout).toContain('box.internal (domain of From) is not a sending domain');
  expect((await check(message, ...options, '--from', 'a@elsewhere.example')).stdout).toContain(
    'elsewhere.example (domain of MAIL FROM) is not a sending domain',
  );
  const bounce = await check(message, ...options, '--from', '<>');
  expect(bounce.exitCode).toBe(0);
  expect(bounce.stdout).toMatch(/^ {2}From: lifted +A mail server\S+ bounce: becomes MAILER-DAEMON@example\.com/m);
  expect((await check(message, ...options, '--from', '')).exitCode).toBe(0);
});

test('--observe tells what would be removed while the policy is observed, and what would be refused all the same (D4c)', async () => {
  const message = 'From: a@example.com\nUser-Agent: x\nX-Foo: bar\nX-Foo: bar\n\nHi\n';
  const passes = await check(message, '--observe');
  expect(passes.exitCode).toBe(0);
  expect(passes.stdout).toContain(': admitted while observed, 2 headers removed\n');
  expect(passes.stdout).toMatch(/^ {2}User-Agent: removed +E_HEADER_NOT_ALLOWED: User-Agent is not on the allowlist$/m);
  expect(passes.stdout).toMatch(/^ {2}X-Foo: removed +E_HEADER_VALUE_INVALID: X-Foo appears 2 times/m);
  const json: unknown = JSON.parse((await check(message, '--observe', '--json')).stdout);
  expect(json).toMatchObject({
    admitted: false,
    observed: {
      admitted: true,
      removed: [
        { name: 'User-Agent', index: 1, code: 'E_HEADER_NOT_ALLOWED' },
        { name: 'X-Foo', index: 3, code: 'E_HEADER_VALUE_INVALID' },
      ],
      violations: [],
    },
  });
  const refused = await check(message.replace('example.com', 'elsewhere.example'), '--observe');
  expect(refused.exitCode).toBe(1);
  expect(refused.stdout).toContain(': refused also while observed, 1 reason\n');
  expect(refused.stdout).toMatch(/^ {2}User-Agent: removed /m);
  expect(refused.stdout).toMatch(/^ {2}From: refused +E_SENDER_NOT_VERIFIED: /m);
  expect((await check('From: a@example.com\nX-A: b\n\nHi\n', '--observe')).stdout).toContain(': admitted\n');
  // Without the option the verdict is the one that holds from the day on.
  expect((await check(message)).stdout).toContain(': refused, 2 reasons\n');
});

test('nothing in the name of a file moves the cursor of a terminal, be the file there or not', async () => {
  const folder = scratchFolder();
  const name = 'evil\u001b[31m\u202ered\u001b]0;title\u0007.eml';
  writeFileSync(join(folder, name), 'From: a@example.com\r\n\r\nx\r\n');
  let written = '';
  const into = { write: (text: string) => (written += text) };
  const io = { stdout: into, stderr: into, env: {}, cwd: process.cwd() };
  expect(await runCommandLine(['check', join(folder, name)], io)).toBe(0);
  expect(await runCommandLine(['check', join(folder, `${name}.missing`)], io)).toBe(64);
  expect(written).toContain('evil\\x1b[31m\\x202ered\\x1b]0;title\\x07.eml: admitted');
  expect(written).toContain('.eml.missing"');
  expect(/(?!\n)[\p{Cc}\p{Cf}]/u.test(written)).toBe(false);
});

test('nothing that stands in a message moves the cursor of a terminal', async () => {
  const { stdout } = await check(
    'From: a@example.com \u009b31m\u202e\nX-\u001b[31m: y\nPrecedence: \u202ebulk\u0085\n' +
      'Content-Type: multipart/signed\u009b; boundary=b\n\ngr\u00fc\u00df\n',
  );
  expect(stdout.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
  expect(stdout).toContain('\\x9b31m\\x202e');
});

test(
  '--as-sent gives the very message that leaves, signed',
  async () => {
    const server = await startHere();
    try {
      const file = join(server.folder, 'message.eml');
      writeFileSync(file, 'From: a@example.com\nTo: b@example.net\nx-foo:  bar\nsubject: Gr\u00fc\u00dfe\n\nHi\n');
      const { exitCode, stdout, stderr } = await runCli(['check', '--as-sent', file], {
        env: { POSTERN_DATA_DIR: server.dataDir, POSTERN_CERTS_DIR: server.certsDir },
      });
      expect(stderr).toContain(': admitted\n');
      expect(exitCode).toBe(0);
      expect(stdout).toContain('\r\nSubject: =?utf-8?B?R3LDvMOfZQ==?=\r\n');
      expect(stdout).toContain('\r\nx-foo: bar\r\n');
      const verdicts = await verifySignatures(Buffer.from(stdout), dkimRecords(server.certsDir));
      expect(verdicts.map(({ result }) => result)).toEqual(['pass', 'pass', 'pass']);
      expect(server.captured()).toEqual([]);
    } finally {
      await server.cleanUp();
    }
  },
  timeout,
);
