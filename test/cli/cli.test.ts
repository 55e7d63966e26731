// The command line as a person meets it: `node src/main.ts` run for real.

import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { createAccounts } from '../../src/accounts/accounts.ts';
import { openTokenStore } from '../../src/accounts/token-store.ts';
import { loadConfig } from '../../src/app/config/config.ts';
import { systemClock } from '../../src/base/clock.ts';
import { UsageError } from '../../src/base/errors.ts';
import { parseSpan } from '../../src/cli/command/span.ts';
import { commands } from '../../src/cli/run.ts';
import { openSuppressionStore } from '../../src/delivery/feedback/suppression-store.ts';
import { databaseFileOf } from '../support/database-file.ts';
import { startDnsServer } from '../support/dns-server.ts';
import { openTestDatabase } from '../support/engines.ts';
import { runCli, runHere } from '../support/run-cli.ts';
import { scratchFolder } from '../support/scratch.ts';
import { runProgram } from '../system/programs.ts';

const timeout = 60_000;

function ownFolders() {
  const folder = scratchFolder();
  return { folder, env: { POSTERN_DATA_DIR: join(folder, 'data'), POSTERN_CERTS_DIR: join(folder, 'certs') } };
}

/** The major version of a Node. */
function versionOf(node: string): number {
  return Number(/^v(\d+)/.exec(execFileSync(node, ['--version'], { encoding: 'utf8' }))?.[1]);
}

