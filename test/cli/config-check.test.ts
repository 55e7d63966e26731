// `postern config check` looks at what a start would need: keys, certificates, secrets; and at what production hardly means.

import { chmodSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { makeCertificate } from '../../src/app/bootstrap/bootstrap.ts';
import { generateDkimKey } from '../../src/pipeline/sign/dkim-key.ts';
import { startPostern } from '../support/postern-process.ts';
import { runCli, runHere } from '../support/run-cli.ts';
import { scratchFolder } from '../support/scratch.ts';

const timeout = 60_000;
const dayMs = 86_400_000;
const tenYearsMs = 3650 * dayMs;

/** A folder with a production configuration and, where `keys` says so, everything it needs. */
async function production(contents: object, keys: { readonly expiresAtMs?: number } | undefined): Promise<string> {
  const folder = scratchFolder();
  const file = { certsDir: join(folder, 'certs'), dataDir: join(folder, 'data'), http: { tlsListen: '' }, ...contents };
  writeFileSync(join(folder, 'postern.yaml'), JSON.stringify(file));
  if (!keys) return folder;
  const { certificate, privateKey } = await makeCertificate(
    'mail.corp.test',
    (keys.expiresAtMs ?? Date.now() + tenYearsMs) - tenYearsMs,
  );
  const files = {
    'hmac.key': 'k'.repeat(44),
    'tls/mail.corp.test/fullchain.pem': certificate,
    'tls/mail.corp.test/privkey.pem': privateKey,
    'dkim/corp.test/s1.pem': await generateDkimKey('ed25519'),
    'dkim/platform.corp.test/p1.pem': await generateDkimKey('ed25519'),
  };
  for (const [name, text] of Object.entries(files)) {
    const path = join(folder, 'certs', name);
    mkdirSync(join(path, '..'), { recursive: true });
    writeFileSync(path, text, { mode: 0o600 });
  }
  return folder;
}

const dkim = (selector: string) => [{ selector, algorithm: 'ed25519' }];
const corp = {
  platform: { domain: 'platform.corp.test', bounceDomain: 'bounces.platform.corp.test', dkim: dkim('p1') },
  smtp: { hostname: 'mail.corp.test', listeners: [{ name: 'in', listen: '127.0.0.1:0', tls: 'starttls' }] },
  routes: [{ name: 'out', type: 'smarthost', url: 'smtp://127.0.0.1:2525' }],
  accounts: [{ name: 'corp', id: 'c0'.repeat(16), sendingDomains: [{ name: 'corp.test', dkim: dkim('s1') }] }],
};

const check = (folder: string, ...args: string[]) =>
  runHere(['config', 'check', ...args, join(folder, 'postern.yaml')], { cwd: folder });

test('missing keys and certificates are faults in production, each with the command that makes it', {
  timeout,
}, async () => {
  const folder = await production(corp, undefined);
  const { exitCode, stdout, stderr } = await check(folder);
  expect({ exitCode, stdout }).toEqual({ exitCode: 78, stdout: '' });
  for (const name of ['hmac.key', 'fullchain.pem', 'privkey.pem', 'corp.test/s1.pem', 'platform.corp.test/p1.pem'])
    expect(stderr).toContain(`${name} is missing; make it: `);
  expect((await check(folder, '--no-files')).exitCode).toBe(0);
});

test('with everything there it is ok; a key that all may read is told', { timeout }, async () => {
  const folder = await production(corp, {});
  const { exitCode, stdout, stderr } = await check(folder);
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
  expect(stdout).not.toContain('can be read by every user');
  expect(stdout).not.toContain('platform.domain is');
  expect(stdout).toContain('warning: bounces to bounces.platform.corp.test reach nobody');
  chmodSync(join(folder, 'certs/hmac.key'), 0o644);
  expect((await check(folder)).stdout).toContain(
    `warning: ${folder}/certs/hmac.key can be read by every user of this machine; chmod 600 it\n`,
  );
});

test('a certificate that has expired or is not valid yet is a fault, one that expires within 14 days a warning', {
  timeout,
}, async () => {
  const expired = await check(await production(corp, { expiresAtMs: Date.now() - dayMs }));
  expect(expired.exitCode).toBe(78);
  expect(expired.stderr).toMatch(
    /the certificate of mail\.corp\.test in \/\S+\/mail\.corp\.test\/fullchain\.pem has expired on \d{4}-\d\d-\d\d\n/,
  );
  const early = await check(await production(corp, { expiresAtMs: Date.now() + 2 * dayMs + tenYearsMs }));
  expect(early.exitCode).toBe(78);
  expect(early.stderr).toMatch(/the certificate of mail\.corp\.test in \S+ is not valid before \d{4}-\S+Z\n/);
  const soon = await check(await production(corp, { expiresAtMs: Date.now() + 5.5 * dayMs }));
  expect(soon.exitCode).toBe(0);
  expect(soon.stdout).toMatch(/warning: the certificate of mail\.corp\.test expires on \S+, in 5 days\n/);
});

test('a certificate for other names than the host is a warning, here and at the start', { timeout }, async () => {
  const folder = await production(corp, {});
  const { certificate, privateKey } = await makeCertificate('*.other.test', Date.now());
  writeFileSync(join(folder, 'certs/tls/mail.corp.test/fullchain.pem'), certificate);
  writeFileSync(join(folder, 'certs/tls/mail.corp.test/privkey.pem'), privateKey);
  const told = /the certificate of mail\.corp\.test is not for that name but for DNS:\*\.other\.test, DNS:localhost/;
  const { exitCode, stdout } = await check(folder);
  expect([exitCode, stdout]).toEqual([0, expect.stringMatching(told)]);
  const postern = await startPostern({
    config: corp,
    env: { POSTERN_CERTS_DIR: join(folder, 'certs'), POSTERN_HTTPS_PORT: '' },
  });
  try {
    expect(postern.log().map(({ msg }) => msg)).toContainEqual(expect.stringMatching(told));
  } finally {
    await postern.cleanUp();
  }
});

test('a key that is missing does not hide the warnings', { timeout }, async () => {
  const bounces = /^warning: bounces to bounces\.platform\.corp\.test reach nobody/m;
  const folder = await production(corp, {});
  rmSync(join(folder, 'certs/hmac.key'));
  const { exitCode, stdout, stderr } = await check(folder);
  expect({ exitCode, stdout }).toEqual({ exitCode: 78, stdout: '' });
  expect(stderr).toMatch(/hmac\.key is missing; [^]*^warning: /m);
  expect(stderr).toMatch(bounces);
});

test('a start that lacks a key has told its warnings before', { timeout }, async () => {
  const folder = await production(corp, {});
  rmSync(join(folder, 'certs/hmac.key'));
  const { exitCode, stdout, stderr } = await runCli(['serve', '--config', join(folder, 'postern.yaml')], {
    cwd: folder,
  });
  expect(exitCode).toBe(78);
  expect(`${stdout}${stderr}`).toMatch(/bounces to bounces\.platform\.corp\.test reach nobody[^]*hmac\.key is missing/);
});

test('a key that belongs to another certificate is a fault', { timeout }, async () => {
  const folder = await production(corp, {});
  const { privateKey } = await makeCertificate('mail.corp.test', Date.now());
  writeFileSync(join(folder, 'certs/tls/mail.corp.test/privkey.pem'), privateKey);
  const { exitCode, stderr } = await check(folder);
  expect(exitCode).toBe(78);
  expect(stderr).toContain('are no certificate and its key');
});

test('what the named sets take out is told, each once', { timeout }, async () => {
  const credentials = [
    { name: 'cron', stripSets: ['cron'] },
    { name: 'box', strip: ['X-Other'], stripSets: ['cpanel', 'cron'] },
  ];
  const folder = await production({ ...corp, accounts: [{ ...corp.accounts[0], credentials }] }, undefined);
  const { stdout } = await check(folder, '--no-files');
  expect(stdout.match(/^ +stripSets .*$/gm)).toEqual([
    '  stripSets  The set cron takes out X-Cron-Env, User-Agent.',
    expect.stringMatching(/The set cpanel takes out X-AntiAbuse, .*, Sender\.$/),
  ]);
});

test('what the shipped file has for trying out is told in production', { timeout }, async () => {
  const { routes: _, platform: __, ...rest } = corp;
  const folder = await production({ ...rest, http: { listen: '0.0.0.0:8080', tlsListen: '' } }, {});
  const { stdout } = await check(folder, '--no-files');
  expect(stdout).toContain(
    'warning: no mail leaves: every route captures it in a folder; want one of type smarthost or mx\n',
  );
  expect(stdout).toContain('warning: platform.domain is platform.example, which stands for nobody');
});

const edgeOnly = {
  accounts: [{ name: 'web', id: 'e0'.repeat(16) }],
  zones: [{ name: 'web.test', id: 'e1'.repeat(16), account: 'web', origin: 'http://127.0.0.1:9' }],
  http: { listen: '127.0.0.1:0', tlsListen: '' },
};

test('a configuration without mail needs no key and no certificate, and starts', { timeout }, async () => {
  const folder = await production(edgeOnly, undefined);
  const { exitCode, stdout, stderr } = await check(folder);
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
  expect(stdout).not.toContain(' smtp ');
  const postern = await startPostern({ config: edgeOnly, env: { POSTERN_HTTPS_PORT: '' } });
  try {
    expect(Object.keys(postern.ports)).toEqual(['http']);
  } finally {
    expect(await postern.end('SIGTERM')).toBe(0);
    await postern.cleanUp();
  }
});

test('the admin listener is told with its warnings; the token for /metrics is a secret that has to be there', {
  timeout,
}, async () => {
  const http = { ...edgeOnly.http, adminListen: '0.0.0.0:9090', metricsTokenEnv: 'METRICS_TOKEN' };
  const folder = await production({ ...edgeOnly, http }, undefined);
  const missing = await check(folder);
  expect([missing.exitCode, missing.stderr]).toEqual([
    78,
    expect.stringContaining('http.metricsTokenEnv: the environment variable METRICS_TOKEN is not set'),
  ]);
  const env = { METRICS_TOKEN: 'hunter2-for-metrics' };
  const file = join(folder, 'postern.yaml');
  const { exitCode, stdout } = await runHere(['config', 'check', file], { cwd: folder, env });
  expect(exitCode).toBe(0);
  expect(stdout).toMatch(/^ *admin +0\.0\.0\.0:9090$/m);
  expect(stdout).toContain('warning: http.adminListen takes tokens in the clear on 0.0.0.0:9090');
  const shown = await runHere(['config', 'show', file], { cwd: folder, env });
  expect(shown.stdout).toContain('sha256: "[hidden]"');
  expect(shown.stdout).not.toContain('hunter2');
});

test('an application whose origin is the admin listener is a fault before anything is bound', { timeout }, async () => {
  const application = {
    id: 'a9'.repeat(16),
    protocol: 'tcp/22',
    dns: { type: 'CNAME', name: 'ssh.web.test' },
    origin_direct: ['tcp://127.0.0.1:9090'],
  };
  const zones = edgeOnly.zones.map((zone) => ({ ...zone, applications: [application] }));
  const without = await check(await production({ ...edgeOnly, zones }, undefined));
  expect([without.exitCode, without.stderr]).toEqual([0, '']);
  const http = { ...edgeOnly.http, adminListen: '127.0.0.1:9090' };
  const { exitCode, stderr } = await check(await production({ ...edgeOnly, zones, http }, undefined));
  expect([exitCode, stderr]).toEqual([78, expect.stringContaining('11002')]);
});
