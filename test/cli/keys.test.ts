// The keys and certificates that a start in production asks for, made by the commands that it names and by nothing else.

import { X509Certificate } from 'node:crypto';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { runCli, runHere } from '../support/run-cli.ts';
import { scratchFolder } from '../support/scratch.ts';

const timeout = 60_000;
const dkim = (selector: string) => [{ selector, algorithm: 'ed25519' }];
const production = {
  certsDir: 'certs',
  dataDir: 'data',
  http: { tlsListen: '' },
  platform: { domain: 'platform.corp.test', bounceDomain: 'bounces.platform.corp.test', dkim: dkim('p1') },
  smtp: { hostname: 'mail.corp.test', listeners: [{ name: 'in', listen: '127.0.0.1:0', tls: 'starttls' }] },
  routes: [{ name: 'out', type: 'smarthost', url: 'smtp://127.0.0.1:2525' }],
  accounts: [{ name: 'corp', id: 'c0'.repeat(16), sendingDomains: [{ name: 'corp.test', dkim: dkim('s1') }] }],
};

function productionFolder(): {
  readonly folder: string;
  readonly run: (args: readonly string[], by?: typeof runCli) => ReturnType<typeof runCli>;
} {
  const folder = scratchFolder();
  writeFileSync(join(folder, 'postern.yaml'), JSON.stringify(production));
  const env = { POSTERN_CONFIG: join(folder, 'postern.yaml') };
  return { folder, run: (args, by = runHere) => by(args, { env, cwd: folder }) };
}

test('the commands that a check of the configuration names make all that is missing', { timeout }, async () => {
  const { run } = productionFolder();
  const before = await run(['config', 'check']);
  expect(before.exitCode).toBe(78);
  expect(before.stderr).not.toContain('openssl');
  const named = [...before.stderr.matchAll(/postern ((?:keys|cert|dkim) [^\n,;]+)/g)].map(
    ([, command = '']) => command,
  );
  expect(new Set(named)).toEqual(
    new Set([
      'keys hmac',
      'cert self-signed mail.corp.test',
      'dkim keygen corp.test --selector s1 --algorithm ed25519',
      'dkim keygen platform.corp.test --selector p1 --algorithm ed25519',
    ]),
  );
  for (const command of new Set(named)) expect((await run(command.split(' '))).exitCode).toBe(0);
  const after = await run(['config', 'check']);
  expect(after.exitCode, after.stderr).toBe(0);
});

test('keys hmac makes the key once, for its owner alone, and anew only with --force', { timeout }, async () => {
  const { folder, run } = productionFolder();
  const file = join(folder, 'certs/hmac.key');
  const made = await run(['keys', 'hmac'], runCli);
  expect(made).toEqual({ exitCode: 0, stdout: '', stderr: `Wrote ${file}\n` });
  const first = readFileSync(file, 'utf8');
  expect(first).toMatch(/^[\w-]{43}\n$/);
  expect(statSync(file).mode & 0o777).toBe(0o600);

  const again = await run(['keys', 'hmac']);
  expect([again.exitCode, again.stderr]).toEqual([1, expect.stringContaining(`There is a key already: ${file};`)]);
  expect(readFileSync(file, 'utf8')).toBe(first);

  expect((await run(['keys', 'hmac', '--force'])).exitCode).toBe(0);
  expect(readFileSync(file, 'utf8')).not.toBe(first);
});

test('cert self-signed makes a certificate that holds for the host, and leaves one that is there', {
  timeout,
}, async () => {
  const { folder, run } = productionFolder();
  const tls = join(folder, 'certs/tls/shop.corp.test');
  const made = await run(['cert', 'self-signed', 'Shop.Corp.test'], runCli);
  expect([made.exitCode, made.stderr]).toEqual([0, expect.stringContaining(`Wrote ${join(tls, 'fullchain.pem')}`)]);
  const pem = readFileSync(join(tls, 'fullchain.pem'), 'utf8');
  expect(new X509Certificate(pem).checkHost('shop.corp.test', { subject: 'never' })).toBe('shop.corp.test');
  expect(statSync(join(tls, 'privkey.pem')).mode & 0o777).toBe(0o600);

  const again = await run(['cert', 'self-signed', 'shop.corp.test']);
  expect([again.exitCode, again.stderr]).toEqual([1, expect.stringContaining(`There is something already: ${tls};`)]);
  expect(readFileSync(join(tls, 'fullchain.pem'), 'utf8')).toBe(pem);

  const wrong = await run(['cert', 'self-signed', '../etc']);
  expect(wrong).toEqual({ exitCode: 64, stdout: '', stderr: 'got "../etc", want a domain name\n' });
});

test('the record of a new key can be printed before the configuration names its selector', { timeout }, async () => {
  const { folder, run } = productionFolder();
  const made = await run(['dkim', 'keygen', 'corp.test', '--selector', 's2', '--algorithm', 'ed25519']);
  expect(made.exitCode).toBe(0);
  expect(made.stderr).toContain('The configuration does not name it yet');
  // The algorithm is read from the key; saying it is a check.
  for (const algorithm of [[], ['--algorithm', 'ed25519']]) {
    const printed = await run(['dkim', 'record', 'corp.test', '--selector', 's2', ...algorithm]);
    expect([printed.exitCode, printed.stdout]).toEqual([0, made.stdout]);
    expect(printed.stderr).toContain('The configuration does not name it yet');
  }
  const other = await run(['dkim', 'record', 'corp.test', '--selector', 's2', '--algorithm', 'rsa']);
  expect([other.exitCode, other.stderr]).toEqual([1, expect.stringContaining('is ed25519, not rsa')]);
  const none = await run(['dkim', 'record', 'corp.test', '--selector', 's3']);
  expect(none.exitCode).toBe(1);
  expect(none.stderr).toBe(
    `${join(folder, 'certs/dkim/corp.test/s3.pem')} is missing; make it: postern dkim keygen corp.test --selector s3 --algorithm rsa\n`,
  );
});