describe('help and usage', { timeout }, () => {
  test('help and a fault of usage by the program itself', async () => {
    const help = await runCli(['help', 'token', 'create']);
    expect(help).toEqual(await runHere(['token', 'create', '--help']));
    expect(await runCli(['tokn'])).toEqual(await runHere(['tokn']));
    expect((await runCli(['tokn'])).exitCode).toBe(64);
  });

  test('--version is that of package.json', async () => {
    const [, version = ''] = /"version": "([^"]+)"/.exec(readFileSync('package.json', 'utf8')) ?? [];
    expect(await runCli(['--version'])).toEqual({ exitCode: 0, stdout: `postern ${version}\n`, stderr: '' });
  });

  test('a Node that is too old is told in one sentence, by what npm runs', async (context) => {
    const { scripts } = JSON.parse(readFileSync('package.json', 'utf8')) as { scripts: Record<string, string> };
    expect(scripts['start']).toBe('exec node src/start.mjs serve');
    expect(scripts['postern']).toBe('exec node src/start.mjs');
    const own = await runProgram(process.execPath, ['src/start.mjs', '--version'], { cwd: process.cwd() });
    expect(own).toEqual({ code: 0, output: expect.stringMatching(/^postern \S+\n$/) });
    const nodes = (process.env['PATH'] ?? '').split(delimiter).map((folder) => join(folder, 'node'));
    const old = nodes.filter(existsSync).find((node) => versionOf(node) < 24);
    context.skip(old === undefined, 'this machine has no older Node');
    const told = await runProgram(old ?? '', ['src/start.mjs', 'serve'], { cwd: process.cwd() });
    const sentence = /^Postern needs Node 24 or newer, and \S+ is v\d+\.\d+\.\d+: .+\n$/;
    expect(told).toEqual({ code: 1, output: expect.stringMatching(sentence) });
  });

  test.each([
    [['--help'], 'Usage: postern COMMAND'],
    [['help'], 'Usage: postern COMMAND'],
    [['token', '--help'], 'Usage: postern token COMMAND'],
    [['help', 'token', 'create'], 'Usage: postern token create'],
    [['token', 'create', '--help'], '--credential C'],
    [['token', 'list', '-h'], '--all'],
    [['token', 'revoke', '--help'], 'Usage: postern token revoke [options] ID'],
    [['suppression', '--help'], 'Usage: postern suppression COMMAND'],
    [['suppression', 'list', '--help'], '--search TEXT'],
    [['suppression', 'add', '--help'], 'Usage: postern suppression add [options] ADDRESS...'],
    [['suppression', 'remove', '--help'], 'ADDRESS|ID...'],
    [['dkim', '--help'], 'Usage: postern dkim COMMAND'],
    [['dkim', 'keygen', '--help'], '--algorithm NAME'],
    [['dkim', 'record', '--help'], 'Usage: postern dkim record [options] DOMAIN'],
    [['domain', '--help'], 'Usage: postern domain COMMAND'],
    [['domain', 'records', '--help'], 'Usage: postern domain records [options] [DOMAIN]'],
    [['config', '--help'], 'Usage: postern config COMMAND'],
    [['config', 'check', '--help'], 'Usage: postern config check [options] [FILE]'],
    [['config', 'show', '--help'], 'Usage: postern config show [options] [FILE]'],
  ])('%j', async (args, wanted) => {
    const { exitCode, stdout, stderr } = await runHere(args);
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
    expect(stdout).toContain(wanted);
    if (!wanted.includes('COMMAND'))
      expect(stdout).toMatch(/Options:[^]*Examples:\n {2}postern [^]*Exit codes:\n {2}0 {3}done/);
  });

  test.each([
    [['tokn'], 'postern: unknown command "tokn"; did you mean "token"?'],
    [['frobnicate'], 'postern: unknown command "frobnicate"; see postern --help'],
    [['constructor'], 'postern: unknown command "constructor"; see postern --help'],
    [['--config', 'a.yaml'], 'postern: want a command before the option "--config"; see postern --help'],
    [['token'], 'postern token: want a command; see postern token --help'],
    [['token', 'crate'], 'postern token: unknown command "crate"; did you mean "create"?'],
    [['token', 'create'], 'postern token create: want --account A and --credential C'],
    [['token', 'create', '--acount', 'x'], 'postern token create: unknown option --acount; did you mean --account?'],
    [['token', 'create', '--account'], "postern token create: Option '-a, --account <value>' argument missing"],
    [
      ['token', 'create', '--json=1', '--account', 'x'],
      "postern token create: Option '--json' does not take an argument",
    ],
    [
      ['token', 'create', '--account', 'dev', '--credential', 'default', '--expires', 'soon'],
      '--expires: got "soon", want a span such as 30d, 12h or 90m',
    ],
    [['token', 'create', '--account', 'dve', '--credential', 'x'], '--account: no account "dve"; did you mean "dev"?'],
    [
      ['token', 'create', '--account', 'dev', '--credential', 'corn'],
      '--credential: account "dev" has no credential "corn"; did you mean "cron"?',
    ],
    [['token', 'list', 'x'], 'postern token list: too many arguments: "x"'],
    [['token', 'revoke'], 'postern token revoke: want ID; see postern token revoke --help'],
    [
      ['token', 'create', '--account', 'dev', '--credential', 'cron', '--scopes', 'email:send,admin'],
      '--scopes: credential "cron" has no scope "admin"; it has email:send',
    ],
    [
      ['token', 'create', '--account', 'dev', '--credential', 'cron', '--scopes', ','],
      '--scopes: got none; it has email:send',
    ],
    [['suppression', 'list'], '--account: want the name or id of an account'],
    [['suppression', 'list', '--account', 'dve'], '--account: no account "dve"; did you mean "dev"?'],
    [['suppression', 'list', '--account', 'dev', '--limit', '0'], '--limit wants a whole number from 1, got "0"'],
    [
      ['suppression', 'add', '--account', 'dev'],
      'postern suppression add: want ADDRESS...; see postern suppression add --help',
    ],
    [
      ['suppression', 'add', '--account', 'dev', 'ok@example.net', 'A <a@example.net>'],
      'got "A <a@example.net>", want an address such as user@example.net',
    ],
    [
      ['suppression', 'add', '--account', 'dev', '--reason', 'hard-bounce', 'a@example.net'],
      '--reason: got "hard-bounce", did you mean "hard_bounce"?',
    ],
    [
      ['suppression', 'add', '--account', 'dev', '--expires', '1y', 'a@example.net'],
      '--expires: got "1y", want a span such as 30d, 12h or 90m',
    ],
    [
      ['suppression', 'add', '--account', 'dev', '--note', 'two\nlines', 'a@example.net'],
      '--note: want a text of at most 500 characters without line ends',
    ],
    [['suppression', 'remove', '--account', 'dev', 'x'], 'got "x", want an address such as user@example.net'],
    [['dkim', 'keygen'], 'postern dkim keygen: want DOMAIN; see postern dkim keygen --help'],
    [['dkim', 'keygen', 'a b'], 'got "a b", want a domain name'],
    [['dkim', 'keygen', 'x.example', '--algorithm', 'dsa'], '--algorithm: got "dsa", did you mean "rsa"?'],
    [
      ['dkim', 'keygen', 'x.example', '--selector', '../s1'],
      '--selector: got "../s1", want letters, digits and -, such as s1',
    ],
    [
      ['dkim', 'record', 'nobody.example'],
      "nobody.example is no sending domain and not the platform's domain; there are example.com, example.net, example.org, payg.example, platform.example",
    ],
    [['domain', 'records', 'a b'], 'got "a b", want a domain name'],
    [
      ['domain', 'records', 'exampel.com'],
      'exampel.com is no sending domain and not the platform\'s domain; did you mean "example.com"?',
    ],
    [
      ['domain', 'records', '--check', '--server', 'ns.example.com'],
      '--server: got "ns.example.com", want an IP address, with :port if it is not 53',
    ],
    [['config', 'check', 'a', 'b'], 'postern config check: too many arguments: "b"'],
    [['serve', '--processes', '65'], '--processes: got "65", want a whole number, 1 to 64, or auto'],
    [['queue', 'list', '--limit', '1e21'], '--limit wants a whole number from 1, got "1e21"'],
  ])('%j is 64', async (args, message) => {
    const { env } = ownFolders();
    expect(await runHere(args, { env })).toEqual({ exitCode: 64, stdout: '', stderr: `${message}\n` });
  });

  test('a fault of what --processes asks for names the option', async () => {
    const { exitCode, stderr } = await runHere(['serve', '--processes', '2'], { env: ownFolders().env });
    expect([exitCode, stderr]).toEqual([
      78,
      expect.stringMatching(/^--processes: got 2, but SQLite serves one process/),
    ]);
  });

  test('every command of the table has a file and a help of its own', async () => {
    const loaded = new Set();
    for (const [name, row] of Object.entries(commands)) {
      const { command } = await row.load();
      loaded.add(command);
      expect(row.summary).toMatch(/^[A-Z].{10,70}[^.]$/);
      const { stdout } = await runHere([name, '--help']);
      expect(stdout).toMatch(new RegExp(`^Usage: postern ${name} [^]*\n\n[A-Z].*[^.]\\.\n`));
    }
    expect(loaded.size).toBe(Object.keys(commands).length);
  });

  test('an error is one line, while debugging its stack and cause too', async () => {
    const file = join(scratchFolder(), 'data');
    writeFileSync(file, '');
    const args = ['token', 'list'];
    const plain = await runCli(args, { env: { POSTERN_DATA_DIR: file } });
    expect(plain.exitCode).toBe(1);
    expect(plain.stderr).toMatch(/^Cannot open database ".*": .*\n$/);
    const debugging = await runHere(args, { env: { POSTERN_DATA_DIR: file, POSTERN_LOG_LEVEL: 'debug' } });
    expect(debugging.stderr).toMatch(/at openSqliteFile[^]*Caused by: /);
  });
});

