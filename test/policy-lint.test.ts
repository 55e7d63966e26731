// postern-lint, its action and the matchers, as the package's build makes them.

import { spawnSync } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parse } from 'yaml';
import { rejections } from '../src/pipeline/policy/rejections.ts';
import { builtPolicyFolder, policyFolder } from './support/built-policy.ts';

let folder: string;
let lint: string;

const good = 'From: a@example.com\r\nTo: b@example.net\r\nSubject: s\r\n\r\nHello\r\n';
const bad = 'From: a@example.com\r\nSubject: s\r\n folded\r\nUser-Agent: x\r\nPrecedence: first-class\r\n\r\nHello\r\n';

beforeAll(() => {
  lint = join(builtPolicyFolder(), 'lint.js');
  folder = mkdtempSync(join(tmpdir(), 'postern-lint-'));
  for (const name of ['mail/deep', 'box/cur', 'box/new', 'box/tmp']) mkdirSync(join(folder, name), { recursive: true });
  const files: Readonly<Record<string, string>> = {
    'mail/good.eml': good,
    'mail/bad.eml': bad,
    'mail/deep/unix.eml': bad.replaceAll('\r\n', '\n'),
    'mail/notes.txt': 'no message',
    'box/cur/1:2,S': `Return-Path: <a@example.com>\nDelivered-To: b@example.net\n${good.replaceAll('\r\n', '\n')}`,
    'box/tmp/2': bad,
    'all.mbox':
      `From a@example.com Mon Mar  2 10:20:30 2026\n${good.replace('Subject', 'Status: RO\r\nSubject')}\nFrom a@example.com Mon Mar  2 10:20:31 2026\n${bad}\n`.replaceAll(
        '\r\n',
        '\n',
      ),
    'request.json': '{"from":"a@example.com","to":"b@example.net","subject":"s","text":"t","headers":{"Sender":"x"}}',
  };
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
}, 60_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function run(
  args: readonly string[],
  input = '',
): { readonly code: number | null; readonly output: string; readonly errors: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, [lint, ...args], {
    cwd: folder,
    input,
    encoding: 'utf8',
  });
  return { code: status, output: stdout, errors: stderr };
}

const agent = 'E_HEADER_NOT_ALLOWED: User-Agent is not on the allowlist';
const precedence = 'E_HEADER_VALUE_INVALID: Precedence must be one of bulk, list, junk; got "first-class"';

test('files: each reason with the line of its field, and 1 where one is refused', () => {
  expect(run(['mail/good.eml'])).toEqual({
    code: 0,
    output: 'mail/good.eml: accepted\n1 accepted, 0 refused\n',
    errors: '',
  });
  expect(run(['--quiet', 'mail/good.eml', 'mail/bad.eml', 'mail/deep/unix.eml'])).toEqual({
    code: 1,
    output: `mail/bad.eml:4: ${agent}\nmail/bad.eml:5: ${precedence}\nmail/deep/unix.eml:4: ${agent}\nmail/deep/unix.eml:5: ${precedence}\n1 accepted, 2 refused\n`,
    errors: '',
  });
});

test('a file whose name has characters of a pattern is judged by its name', () => {
  writeFileSync(join(folder, 'one{of*.msg'), good);
  expect(run(['one{of*.msg'])).toMatchObject({ code: 0, output: 'one{of*.msg: accepted\n1 accepted, 0 refused\n' });
});

test('patterns, standard input, settings of a credential, links to pages', () => {
  expect(run(['--quiet', '**/*.eml']).output).toMatch(/\n1 accepted, 2 refused\n$/);
  expect(run(['mail/{good,none}.eml', 'mail/g??d.eml']).output).toMatch(/\n2 accepted, 0 refused\n$/);
  expect(run(['-'], good).code).toBe(0);
  expect(run(['--strip', 'User-Agent', '--strip-invalid', 'Precedence', 'mail/bad.eml']).code).toBe(0);
  expect(run(['--domain', 'example.org', 'mail/good.eml']).output).toContain('E_SENDER_NOT_VERIFIED');
  const { output } = run(['--pages', 'https://gateway.example/', 'mail/bad.eml']);
  expect(output).toContain('allowlist (https://gateway.example/headers/User-Agent)\n');
});

test('mbox, Maildir and folders: as they were sent, and files that are no messages are passed over', () => {
  expect(run(['all.mbox'])).toMatchObject({
    code: 1,
    output: `all.mbox:1: accepted\nall.mbox:2: ${agent}\nall.mbox:2: ${precedence}\n1 accepted, 1 refused\n`,
  });
  expect(run(['box'])).toMatchObject({ code: 0, output: expect.stringMatching(/1 accepted, 0 refused\n$/) });
  expect(run(['--quiet', 'mail'])).toMatchObject({
    code: 1,
    output: expect.stringMatching(/1 accepted, 2 refused\n$/),
  });
});

test('what cannot be read, and wrong use, end with 2', () => {
  expect(run(['none.eml', 'mail/good.eml'])).toMatchObject({
    code: 2,
    output: expect.stringMatching(/none\.eml: not read: ENOENT/),
  });
  expect(run([]).code).toBe(2);
  expect(run(['*.none'])).toMatchObject({ code: 2, errors: 'postern-lint: no file is like *.none\n' });
  expect(run(['--format', 'xml', 'mail/good.eml']).errors).toMatch(/--format is text, json or sarif/);
  expect(run(['--none']).code).toBe(2);
  expect(run(['--help'])).toMatchObject({ code: 0, output: expect.stringMatching(/^Usage: postern-lint/) });
});

