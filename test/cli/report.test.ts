// `postern report`: what was refused, from the stored events of a real spool, beside whoever writes them.

import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { loadConfig } from '../../src/app/config/config.ts';
import { openSpool } from '../../src/app/wiring/engine/open-stores.ts';
import { runCommandLine } from '../../src/cli/run.ts';
import type { RefusalFacts } from '../../src/spool/events/refusal.ts';
import type { Spool } from '../../src/spool/spool.ts';
import { scratchFolder } from '../support/scratch.ts';
import { spoolEntry } from '../support/spool-entry.ts';

const hour = 3_600_000;
const yaml = `
accounts:
  - id: "a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1"
    name: dev
    sendingDomains: [{ name: example.com }]
    credentials: [{ name: default, strip: [X-Old] }, { name: cron }]
  - id: "b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2b2"
    name: other
    sendingDomains: [{ name: example.net }]
    credentials: [{ name: default }]
`;

function refusal(changes: Partial<RefusalFacts> = {}): RefusalFacts {
  return {
    stage: 'message',
    account: 'dev',
    credential: 'default',
    sessionId: 'c0ffee',
    via: 'smtp',
    helo: 'box.internal',
    senderPath: 'a@example.com',
    violations: [{ code: 'E_HEADER_NOT_ALLOWED', message: 'User-Agent is not on the allowlist', name: 'User-Agent' }],
    ...changes,
  };
}

/** A spool with these events; the last ones are written by the time it resolves. */
async function withEvents(fill: (spool: Spool) => void | Promise<void>) {
  const folder = scratchFolder();
  const file = join(folder, 'postern.yaml');
  writeFileSync(file, yaml);
  const env = { POSTERN_DATA_DIR: join(folder, 'data') };
  const spool = await openSpool(loadConfig({ file, env, cwd: folder }));
  await fill(spool);
  await spool.close();
  const run = async (args: readonly string[] = [], answer?: string) => {
    const written = { stdout: '', stderr: '' };
    const into = (name: 'stdout' | 'stderr') => ({
      write: (text: string) => {
        written[name] += text;
      },
    });
    const io = { stdout: into('stdout'), stderr: into('stderr'), env, cwd: folder };
    const asked = answer === undefined ? io : { ...io, ask: () => Promise.resolve(answer) };
    return { exitCode: await runCommandLine(['report', '--config', file, ...args], asked), ...written, folder };
  };
  return run;
}

test('by credential and mailer: how often, when last, and the exact lines', async () => {
  const run = await withEvents(async (spool) => {
    await spool.add(spoolEntry({ acceptedAt: Date.now() }), 0);
    for (let count = 0; count < 3; count += 1) spool.events.refuse(refusal({ mailer: 'User-Agent: s-nail v14.9.24' }));
    const cron = { stage: 'sender', credential: 'cron', senderPath: 'root' } as const;
    const message = 'The reverse-path "root" has no domain';
    spool.events.refuse(refusal({ ...cron, violations: [{ code: 'E_VALIDATION_ERROR', message }] }));
    spool.events.refuse(
      refusal({ stage: 'recipient', violations: [{ code: 'E_RECIPIENT_SUPPRESSED', message: 'x' }] }),
    );
  });
  const { exitCode, stdout, stderr } = await run(['--since', '1h']);
  expect([exitCode, stderr]).toEqual([0, '']);
  expect(stdout).toContain('dev/default: 1 of 4 messages accepted (25.0 %)\n');
  expect(stdout).toMatch(/^ {2}User-Agent: s-nail v14\.9\.24: 3 messages refused, last 20\d\d-\d\d-\d\dT[\d:]+Z$/m);
  expect(stdout).toContain('strip: [User-Agent]   or in the program: set stealthmua=noagent\n');
  expect(stdout).toContain('\n      strip: [User-Agent, X-Old]\n');
  expect(stdout).toContain('dev/cron: 0 of 1 message accepted (0.0 %)\n\n  HELO box.internal: 1 message refused');
  expect(stdout).toContain('\n      defaultDomain: example.com\n');
  const [json] = (await run(['--json', '--credential', 'cron'])).stdout.trim().split('\n');
  expect(JSON.parse(json ?? '')).toMatchObject({
    account: 'dev',
    credential: 'cron',
    refused: 1,
    proposal: ['defaultDomain: example.com'],
    mailers: [{ mailer: 'HELO box.internal', problems: [{ code: 'E_VALIDATION_ERROR', count: 1 }] }],
  });
});