describe('config', { timeout }, () => {
  test('check prints ok and a summary', async () => {
    const { exitCode, stdout, stderr } = await runCli(['config', 'check']);
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
    expect(stdout).toMatch(/^ok .*\/config\/postern\.yaml\n {2}platform/);
    for (const part of ['127.0.0.1:2587', 'default (capture)', 'dev, payg', 'example.org', 'development'])
      expect(stdout).toContain(part);
  });

  test('check takes the example, by argument and by POSTERN_CONFIG', async () => {
    const file = 'config/examples/every-rule.yaml';
    for (const result of [
      await runHere(['config', 'check', file]),
      await runHere(['config', 'check'], { env: { POSTERN_CONFIG: file } }),
    ]) {
      expect(result.exitCode).toBe(0);
      expect(result.stdout).toContain('every-rule.yaml');
    }
  });

  test('check prints all faults and exits with 78', async () => {
    const folder = scratchFolder();
    writeFileSync(join(folder, 'bad.yaml'), 'smpt: {}\ndrainSeconds: x\n');
    const result = await runHere(['config', 'check', join(folder, 'bad.yaml')], {
      env: { POSTERN_RELAY: 'mail.example' },
    });
    expect(result).toMatchObject({ exitCode: 78, stdout: '' });
    expect(result.stderr.trimEnd().split('\n')).toEqual([
      `${folder}/bad.yaml:1:1: smpt: unknown key; did you mean "smtp"?`,
      `${folder}/bad.yaml:2:15: drainSeconds: got "x", want a whole number of seconds, 0 to 3600`,
      'POSTERN_RELAY: got "mail.example", want capture, mx, smtp://host:port or smtps://host:port',
    ]);
  });

  test('check tells secrets that are not there, show hides those that are', async () => {
    const folder = scratchFolder();
    writeFileSync(
      join(folder, 'postern.yaml'),
      'routes: [{ name: out, type: smarthost, url: "smtps://h.example", auth: { user: u, passwordEnv: P } }]',
    );
    const args = ['--config', join(folder, 'postern.yaml')];
    const check = await runHere(['config', 'check', ...args]);
    expect(check).toMatchObject({ exitCode: 78, stdout: '' });
    expect(check.stderr).toContain('routes[0].auth: the environment variable P is not set\n');
    const withoutFiles = await runHere(['config', 'check', '--no-files', ...args]);
    expect(withoutFiles).toMatchObject({ exitCode: 0, stderr: '' });
    expect(withoutFiles.stdout).not.toContain('environment variable P');
    const env = { P: 'hunter2', POSTERN_TOKEN: 'hunter2' };
    const show = await runCli(['config', 'show', ...args], { env });
    expect(show.exitCode).toBe(0);
    expect(show.stdout).toContain('password: "[hidden]"');
    expect(show.stdout).not.toContain('hunter2');
    const relay = await runHere(['config', 'show', ...args], { env: { POSTERN_RELAY: 'smtps://u:hunter2@h.example' } });
    expect(relay.stdout).toContain('host: h.example');
    expect(relay.stdout).not.toContain('hunter2');
  });

  test('check tells Error Pages that cannot be served', async () => {
    const folder = scratchFolder();
    const page = { errorPage: { file: 'pages/none.html' } };
    const zones = [{ name: 'a.example', id: '11'.repeat(16), account: 'dev', customErrors: page }];
    writeFileSync(join(folder, 'postern.yaml'), JSON.stringify({ zones }));
    const { exitCode, stdout } = await runHere(['config', 'check', '--no-files', 'postern.yaml'], { cwd: folder });
    expect(exitCode).toBe(0);
    expect(stdout).toContain(
      `warning: zone a.example: customErrors.errorPage.file: cannot read "${folder}/pages/none.html": there is no such file\n`,
    );
  });

  test('a missing file is 78', async () => {
    const result = await runHere(['config', 'check'], { cwd: scratchFolder() });
    expect(result).toMatchObject({ exitCode: 78, stdout: '' });
    expect(result.stderr).toContain('config/postern.yaml: cannot be read: there is no such file');
  });
});