test('what may not be read is told beside the others', () => {
  for (const name of ['closed/a.eml', 'closed/b.eml']) {
    mkdirSync(join(folder, 'closed/folder'), { recursive: true });
    writeFileSync(join(folder, name), good);
  }
  for (const path of [folder, dirname(lint)]) chmodSync(path, 0o755);
  for (const name of ['closed/a.eml', 'closed/folder']) chmodSync(join(folder, name), 0o000);
  // Nothing is closed to root.
  const nobody = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};
  for (const args of [['closed/a.eml', 'closed/b.eml', 'closed/folder'], ['closed/**/*.eml']]) {
    const { status, stdout } = spawnSync(process.execPath, [lint, ...args], {
      cwd: folder,
      encoding: 'utf8',
      ...nobody,
    });
    expect([status, stdout.split('\n').toSorted()]).toEqual([
      2,
      [
        '',
        '1 accepted, 0 refused, 2 not read',
        expect.stringMatching(/^closed\/a\.eml: not read: EACCES/),
        'closed/b.eml: accepted',
        expect.stringMatching(/^closed\/folder\/?: not read: EACCES/),
      ],
    ]);
  }
  // A folder below those of the pattern is none of its business.
  expect(run(['closed/*.eml']).output).not.toContain('closed/folder');
});

test('JSON and SARIF', () => {
  const json = JSON.parse(run(['--format', 'json', 'mail/bad.eml', 'request.json']).output);
  expect(json).toMatchObject({
    accepted: false,
    files: [
      {
        file: 'mail/bad.eml',
        reasons: [{ code: 'E_HEADER_NOT_ALLOWED', name: 'User-Agent', line: 4, page: '/headers/User-Agent' }, {}],
      },
      { file: 'request.json', reasons: [{ code: 'E_HEADER_NOT_ALLOWED', pointer: '/headers/Sender' }] },
    ],
  });
  const sarif = JSON.parse(run(['--format', 'sarif', 'mail/bad.eml', 'all.mbox', 'none']).output);
  expect(sarif).toMatchObject({ version: '2.1.0', runs: [{ invocations: [{ executionSuccessful: false }] }] });
  const [{ tool, results }] = sarif.runs;
  expect(tool.driver.rules.map(({ id }: { id: string }) => id)).toEqual(Object.keys(rejections));
  const location = (uri: string, startLine?: number) => [
    { physicalLocation: { artifactLocation: { uri }, ...(startLine === undefined ? {} : { region: { startLine } }) } },
  ];
  expect(results).toEqual([
    {
      ruleId: 'E_HEADER_NOT_ALLOWED',
      level: 'error',
      message: { text: agent.slice(22) },
      locations: location('mail/bad.eml', 4),
    },
    {
      ruleId: 'E_HEADER_VALUE_INVALID',
      level: 'error',
      message: { text: precedence.slice(24) },
      locations: location('mail/bad.eml', 5),
    },
    {
      ruleId: 'E_HEADER_NOT_ALLOWED',
      level: 'error',
      message: { text: agent.slice(22) },
      locations: location('all.mbox'),
    },
    {
      ruleId: 'E_HEADER_VALUE_INVALID',
      level: 'error',
      message: { text: precedence.slice(24) },
      locations: location('all.mbox'),
    },
  ]);
});

interface Action {
  readonly inputs: Readonly<Record<string, object>>;
  readonly runs: {
    readonly using: string;
    readonly steps: readonly { readonly run: string; readonly shell: string; readonly env?: Record<string, string> }[];
  };
}

test('the action runs it with its inputs, and fails as it does', () => {
  const action = parse(readFileSync(join(policyFolder, 'action.yml'), 'utf8')) as Action;
  const step = action.runs.steps[1];
  expect([action.runs.using, Object.keys(action.inputs), step?.shell]).toEqual([
    'composite',
    ['files', 'arguments', 'output'],
    'bash',
  ]);
  const inputs: Readonly<Record<string, string>> = {
    LINT: lint,
    FILES: 'mail/good.eml\n\nmail/bad.eml\n',
    ARGUMENTS: '--format\njson\n--strip\nUser-Agent\n',
    OUTPUT: 'found.json',
  };
  expect(Object.keys(step?.env ?? {})).toEqual(Object.keys(inputs));
  const bash = (env: Readonly<Record<string, string>>) =>
    spawnSync('bash', ['-e', '-o', 'pipefail', '-c', step?.run ?? ''], {
      cwd: folder,
      encoding: 'utf8',
      env: { PATH: process.env['PATH'] ?? '', ...inputs, ...env },
    });
  expect(bash({}).status).toBe(1);
  expect(JSON.parse(readFileSync(join(folder, 'found.json'), 'utf8')).files[1].reasons).toHaveLength(1);
  expect(bash({ FILES: 'mail/good.eml', ARGUMENTS: '', OUTPUT: '' })).toMatchObject({
    status: 0,
    stdout: 'mail/good.eml: accepted\n1 accepted, 0 refused\n',
  });
});

test('the matcher passes what a gateway would accept, and tells why it would refuse', async () => {
  const built = join(folder, 'built');
  cpSync(builtPolicyFolder(), built, { recursive: true });
  const { default: matchers } = (await import(/* @vite-ignore */ pathToFileURL(join(built, 'matchers.js')).href)) as {
    readonly default: Parameters<typeof expect.extend>[0];
  };
  expect.extend(matchers);
  const that = (message: unknown) =>
    expect(message) as unknown as { not: { toPassPostern(): void }; toPassPostern(options?: object): void };
  that(good).toPassPostern({ sendingDomains: ['example.com'] });
  that(bad).not.toPassPostern();
  expect(() => that(bad).toPassPostern()).toThrow(`Postern would refuse the message:\n  ${agent}\n  ${precedence}`);
  expect(() => that(good).not.toPassPostern()).toThrow('Postern would accept the message');
});