test('--apply writes the changes that were told once they are agreed to, with a copy beside them', async () => {
  const run = await withEvents((spool) => {
    spool.events.refuse(refusal());
    const message = 'The reverse-path "root" has no domain';
    spool.events.refuse(refusal({ credential: 'cron', violations: [{ code: 'E_VALIDATION_ERROR', message }] }));
  });
  expect(await run(['--apply'])).toMatchObject({ exitCode: 64, stdout: '' });
  const declined = await run(['--apply'], 'n');
  expect(declined).toMatchObject({ exitCode: 1, stderr: '' });
  expect(declined.stdout).toContain('postern.yaml, line 6;');
  const file = join(declined.folder, 'postern.yaml');
  expect(readFileSync(file, 'utf8')).toBe(yaml);
  expect(await run(['--apply'], 'y')).toMatchObject({ exitCode: 0 });
  expect(readFileSync(file, 'utf8')).toBe(
    yaml.replace(
      '{ name: default, strip: [X-Old] }, { name: cron }',
      '{ name: default, strip: [X-Old, User-Agent] }, { name: cron, defaultDomain: example.com }',
    ),
  );
  const [copy = ''] = readdirSync(declined.folder).filter((name) => name.endsWith('.bak'));
  expect(readFileSync(join(declined.folder, copy), 'utf8')).toBe(yaml);
  expect((await run(['--apply', '--yes'])).stdout).toContain('Nothing to change in ');
});

test('--account shows nothing of another account, by name or id; an unknown one is an error', async () => {
  const run = await withEvents((spool) => {
    spool.events.refuse(refusal({ mailer: 'X-Mailer: mine' }));
    spool.events.refuse(refusal({ account: 'other', mailer: 'X-Mailer: secret' }));
  });
  for (const account of ['dev', 'a1'.repeat(16)]) {
    const { stdout } = await run(['--account', account, '--json']);
    expect(stdout).toContain('X-Mailer: mine');
    expect(stdout).not.toMatch(/secret|other/);
  }
  expect((await run([])).stdout).toContain('X-Mailer: secret');
  expect(await run(['--account', 'nobody'])).toMatchObject({ exitCode: 64, stdout: '' });
  expect(await run(['--account', 'dev', '--credential', 'nobody'])).toMatchObject({ exitCode: 64, stdout: '' });
  expect(await run(['--since', 'yesterday'])).toMatchObject({
    exitCode: 64,
    stderr: '--since: got "yesterday", want a span such as 30d, 12h or 90m\n',
  });
});

test('events of before are not counted, however they lie among the pages', async () => {
  const run = await withEvents(async (spool) => {
    const now = Date.now();
    const add = (count: number, acceptedAt: number) =>
      Promise.all(Array.from({ length: count }, () => spool.add(spoolEntry({ acceptedAt }), 0)));
    await add(3000, now - 5 * hour);
    await add(1500, now - hour / 2);
  });
  expect((await run(['--since', '1h'])).stdout).toContain('1,500 of 1,500 messages accepted (100.0 %)');
  expect((await run(['--since', '1d'])).stdout).toContain('4,500 of 4,500 messages accepted');
});

test('nothing happened: it says so', async () => {
  const run = await withEvents(() => undefined);
  expect((await run()).stdout).toMatch(/^Nothing was accepted or refused since 20/);
});

test('what a client put into its mailer or a header does not steer the terminal', async () => {
  const evil = '\u001b[2J\u009b31m\u202e';
  const run = await withEvents((spool) =>
    spool.events.refuse(
      refusal({
        mailer: `X-Mailer: ${evil}`,
        helo: evil,
        violations: [{ code: 'E_HEADER_NOT_ALLOWED', message: `${evil} is not on the allowlist`, name: `Q${evil}` }],
      }),
    ),
  );
  for (const args of [[], ['--json']]) {
    const { stdout } = await run(args);
    expect(stdout).toContain('E_HEADER_NOT_ALLOWED');
    expect(stdout.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\p{Cf}]/u);
  }
});