describe('token', { timeout }, () => {
  test('made in one process it counts in another that is running, and revoked it counts no more', async () => {
    const { env } = ownFolders();
    const config = loadConfig({ env, cwd: process.cwd() });
    const store = await openTokenStore(await openTestDatabase(databaseFileOf(config)));
    const accounts = createAccounts({ accounts: config.accounts, tokens: [], store, clock: systemClock });

    const made = await runCli(
      ['token', 'create', '--account', 'dev', '--credential', 'cron', '--label', 'backup host'],
      { env },
    );
    expect(made.exitCode).toBe(0);
    const token = made.stdout.trim();
    const [, id = ''] =
      /^Token ([0-9a-f]{16}) of dev\/cron, until it is revoked\. It is not shown again\.\n$/.exec(made.stderr) ?? [];
    expect((await accounts.authenticate(token))?.credential.name).toBe('cron');

    const listed = await runHere(['token', 'list'], { env });
    expect(listed.stdout).toMatch(
      new RegExp(`^${id}  dev/cron  \\.\\.\\.${token.slice(-4)}  live, made 20.*  backup host\\n$`),
    );
    expect(listed.stdout).not.toContain(token);

    const revoked = await runCli(['token', 'revoke', id], { env });
    expect(revoked).toEqual({ exitCode: 0, stdout: `Token ${id} of dev/cron is revoked.\n`, stderr: '' });
    expect(await accounts.authenticate(token)).toBeUndefined();

    expect((await runHere(['token', 'revoke', id], { env })).stdout).toContain('is revoked before, at 20');
    expect((await runHere(['token', 'list'], { env })).stdout).toBe('');
    expect((await runHere(['token', 'list', '--all'], { env })).stdout).toContain('revoked, made');
  });

  test('--json, by account id, with an expiry', async () => {
    const { env } = ownFolders();
    const before = Date.now();
    const { stdout } = await runCli(
      ['token', 'create', '-a', 'A1'.repeat(16), '--credential=default', '--expires', '30d', '--json'],
      { env },
    );
    const made: unknown = JSON.parse(stdout);
    expect(made).toMatchObject({ account: 'dev', credential: 'default', revoked_at: null, live: true });
    const [, token = '', expiry = ''] = /"token": "(pt_[^"]{43})"[^]*"expires_at": "([^"]+)"/.exec(stdout) ?? [];
    const expires = Date.parse(expiry);
    expect(expires).toBeGreaterThanOrEqual(before + 30 * 86_400_000);
    expect(expires).toBeLessThanOrEqual(Date.now() + 30 * 86_400_000);
    const listed: unknown = JSON.parse((await runHere(['token', 'list', '--json'], { env })).stdout);
    expect(listed).toHaveLength(1);
    expect([made]).toMatchObject(Array.isArray(listed) ? listed : []);
    expect(JSON.stringify(listed)).not.toContain(token);
    expect((await runHere(['token', 'list', '--json', '--account', 'payg'], { env })).stdout).toBe('[]\n');
  });

  test('--scopes narrows a token, and the list says so', async () => {
    const { env } = ownFolders();
    const config = loadConfig({ env, cwd: process.cwd() });
    const store = await openTokenStore(await openTestDatabase(databaseFileOf(config)));
    const accounts = createAccounts({ accounts: config.accounts, tokens: [], store, clock: systemClock });
    const args = ['token', 'create', '-a', 'dev', '--credential', 'default', '--scopes', 'email:suppressions, admin'];
    const { stdout } = await runHere(args, { env });
    expect((await accounts.authenticate(stdout.trim()))?.credential.scopes).toEqual(
      new Set(['email:suppressions', 'admin']),
    );
    expect((await runHere(['token', 'list'], { env })).stdout).toMatch(/, only email:suppressions, admin\n$/);
    const listed: unknown = JSON.parse((await runHere(['token', 'list', '--json'], { env })).stdout);
    expect(listed).toMatchObject([{ credential: 'default', scopes: ['email:suppressions', 'admin'] }]);
  });

  test('revoking what is not there is 1', async () => {
    const { env } = ownFolders();
    expect(await runHere(['token', 'revoke', 'nothing'], { env })).toEqual({
      exitCode: 1,
      stdout: '',
      stderr: 'No token "nothing"; postern token list tells the ids.\n',
    });
  });

  test.each([
    ['1s', 1000],
    ['90m', 5_400_000],
    ['12h', 43_200_000],
    ['30d', 2_592_000_000],
    ['2w', 1_209_600_000],
    ['36500d', 3_153_600_000_000],
  ])('a span of %s', (text, wanted) => {
    expect(parseSpan(text, '--expires')).toBe(wanted);
  });

  test.each(['', '0d', '-1d', '1', 'd', '1.5d', '1y', '36501d', '999999999w', '1d ', '1D'])('%j is no span', (text) => {
    expect(() => parseSpan(text, '--expires')).toThrow(UsageError);
  });

  test('of one that is too long the limit is told', () => {
    expect(() => parseSpan('99999999d', '--since')).toThrow('--since: got "99999999d", want at most 36500d');
  });
});

