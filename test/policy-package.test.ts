// The policy package as it is built: the verdicts of the gateway on the golden messages and on random ones, without Node, within
// its size, with types that stand alone. The doors themselves are asked in one-verdict.test.ts.
// POSTERN_POLICY_MESSAGES=100000 judges so many random messages.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createContext, runInContext } from 'node:vm';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { beforeAll, expect, test } from 'vitest';
import type { Judgement, JudgeOptions } from '../packages/policy/src/types.ts';
import { build, examine } from '../src/pipeline/submit.ts';
import { builtPolicy, builtPolicyFile, type PolicyModule, policyFolder } from './support/built-policy.ts';
import { goldenParts, makeGoldenKeys, readGoldenCase } from './support/golden-gateway.ts';
import { context, devAccount, type SubmissionOptions, smtpSubmission } from './support/policy-fixtures.ts';
import fc from './support/properties.ts';
import { randomMessage } from './support/random-messages.ts';

const folder = resolve(import.meta.dirname, 'golden');
const names = readdirSync(folder)
  .filter((file) => file.endsWith('.eml') && !file.endsWith('.sent.eml'))
  .map((file) => file.slice(0, -'.eml'.length));

let policy: PolicyModule;
const keys = makeGoldenKeys();
beforeAll(async () => {
  policy = await builtPolicy();
}, 60_000);

/** The settings of a credential of the tests' account as the package takes them. */
function optionsOf({
  credential: name = 'default',
  reversePath = 'bounces@example.com',
}: SubmissionOptions): JudgeOptions {
  const { strip, trustedHop, defaultDomain, legacyCharset } = devAccount.credentials.get(name) ?? {};
  return {
    account: 'dev',
    sendingDomains: devAccount.sendingDomains,
    reversePath,
    strip: [...(strip?.names ?? [])],
    trustedHop: trustedHop ?? false,
    ...(defaultDomain === undefined ? {} : { defaultDomain }),
    ...(legacyCharset === undefined ? {} : { legacyCharset }),
  };
}

/** Field lines without those that the platform writes of its own knowledge. */
function lines(head: string): readonly string[] {
  const own = /^(?:Received: from .*Postern|Date|Message-ID|Feedback-ID|CFBL-|DKIM-Signature)/is;
  const fields = (head.split('\r\n\r\n', 1)[0] ?? '').split(/\r\n(?![ \t])/);
  return fields.filter((line) => line !== '' && !own.test(line));
}

function told({ violations, fields }: Judgement) {
  return {
    violations: violations.map(({ code, message, name }) => ({
      code,
      message,
      ...(name === undefined ? {} : { name }),
    })),
    fields: fields.map(({ name, verdict, rule }) => ({ name, verdict, rule })),
  };
}

/** Fails unless the package and the gateway's pipeline say the same of a message; gives the verdict. */
async function expectSame(raw: Buffer, options: SubmissionOptions): Promise<Judgement['verdict']> {
  const judged = policy.judge(raw, optionsOf(options));
  const submission = smtpSubmission(raw, { reversePath: 'bounces@example.com', ...options });
  const { explanation, violations } = await examine(submission, context);
  expect(told(judged)).toEqual({
    violations,
    fields: explanation.headers.map(({ name, verdict, rule }) => ({ name, verdict, rule })),
  });
  if (violations.length > 0) {
    expect(judged.wouldLeave).toBeNull();
    return judged.verdict;
  }
  const built = await build(submission, goldenParts(keys));
  if (!built.ok) throw new Error('The gateway admits the message and does not build it');
  expect(lines(judged.wouldLeave ?? '')).toEqual(lines(built.signed.head.toString('utf8')));
  return judged.verdict;
}

test.each(names)('golden %s: the verdict and the head of the gateway', async (name) => {
  const options = readGoldenCase(folder, name);
  const raw = readFileSync(join(folder, `${name}.eml`));
  // A file with LF alone is read as if it had CRLF; by SMTP that is not done.
  if (raw.includes('\r\n') || !raw.includes('\n')) await expectSame(raw, options);
});

test('random messages: the verdict and the head of the gateway', { timeout: 3_600_000 }, async () => {
  const numRuns = Number(process.env['POSTERN_POLICY_MESSAGES'] ?? 2000);
  let accepted = 0;
  const property = fc.asyncProperty(randomMessage, async ({ raw, ...options }) => {
    if (!raw.includes('\r\n')) return;
    if ((await expectSame(raw, options)) === 'accepted') accepted += 1;
  });
  await fc.assert(property, { numRuns });
  expect(accepted).toBeGreaterThan(numRuns / 50);
  expect(accepted).toBeLessThan(numRuns * 0.9);
});

