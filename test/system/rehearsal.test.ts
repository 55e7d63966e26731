// An estate of real mailers rehearsed before any of them is pointed here: over 300 of their messages, the share accepted
// before and after the proposed configuration, and the same configuration in a file; then the report of a real gateway.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { startClientGateway } from '../support/client-gateway.ts';
import { estatePrograms, sendByEstate } from '../support/estate.ts';
import { runCli } from '../support/run-cli.ts';
import { scratchFolder } from '../support/scratch.ts';
import { requirePrograms, runProgram } from './programs.ts';

interface Rehearsed {
  readonly messages: number;
  readonly accepted: number;
  readonly refused: number;
  readonly proposal: readonly string[];
  readonly after: {
    readonly accepted: number;
    readonly refused: number;
    readonly mailers: readonly {
      readonly problems: readonly { readonly code: string; readonly cure: { readonly kind: string } }[];
    }[];
  };
}

function configuration(lines: readonly string[]): string {
  const credential: unknown = parse(['name: box', ...lines].join('\n'));
  const account = {
    id: 'a1'.repeat(16),
    name: 'estate',
    sendingDomains: [{ name: 'example.com' }],
    credentials: [credential],
  };
  return stringify({ accounts: [account] }, { defaultStringType: 'QUOTE_DOUBLE' });
}

test('over 300 messages of eleven mailers: the proposed configuration takes what can be taken', async () => {
  requirePrograms(...estatePrograms);
  const folder = scratchFolder();
  const { mbox, count } = await sendByEstate(folder);
  const archive = join(folder, 'estate.mbox');
  writeFileSync(archive, mbox);
  const file = join(folder, 'postern.yaml');
  writeFileSync(file, configuration([]));
  const check = (...more: string[]) => runCli(['check', '-c', file, '--as', 'estate/box', ...more, archive]);

  const rehearsed = JSON.parse((await check('--apply', '--json')).stdout) as Rehearsed;
  const { messages, accepted, proposal, after } = rehearsed;
  process.stdout.write((await check('--apply')).stdout);
  expect(count).toBeGreaterThanOrEqual(300);
  expect(messages).toBe(count);
  expect(accepted / messages).toBeLessThan(0.5);
  expect(after.accepted / messages).toBeGreaterThan(0.9);
  // What is left has no setting that cures it, and says what to change.
  const left = after.mailers.flatMap(({ problems }) => problems);
  expect([...new Set(left.map(({ code }) => code))].toSorted()).toEqual(['E_FIELD_MISSING']);
  expect(left.every(({ cure }) => cure.kind === 'program')).toBe(true);

  // The lines, put into the file as they were printed, do the same.
  writeFileSync(file, configuration(proposal));
  const configured = JSON.parse((await check('--report', '--json')).stdout) as Rehearsed;
  expect(configured).toMatchObject({ accepted: after.accepted, refused: after.refused, proposal: [] });
});

test('postern report beside a running gateway names the mailers that it refused', async () => {
  const gateway = await startClientGateway();
  try {
    const { postern, port, trust, tokens } = gateway;
    const login = ['--auth', 'PLAIN', '--auth-user', 'api_token', '--auth-password', tokens.default];
    const tls = ['--tls', '--tls-ca-path', trust];
    const send = (from: string, ...more: string[]) =>
      runProgram('swaks', [
        '--server',
        `127.0.0.1:${port}`,
        ...tls,
        ...login,
        '--from',
        from,
        '--to',
        'a@partner.test',
        ...more,
      ]);
    const refused = await send('a@example.com', '--header', 'User-Agent: Mua \u001b[31m/1');
    expect(refused.output).toContain('E_HEADER_NOT_ALLOWED');
    expect((await send('root')).output).toContain('553 5.1.7 The reverse-path has no domain');
    expect((await send('a@example.com')).code).toBe(0);
    const report = () => runCli(['report', '--since', '1h', '--account', 'dev'], { env: postern.env });
    const deadline = Date.now() + 20_000;
    let told = await report();
    // Refusals are written within a second.
    while (!told.stdout.includes('1 of 3') && Date.now() < deadline) told = await report();
    expect(told.stdout).toContain('dev/default: 1 of 3 messages accepted (33.3 %)');
    expect(told.stdout).toContain('  User-Agent: Mua ?[31m/1: 1 message refused');
    expect(told.stdout).toContain('The reverse-path "root" has no domain');
    expect(told.stdout).toContain('\n      strip: [User-Agent]\n      defaultDomain: example.com\n');
  } finally {
    await gateway.postern.cleanUp();
  }
});