describe('suppression', { timeout }, () => {
  test('added in one process it counts in another that is running, and removed it counts no more', async () => {
    const { env } = ownFolders();
    const config = loadConfig({ env, cwd: process.cwd() });
    const store = await openSuppressionStore(await openTestDatabase(databaseFileOf(config)), systemClock);
    const dev = config.accounts.find(({ name }) => name === 'dev')?.id ?? '';

    const added = await runCli(['suppression', 'add', '-a', 'dev', 'Gone@Example.NET', 'b@bücher.example'], { env });
    expect(added).toMatchObject({ exitCode: 0, stderr: '' });
    expect(added.stdout).toMatch(
      /^[0-9a-f]{32} {2}gone@example\.net {2}manual, since 20\S+Z\n[0-9a-f]{32} {2}b@xn--bcher-kva\.example {2}manual/,
    );
    expect(await store.isSuppressed(dev, 'gone@example.net')).toBe(true);

    const flags = ['--reason', 'complaint', '--note', 'ticket 7', '--expires', '30d', '--json'];
    const again = await runHere(['suppression', 'add', '-a', dev, ...flags, 'gone@example.net'], { env });
    const shown: unknown = JSON.parse(again.stdout);
    expect(shown).toEqual({
      id: added.stdout.slice(0, 32),
      account: 'dev',
      address: 'gone@example.net',
      reason: 'complaint',
      note: 'ticket 7',
      created_at: expect.stringMatching(/^20\S+Z$/),
      expires_at: expect.stringMatching(/^20\S+Z$/),
    });

    const listed = await runHere(['suppression', 'list', '-a', 'dev', '--search', 'TICKET', '--json'], { env });
    expect(JSON.parse(listed.stdout)).toEqual(shown);
    const one = await runHere(['suppression', 'list', '-a', 'dev', '--limit', '1'], { env });
    expect(one).toEqual({
      exitCode: 0,
      stdout: expect.stringMatching(/^[0-9a-f]{32} {2}b@xn--bcher-kva\.example {2}manual, since 20\S+\n$/),
      stderr: 'There are more than these 1; see --limit and --search.\n',
    });
    expect((await runHere(['suppression', 'list', '-a', 'dev', '--limit', '2'], { env })).stderr).toBe('');
    expect(await runHere(['suppression', 'list', '-a', 'payg'], { env })).toEqual({
      exitCode: 0,
      stdout: '',
      stderr: 'No entries.\n',
    });

    const args = ['suppression', 'remove', '-a', 'dev', 'GONE@example.net', 'x@example.net', '0'.repeat(32)];
    expect(await runCli(args, { env })).toEqual({
      exitCode: 1,
      stdout: 'gone@example.net is off the list of dev.\n',
      stderr: `x@example.net is not on the list of dev.\n${'0'.repeat(32)} is not on the list of dev.\n`,
    });
    expect(await store.isSuppressed(dev, 'gone@example.net')).toBe(false);
    const byId = await runHere(['suppression', 'remove', '-a', 'dev', one.stdout.slice(0, 32)], { env });
    expect(byId).toMatchObject({ exitCode: 0, stdout: 'b@xn--bcher-kva.example is off the list of dev.\n' });
  });
});