test('it needs TextDecoder, TextEncoder and URL, and no more of any platform', () => {
  const program = builtPolicyFile('index.js').replace(/^export \{ ([^}]*) \};$/m, (_, list: string) => {
    const judge = /(?:(\w+) as )?judge\b/.exec(list);
    return `globalThis.judge = ${judge?.[1] ?? 'judge'};`;
  });
  expect(program).not.toMatch(/\bimport\b[ (.]|\brequire\(['"]|\bprocess\.|\bawait\b/);
  const realm = createContext({ TextDecoder, TextEncoder, URL });
  runInContext(program, realm);
  const judge = runInContext('judge', realm) as PolicyModule['judge'];
  const judged = judge(
    'From: J\u00fcrgen <a@example.com>\nX-A: =?koi8-r?B?8NLJ18XU?=\nPrecedence: first-class\n\nHi\n',
  );
  expect(judged.violations).toEqual([
    {
      code: 'E_HEADER_VALUE_INVALID',
      name: 'Precedence',
      message: 'Precedence must be one of bulk, list, junk; got "first-class"',
      smtp: { code: 554, enhanced: '5.6.0' },
      http: { status: 400, code: 10202 },
    },
  ]);
});

test('it judges fields, requests and the text of a request', () => {
  expect(
    policy.judge([
      ['From', 'a@example.com'],
      ['X-A', '1'],
    ]).verdict,
  ).toBe('accepted');
  expect(policy.judge([['X-A', '1']]).violations.map(({ code }) => code)).toEqual(['E_FIELD_MISSING']);
  const request = {
    from: 'a@example.com',
    to: 'b@example.net',
    subject: 's',
    text: 't',
    headers: { 'User-Agent': 'x' },
  };
  expect(policy.judge(request).violations.map(({ pointer }) => pointer)).toEqual(['/headers/User-Agent']);
  const twice = JSON.stringify(request).replace('"User-Agent":"x"', '"X-A":"1","x-a":"2"');
  expect(policy.judge({ json: twice }).violations.map(({ message }) => message)).toEqual([
    'X-A appears 2 times, at most once is allowed',
  ]);
  expect(policy.judge({ json: '{' }).violations[0]?.message).toMatch(/^The request body is no JSON/);
  const raw = { from: 'a@example.com', recipients: ['b@example.net'], mime_message: 'From: a@example.com\n\nHi\n' };
  expect(policy.judge(raw)).toMatchObject({ verdict: 'accepted', fields: [{ name: 'From', page: '/headers/From' }] });
});

test('domains with letters beyond ASCII are those of the addresses', () => {
  const message = 'From: a@b\u00fccher.example\r\nTo: b@example.net\r\nSubject: s\r\n\r\nHello\r\n';
  expect(policy.judge(message, { sendingDomains: ['B\u00fccher.example'] }).violations).toEqual([]);
  const bare = message.replace(/From: .*/, 'From: a');
  const options: JudgeOptions = { sendingDomains: ['xn--bcher-kva.example'], defaultDomain: 'B\u00fccher.example' };
  expect(policy.judge(bare, options).violations).toEqual([]);
});

test('a request that JSON cannot write is refused, and nothing is thrown', () => {
  let headers: object = {};
  for (let depth = 0; depth < 100_000; depth += 1) headers = { headers };
  const request = { from: 'a@example.com', to: 'b@example.net', subject: 's', text: 't', headers };
  expect(policy.judge(request as never)).toMatchObject({
    verdict: 'refused',
    violations: [{ code: 'E_VALIDATION_ERROR' }],
  });
});

test('a browser loads less than 60 KB', () => {
  const code = builtPolicyFile('index.min.js');
  expect(gzipSync(code, { level: 9 }).length).toBeLessThan(60_000);
  expect(brotliCompressSync(code).length).toBeLessThan(50_000);
});

const program = `import { judge, limits, type Judgement, type Violation } from 'postern-policy';
const judged: Judgement = judge('From: a@example.com', { sendingDomains: ['example.com'], strip: ['X-*'] });
export const codes: string[] = judged.violations.map((violation: Violation) => violation.code);
export const size: number = limits.valueBytes + (judged.wouldLeave?.length ?? 0);
judge([['From', 'a@example.com']]);
judge({ from: 'a@example.com', to: ['b@example.net'] });
judge({ json: '{}' });
judge(new Uint8Array(3));
`;

test('its types hold for a strict program, and need no others', { timeout: 60_000 }, () => {
  const project = mkdtempSync(join(tmpdir(), 'postern-policy-types-'));
  try {
    writeFileSync(join(project, 'postern-policy.d.ts'), builtPolicyFile('index.d.ts'));
    const compilerOptions = {
      ...{ strict: true, exactOptionalPropertyTypes: true, noEmit: true, lib: ['es2022'], types: [] },
      ...{ module: 'esnext', moduleResolution: 'bundler', paths: { 'postern-policy': ['./postern-policy.d.ts'] } },
    };
    writeFileSync(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['use.ts'] }));
    const compiler = resolve(policyFolder, '../../node_modules/@typescript/native/bin/tsc');
    const compile = (text: string): string => {
      writeFileSync(join(project, 'use.ts'), text);
      try {
        return execFileSync(process.execPath, [compiler], { cwd: project, encoding: 'utf8' });
      } catch (error) {
        return String((error as { stdout?: unknown }).stdout);
      }
    };
    expect(compile(program)).toBe('');
    expect(compile(program.replace("strip: ['X-*']", 'strip: 5'))).toMatch(/TS2322/);
  } finally {
    rmSync(project, { recursive: true, force: true });
  }
});