describe('dkim', { timeout }, () => {
  test('keygen writes the key, prints the record, and replaces nothing unasked', async () => {
    const { env, folder } = ownFolders();
    const file = join(folder, 'certs/dkim/example.com/s1.pem');
    const made = await runCli(['dkim', 'keygen', 'Example.COM'], { env });
    expect(made).toMatchObject({ exitCode: 0, stderr: `Wrote ${file}\n` });
    expect(made.stdout).toMatch(
      /^s1\._domainkey\.example\.com\. IN TXT \( "v=DKIM1; k=rsa; p=[A-Za-z0-9+/=]+"\n\t"[A-Za-z0-9+/=]+" \)\n$/,
    );
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const pem = readFileSync(file, 'utf8');

    const again = await runHere(['dkim', 'keygen', 'example.com'], { env });
    expect(again).toEqual({
      exitCode: 1,
      stdout: '',
      stderr: `There is a key already: ${file}; --force replaces it, another --selector leaves it.\n`,
    });
    expect(readFileSync(file, 'utf8')).toBe(pem);

    expect((await runCli(['dkim', 'record', 'example.com', '--selector', 's1'], { env })).stdout).toBe(made.stdout);
    expect((await runHere(['dkim', 'keygen', 'example.com', '--force'], { env })).exitCode).toBe(0);
    expect(readFileSync(file, 'utf8')).not.toBe(pem);
  });

  test('keygen takes selector and algorithm from the configuration, and says what it does not name', async () => {
    const { env, folder } = ownFolders();
    const named = await runHere(['dkim', 'keygen', 'example.com', '--selector', 'e1'], { env });
    expect(named.stdout).toMatch(
      /^e1\._domainkey\.example\.com\. IN TXT "v=DKIM1; k=ed25519; p=[A-Za-z0-9+/]{43}="\n$/,
    );
    const platform = await runHere(['dkim', 'keygen', 'platform.example'], { env });
    expect(platform.stdout).toMatch(/^p1\._domainkey\.platform\.example\. IN TXT/);
    const unnamed = await runHere(['dkim', 'keygen', 'new.example', '--selector', 'x', '--algorithm', 'ed25519'], {
      env,
    });
    expect(unnamed.exitCode).toBe(0);
    expect(unnamed.stderr).toContain(
      'The configuration does not name it yet: dkim: [{ selector: x, algorithm: ed25519 }] of new.example',
    );
    expect(existsSync(join(folder, 'certs/dkim/new.example/x.pem'))).toBe(true);
  });

  test('record tells keys that are missing, with the command', async () => {
    const { env, folder } = ownFolders();
    await runHere(['dkim', 'keygen', 'example.com', '--selector', 'e1'], { env });
    const { exitCode, stdout, stderr } = await runHere(['dkim', 'record', 'example.com'], { env });
    expect(exitCode).toBe(1);
    expect(stdout).toMatch(/^e1\._domainkey/);
    expect(stderr).toBe(
      `${folder}/certs/dkim/example.com/s1.pem is missing; make it: postern dkim keygen example.com --selector s1 --algorithm rsa\n`,
    );
  });
});

/** The remark about an MX while no listener takes bounces. */
const nobodyThere =
  'nobody takes bounces there yet: enable a listener with role: bounce in smtp.listeners, or name the host of a mailbox that somebody reads';

describe('domain records', { timeout }, () => {
  test('prints a zone file of everything, and tells keys that are missing', async () => {
    const { env, folder } = ownFolders();
    await runHere(['dkim', 'keygen', 'example.net'], { env });
    const { exitCode, stdout, stderr } = await runCli(['domain', 'records'], { env });
    expect(exitCode).toBe(1);
    expect(stdout.match(/^; \S+$/gm)).toEqual([
      '; example.com',
      '; example.net',
      '; example.org',
      '; payg.example',
      '; platform.example',
    ]);
    expect(stdout).toMatch(/^; DKIM key\ns1\._domainkey\.example\.net\. IN TXT \( "v=DKIM1; k=rsa; p=/m);
    expect(stdout).toContain(
      `; MX of the reverse-path: bounces come there\n; ${nobodyThere}\nb.example.net. IN MX 10 mx.platform.example.\n`,
    );
    expect(stdout).toContain(
      '; SPF of the reverse-path (in the platform\'s zone)\nbounces.platform.example. IN TXT "v=spf1 a:mx.platform.example ~all"\n',
    );
    expect(stderr.split('\n')).toContain(
      `${folder}/certs/dkim/example.com/e1.pem is missing; make it: postern dkim keygen example.com --selector e1 --algorithm ed25519`,
    );
  });

  test('--check asks DNS: 1 while something is not as it should be, 0 when all is', async () => {
    const { env } = ownFolders();
    await runHere(['dkim', 'keygen', 'example.net'], { env });
    const dns = await startDnsServer({ '_dmarc.example.net': { txt: ['v=DMARC1; p=reject'] } });
    const args = ['domain', 'records', 'EXAMPLE.net', '--check', '--server', dns.address];
    dns.names.set('b.example.net', { txt: ['v=spf1 -all\n\u001b[2J'] });
    const before = await runHere(args, { env });
    expect({ exitCode: before.exitCode, stderr: before.stderr }).toEqual({ exitCode: 1, stderr: '' });
    expect(before.stdout.split('\n').filter((line) => line.startsWith(';'))).toEqual([
      '; example.net',
      '; DKIM key: MISSING',
      '; DMARC, a first policy: OK',
      '; SPF of the reverse-path: DIFFERENT: it does not name include:bounces.platform.example; right only if it names the hosts in another way',
      '; found: v=spf1 -all??[2J',
      '; MX of the reverse-path: bounces come there: MISSING',
      `; ${nobodyThere}`,
    ]);
    const shown = JSON.parse((await runHere(['domain', 'records', 'example.net', '--json'], { env })).stdout) as {
      readonly records: readonly { readonly type: string; readonly name: string; readonly value: string }[];
    };
    expect(shown).toMatchObject({
      name: 'example.net',
      records: [{ purpose: 'dkim', published_by: 'domain' }, {}, {}, {}],
    });
    const [key, , spf, mx] = shown.records;
    dns.names.set(key?.name ?? '', { txt: [key?.value ?? ''] });
    dns.names.set('b.example.net', { txt: [spf?.value ?? ''], mx: [mx?.value ?? ''] });
    const after = await runCli(args, { env });
    expect({ exitCode: after.exitCode, stderr: after.stderr }).toEqual({ exitCode: 0, stderr: '' });
    expect(after.stdout.match(/: OK$/gm)).toHaveLength(4);
  });
});
