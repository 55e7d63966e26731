// What a configuration comes to: defaults, slices, paths, secrets (D42, D42a, D95, D99).

import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { stripRules } from '../../../src/accounts/strip-rules.ts';
import { hashToken } from '../../../src/accounts/token-store.ts';
import { type Config, loadConfig } from '../../../src/app/config/config.ts';
import { configuredGlobalKeys, configuredTokens, missingSecrets } from '../../../src/app/config/secrets.ts';
import { ConfigurationError } from '../../../src/base/errors.ts';
import { databaseFileOf } from '../../support/database-file.ts';
import { loadYaml, scratchFolder } from '../../support/scratch.ts';

const root = resolve(import.meta.dirname, '../../..');
const shipped = (file: string) => loadConfig({ file, env: {}, cwd: root });

function thawed(value: unknown, path = 'config'): string[] {
  if (typeof value !== 'object' || value === null || value instanceof Map || value instanceof Set) return [];
  const own = Object.isFrozen(value) ? [] : [path];
  const inner: [string, unknown][] = Object.entries(value);
  return [...own, ...inner.flatMap(([key, part]) => thawed(part, `${path}.${key}`))];
}

describe('an empty file', () => {
  test.each(['', '# nothing\n', '{}', 'smtp:\nroutes:\naccounts:\n'])('%j is the defaults', (yaml) => {
    const cwd = scratchFolder();
    const config = loadYaml(yaml, {}, cwd);
    expect(config).toMatchObject({
      file: join(cwd, 'postern.yaml'),
      dataDir: join(cwd, 'data'),
      certsDir: join(cwd, 'certs'),
      database: { engine: 'sqlite', file: join(cwd, 'data/postern.db') },
      log: { level: 'info' },
      drainSeconds: 30,
      platform: {
        domain: 'platform.example',
        bounceDomain: 'bounces.platform.example',
        hmacKeyFile: join(cwd, 'certs/hmac.key'),
        dkim: [{ selector: 'p1', algorithm: 'rsa' }],
      },
      http: { listen: { host: '127.0.0.1', port: 8080 }, tlsListen: { host: '127.0.0.1', port: 8443 } },
      proxy: { portOffset: 0 },
      zones: [],
    });
    expect(config.development).toBeUndefined();
  });

  test('the SMTP door', () => {
    const { smtp } = loadYaml('');
    const common = {
      role: 'submission',
      host: '127.0.0.1',
      allowInsecureAuth: false,
      trustedHop: false,
      lineEndings: 'fix',
    };
    expect(smtp).toEqual({
      hostname: 'mx.platform.example',
      listeners: [
        {
          name: 'submission',
          port: 2587,
          tls: 'starttls',
          ...common,
          legacyCharset: 'windows-1252',
          proxyProtocolFrom: [],
          allowFrom: [],
        },
        {
          name: 'submissions',
          port: 2465,
          tls: 'implicit',
          ...common,
          legacyCharset: 'windows-1252',
          proxyProtocolFrom: [],
          allowFrom: [],
        },
      ],
      limits: {
        messageBytes: 5_242_880,
        recipients: 1000,
        connections: 1000,
        connectionsPerAddress: 100,
        authFailures: 3,
        authSeconds: 30,
        commandSeconds: 60,
        dataIdleSeconds: 300,
        dataOctetsPerSecond: 100,
        idleSeconds: 300,
      },
    });
  });

  test('the other numbers', () => {
    const { rest, delivery } = loadYaml('');
    expect(rest.limits).toEqual({
      messageBytes: 5_242_880,
      requestBytes: 8_388_608,
      recipients: 50,
      attachments: 32,
      subjectCharacters: 998,
    });
    expect(Object.keys(delivery).toSorted()).toEqual(['hostname', 'retry', 'routes']);
    expect(delivery.retry).toEqual({
      firstDelaySeconds: 60,
      maxDelaySeconds: 14_400,
      jitter: 0.2,
      expireAfterSeconds: 432_000,
    });
  });

  test('the limits of next hops, by route and by recipient domain', () => {
    const { delivery } = loadYaml(`
routes:
  - { name: out, type: smarthost, url: "smtp://mail.example:25", connections: 3, messagesPerSecond: 0.5, backoffSeconds: 9 }
delivery:
  connections: 40
  destinations:
    - { domains: [Big.Example, bücher.example], connections: 20, messagesPerConnection: 7 }
`);
    expect(delivery).toMatchObject({ connections: 40 });
    expect(delivery.routes).toMatchObject([{ connections: 3, limits: { messagesPerSecond: 0.5, backoffSeconds: 9 } }]);
    expect(delivery.destinations).toEqual([
      { domains: ['big.example', 'xn--bcher-kva.example'], limits: { connections: 20, messagesPerConnection: 7 } },
    ]);
    const capture = 'routes: [{ name: out, type: capture, messagesPerSecond: 3 }]';
    expect(() => loadYaml(capture)).toThrow('messagesPerSecond: is not for type capture');
  });

  test('the account', () => {
    const { accounts, tokens } = loadYaml('');
    expect(accounts.map(({ name, plan }) => `${name} ${plan}`)).toEqual(['dev enterprise']);
    expect(accounts[0]?.sendingDomains).toEqual(
      ['example.com', 'example.net', 'example.org'].map((name) => ({
        name,
        subdomains: true,
        dkim: [{ selector: 's1', algorithm: 'rsa' }],
      })),
    );
    expect(accounts[0]?.credentials.get('default')?.scopes.size).toBe(11);
    expect(tokens).toMatchObject([{ credential: 'default', source: { kind: 'variable', name: 'POSTERN_TOKEN' } }]);
  });
});

describe('the shipped files', () => {
  test('config/postern.yaml is what its own absence means, with two accounts and two zones', () => {
    const config = shipped('config/postern.yaml');
    const bare = loadConfig({ file: 'test/app/config/empty.yaml', env: {}, cwd: root });
    expect({ ...config.smtp, listeners: config.smtp.listeners }).toEqual(bare.smtp);
    // docs/operations.md names each of these.
    const ofDevelopment = ['development', 'console', 'journal', 'accounts', 'edgeAccounts', 'tokens', 'zones', 'proxy'];
    const own = ['file', 'warnings', ...ofDevelopment];
    const without = (one: Config) => Object.fromEntries(Object.entries(one).filter(([key]) => !own.includes(key)));
    expect(without(config)).toEqual(without(bare));
    expect(config.proxy).toEqual({ ...bare.proxy, portOffset: 20_000 });
    expect(config.journal).toEqual({ ...bare.journal, content: 'full' });
    expect([config.console, bare.console]).toEqual([{ ...bare.console, enabled: true }, { enabled: false }]);
    expect(bare.accounts.map(({ name, sendingDomains }) => [name, ...sendingDomains.map((one) => one.name)])).toEqual([
      ['dev', 'example.com', 'example.net', 'example.org'],
    ]);
    expect(config.accounts.map(({ name }) => name)).toEqual(['dev', 'payg']);
    expect(config.accounts[1]?.limits).toEqual({ messagesPerMinute: 600, recipientsPerDay: 100_000 });
    expect(config.zones.map(({ name, id, ipv4Quota }) => [name, id, ipv4Quota])).toEqual([
      ['example.com', '1'.repeat(32), 1000],
      ['payg.example', '2'.repeat(32), 10],
    ]);
    expect(config.development).toEqual({ account: 'a1'.repeat(16), credential: 'default' });
    expect(config.warnings).toEqual([]);
    expect(missingSecrets(config, {})).toEqual([]);
  });

  test('config/examples/every-rule.yaml', () => {
    const config = shipped('config/examples/every-rule.yaml');
    expect(config.zones).toHaveLength(14);
    expect(config.edgeAccounts[0]).toMatchObject({
      email: 'dev@example.com',
      entitlements: ['ftp', 'edge_ips', 'smart_routing'],
      globalKey: { kind: 'variable', name: 'POSTERN_DEV_KEY' },
    });
    expect(config.zones.find(({ name }) => name === 'bare.example')).toMatchObject({
      account: 'b1'.repeat(16),
      hostnames: ['bare.example'],
      protocols: { tcp: ['1-65535'], udp: ['1-65535'] },
    });
  });

  test('nothing of a configuration can be changed', () => {
    expect(thawed(shipped('config/postern.yaml'))).toEqual([]);
    expect(thawed(shipped('config/examples/every-rule.yaml'))).toEqual([]);
  });
});

describe('slices', () => {
  test('domains become A-labels, ids lower case, networks CIDRs, folders absolute', () => {
    const cwd = scratchFolder();
    const config = loadYaml(
      `
dataDir: /var/lib/postern
database: { url: "sqlite:///srv/x.db" }
smtp:
  hostname: MX.Example
  listeners:
    - { name: d, listen: "[::1]:25", tls: none, credential: A1A1A1A1A1A1A1A1A1A1A1A1A1A1A1A1/dev, allowFrom: [192.0.2.1, "2001:db8::/32", "::1"], proxyProtocolFrom: [10.0.0.1] }
routes:
  - { name: x, type: capture, folder: /srv/mail, match: { recipientDomains: [BÜCHER.example], accounts: [A1A1A1A1A1A1A1A1A1A1A1A1A1A1A1A1] } }
  - { name: y, type: capture }
accounts:
  - name: acme
    id: A1A1A1A1A1A1A1A1A1A1A1A1A1A1A1A1
    sendingDomains: [{ name: Bücher.example, returnPathDomain: R.example, subdomains: false, dkim: [{ selector: e1, algorithm: ed25519 }] }]
    credentials: [{ name: dev, strip: [X-Cron-Env, user-agent], defaultDomain: Example.COM, legacyCharset: iso-8859-1, trustedHop: true }]
zones:
  - name: Zöne.example
    id: "${'F'.repeat(32)}"
    account: acme
    permittedOriginZones: ["*", BÜCHER.example]
    loadBalancers: [LB.Example.COM]
    applications: [{ id: "${'E'.repeat(32)}", protocol: tcp/22, dns: { type: CNAME, name: a.example } }]
`,
      {},
      cwd,
    );
    expect(databaseFileOf(config)).toBe('/srv/x.db');
    expect(config.smtp.hostname).toBe('mx.example');
    expect(config.smtp.listeners[0]).toMatchObject({
      host: '::1',
      port: 25,
      credential: { account: 'acme', name: 'dev' },
      allowFrom: ['192.0.2.1/32', '2001:db8::/32', '::1/128'],
      proxyProtocolFrom: ['10.0.0.1/32'],
    });
    expect(config.delivery).toMatchObject({
      hostname: 'mx.example',
      routes: [
        { folder: '/srv/mail', match: { recipientDomains: ['xn--bcher-kva.example'], accounts: ['acme'] } },
        { folder: '/var/lib/postern/capture' },
      ],
    });
    const [account] = config.accounts;
    expect(account?.id).toBe('a1'.repeat(16));
    expect(account?.sendingDomains).toEqual([
      {
        name: 'xn--bcher-kva.example',
        subdomains: false,
        returnPathDomain: 'r.example',
        dkim: [{ selector: 'e1', algorithm: 'ed25519' }],
      },
    ]);
    expect(config.zones).toMatchObject([
      {
        name: 'xn--zne-sna.example',
        id: 'f'.repeat(32),
        permittedOriginZones: ['*', 'xn--bcher-kva.example'],
        loadBalancers: ['lb.example.com'],
        applications: [{ id: 'e'.repeat(32) }],
      },
    ]);
    expect(account?.credentials.get('dev')).toEqual({
      name: 'dev',
      scopes: new Set(['email:send']),
      strip: stripRules({ strip: ['X-Cron-Env', 'user-agent'] }),
      trustedHop: true,
      defaultDomain: 'example.com',
      legacyCharset: 'iso-8859-1',
    });
  });

  test.each([
    [
      'url: "smtp://h.example:26"',
      { host: 'h.example', port: 26, tls: 'opportunistic', tlsVerify: false, connections: 10 },
    ],
    ['url: "smtp://h.example", tls: required', { port: 25, tls: 'required', tlsVerify: true }],
    ['url: "smtp://h.example", tls: { verify: false }', { tls: 'opportunistic', tlsVerify: false }],
    ['url: "smtp://h.example", auth: { user: u, passwordEnv: P }', { tls: 'opportunistic', tlsVerify: true }],
    [
      'url: "smtp://h.example", tls: { verify: false }, auth: { user: u, passwordEnv: P }',
      { tls: 'opportunistic', tlsVerify: false },
    ],
    ['url: "smtp://h.example:465", tls: implicit', { port: 465, tls: 'implicit', tlsVerify: true }],
    ['url: "smtps://h.example"', { port: 465, tls: 'implicit', tlsVerify: true }],
    [
      'url: "smtp://h.example", tls: { mode: required, ca: /etc/ca.pem }',
      { tls: 'required', tlsVerify: true, caFile: '/etc/ca.pem' },
    ],
    [
      'url: "smtp://h.example", tls: { ca: /etc/ca.pem }',
      { tls: 'opportunistic', tlsVerify: true, caFile: '/etc/ca.pem' },
    ],
    ['url: "smtp://h.example", tls: { mode: required, verify: false }', { tls: 'required', tlsVerify: false }],
    [
      'url: "smtp://127.0.0.1:25", tls: none, connections: 3, platformSignature: false',
      { tls: 'none', tlsVerify: false, connections: 3, platformSignature: false },
    ],
  ])('route { %s }', (yaml, wanted) => {
    const { delivery } = loadYaml(`routes: [{ name: out, type: smarthost, ${yaml} }]`);
    expect(delivery.routes[0]).toMatchObject({ name: 'out', type: 'smarthost', ...wanted });
  });

  test('disabled listeners are left out; limits given in part keep the others', () => {
    const config = loadYaml(
      'smtp: { listeners: [{ name: a, listen: "127.0.0.1:1", tls: none, enabled: false }], limits: { recipients: 100 } }',
    );
    expect(config.smtp.listeners).toEqual([]);
    expect(config.smtp.limits).toMatchObject({ recipients: 100, connections: 1000 });
  });

  test('`development:` alone stands for the development account', () => {
    const config = loadYaml(
      'development:\naccounts: [{ name: dev, id: "a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1" }, { name: two, id: "b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1b1" }]',
    );
    expect(config.development).toEqual({ account: 'a1'.repeat(16), credential: 'default' });
    const scopes = config.accounts.map((account) => account.credentials.get('default')?.scopes.size);
    expect(scopes).toEqual([11, 1]);
    expect(config.proxy.portOffset).toBe(20_000);
  });
});

function passwordOf(config: Config, index: number): string | undefined {
  const route = config.delivery.routes[index];
  return route?.type === 'smarthost' ? route.auth?.password : undefined;
}

describe('secrets', () => {
  const yaml = `
routes:
  - { name: a, type: smarthost, url: "smtps://h.example", match: { accounts: [dev] }, auth: { user: u, passwordEnv: PASSWORD_A } }
  - { name: b, type: smarthost, url: "smtps://h.example", auth: { user: u, passwordFile: secret.txt } }
accounts:
  - name: dev
    id: "a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1"
    credentials:
      - { name: one, tokenEnv: TOKEN_ONE }
      - { name: two, tokenFile: token.txt }
      - { name: three, tokenSha256: "${'AB'.repeat(32)}" }
`;
  test('are read when they are used, not when the configuration is loaded', () => {
    const cwd = scratchFolder();
    const config = loadYaml(yaml, {}, cwd);
    expect(() => passwordOf(config, 0)).toThrow(
      new ConfigurationError('routes[0].auth: the environment variable PASSWORD_A is not set'),
    );
    expect(() => passwordOf(config, 1)).toThrow('there is no such file');
    writeFileSync(join(cwd, 'secret.txt'), '  open sesame \n');
    expect(passwordOf(config, 1)).toBe('open sesame');
    expect(passwordOf(loadYaml(yaml, { PASSWORD_A: 'x y' }), 0)).toBe('x y');
  });

  test('what is missing is told by entry', () => {
    const cwd = scratchFolder();
    const config = loadYaml(yaml, {}, cwd);
    writeFileSync(join(cwd, 'token.txt'), '\n');
    expect(missingSecrets(config, { PASSWORD_A: 'x' })).toEqual([
      `routes[1].auth: cannot read "${join(cwd, 'secret.txt')}": there is no such file`,
      'accounts[0].credentials[0]: the environment variable TOKEN_ONE is not set',
      `accounts[0].credentials[1]: "${join(cwd, 'token.txt')}" is empty`,
    ]);
  });

  test.each(['__proto__', 'constructor', 'toString', '__defineGetter__'])(
    'a variable called %s is not set, although every object inherits one',
    (name) => {
      const text = yaml
        .replace('PASSWORD_A', name)
        .replace('TOKEN_ONE', name)
        .replace('dev\n', `dev\n    email: a@b.test\n    globalKeyEnv: ${name}\n`);
      for (const env of [{}, process.env]) {
        const config = loadYaml(text, env);
        expect(() => passwordOf(config, 0)).toThrow(
          new ConfigurationError(`routes[0].auth: the environment variable ${name} is not set`),
        );
        expect(missingSecrets(config, env)).toContain(
          `accounts[0].credentials[0]: the environment variable ${name} is not set`,
        );
        expect(configuredGlobalKeys(config, env)).toEqual([]);
      }
    },
  );

  test('a secret is read neither from a pipe nor from a device, nor is a file that is read while others are served', () => {
    const cwd = scratchFolder();
    const config = loadYaml(yaml, { PASSWORD_A: 'x' }, cwd);
    execFileSync('mkfifo', [join(cwd, 'secret.txt')]);
    symlinkSync('/dev/null', join(cwd, 'token.txt'));
    expect(missingSecrets(config, { PASSWORD_A: 'x', TOKEN_ONE: 'y' })).toEqual([
      `routes[1].auth: cannot read "${join(cwd, 'secret.txt')}": it is a pipe`,
      `accounts[0].credentials[1]: cannot read "${join(cwd, 'token.txt')}": it is a device`,
    ]);
    expect(() => loadConfig({ file: 'secret.txt', env: {}, cwd, isServed: true })).toThrow(
      'secret.txt: cannot be read: it is a pipe',
    );
  });

  test('tokens of the configuration are kept as hashes', () => {
    const cwd = scratchFolder();
    const config = loadYaml(yaml, {}, cwd);
    writeFileSync(join(cwd, 'token.txt'), 'from-file\n');
    const account = 'a1'.repeat(16);
    expect(configuredTokens(config, { TOKEN_ONE: 'from-environment' })).toEqual([
      { account, credential: 'one', sha256: hashToken('from-environment') },
      { account, credential: 'two', sha256: hashToken('from-file') },
      { account, credential: 'three', sha256: 'ab'.repeat(32) },
    ]);
    expect(() => configuredTokens(config, { TOKEN_ONE: 'from-file' })).toThrow(
      'accounts[0].credentials[1]: the same token stands for another credential',
    );
  });

  const alike = `
development: { account: dev, credential: one }
accounts:
  - { name: dev, id: "${'a1'.repeat(16)}", credentials: [{ name: one, tokenEnv: A }, { name: two, tokenEnv: B }] }
  - { name: other, id: "${'b2'.repeat(16)}", credentials: [{ name: one, tokenEnv: C }] }
`;
  test('one token is of one credential of one account', () => {
    const env = { A: 'token-of-one', B: 'token-of-two', C: 'token-of-other' };
    expect(configuredTokens(loadYaml(alike), env)).toHaveLength(3);
    for (const [variable, path] of [
      ['B', 'accounts[0].credentials[1]'],
      ['C', 'accounts[1].credentials[0]'],
    ] as const)
      expect(() => configuredTokens(loadYaml(alike), { ...env, [variable]: env.A })).toThrow(
        `${path}: the same token stands for another credential`,
      );
  });

  test('only the development credential’s token may be missing, not one of the same name elsewhere', () => {
    expect(missingSecrets(loadYaml(alike), {})).toEqual([
      'accounts[0].credentials[1]: the environment variable B is not set',
      'accounts[1].credentials[0]: the environment variable C is not set',
    ]);
  });

  test("POSTERN_TOKEN is the development credential's token, and only in development", () => {
    const text = 'accounts: [{ name: dev, id: "a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1" }]\n';
    const token = { account: 'a1'.repeat(16), credential: 'default', sha256: hashToken('abc') };
    expect(configuredTokens(loadYaml(`${text}development: {}`), { POSTERN_TOKEN: 'abc' })).toEqual([token]);
    expect(configuredTokens(loadYaml(text), { POSTERN_TOKEN: 'abc' })).toEqual([]);
  });
});

test('hardly meant, but allowed: warnings', () => {
  const config = loadYaml(
    `
smtp:
  listeners:
    - { name: dead, listen: "127.0.0.1:1", tls: none }
    - { name: open, listen: "127.0.0.1:2", tls: starttls, allowInsecureAuth: true }
routes: [{ name: out, type: smarthost, url: "smtp://mail.example", tls: { verify: false }, auth: { user: u, passwordEnv: P } }]
accounts:
  - { name: a, id: "${'a'.repeat(32)}", email: a@a.example, globalKeyEnv: KEY_OF_A }
  - { name: b, id: "${'b'.repeat(32)}", email: b@b.example, globalKeyEnv: KEY_OF_B }
  - { name: c, id: "${'c'.repeat(32)}", globalKeyEnv: KEY_OF_B }
`,
    { POSTERN_TOKEN: 'short', KEY_OF_B: 'a-global-key-of-some-length' },
  );
  expect(config.warnings).toEqual([
    'smtp listener "dead" takes no mail: it has neither TLS for AUTH nor a credential of its own',
    'smtp listener "open" takes tokens in the clear (allowInsecureAuth)',
    'route "out" sends its password to whoever answers as mail.example (tls.verify: false)',
    'the global key of a@a.example opens nothing: the environment variable KEY_OF_A is not set',
    `account ${'c'.repeat(32)} has a globalKeyEnv but no email to use it with`,
    'POSTERN_TOKEN has 5 characters: one that short can be guessed',
  ]);
});

test('every token in a variable is warned of where it is short, not POSTERN_TOKEN alone', () => {
  const { warnings } = loadYaml(
    `
http: { listen: "127.0.0.1:0", metricsTokenEnv: METRICS }
accounts:
  - name: shop
    id: "${'a'.repeat(32)}"
    credentials:
      - { name: web, tokenEnv: SHOP }
      - { name: cron, tokenEnv: CRON }
      - { name: old, tokenEnv: UNSET }
`,
    { SHOP: ' four ', CRON: 'a-token-of-some-length', METRICS: 'm' },
  );
  expect(warnings).toEqual([
    'SHOP has 4 characters: one that short can be guessed',
    'METRICS has 1 character: one that short can be guessed',
  ]);
});

describe('the file', () => {
  test('by argument, by POSTERN_CONFIG, by default', () => {
    const cwd = scratchFolder();
    mkdirSync(join(cwd, 'config'));
    writeFileSync(join(cwd, 'config/postern.yaml'), 'drainSeconds: 1');
    writeFileSync(join(cwd, 'b.yaml'), 'drainSeconds: 2');
    writeFileSync(join(cwd, 'c.yaml'), 'drainSeconds: 3');
    expect(loadConfig({ cwd, env: {} }).drainSeconds).toBe(1);
    expect(loadConfig({ cwd, env: { POSTERN_CONFIG: 'b.yaml' } }).drainSeconds).toBe(2);
    expect(loadConfig({ cwd, env: { POSTERN_CONFIG: 'b.yaml' }, file: join(cwd, 'c.yaml') }).drainSeconds).toBe(3);
  });

  test('that POSTERN_CONFIG names and that is not there, or is the folder that an engine makes of it, tells what to mount', () => {
    const cwd = scratchFolder();
    mkdirSync(join(cwd, 'made'));
    const remedy = (file: string): string =>
      `; POSTERN_CONFIG names it. In a container, mount your configuration there: --volume ./postern.yaml:${file}:ro; config/examples/staging.yaml is one to begin with`;
    for (const [file, reason] of [
      [join(cwd, 'none.yaml'), 'there is no such file'],
      [join(cwd, 'made'), 'it is a folder'],
    ] as const) {
      const wanted = new ConfigurationError(`${file}: cannot be read: ${reason}${remedy(file)}`);
      expect(() => loadConfig({ cwd, env: { POSTERN_CONFIG: file } })).toThrow(wanted);
    }
  });

  test.each(readdirSync('config/examples'))('the example %s is right', (name) => {
    expect(loadConfig({ cwd: process.cwd(), env: {}, file: `config/examples/${name}` }).warnings).toEqual(
      expect.any(Array),
    );
  });

  test('that is not there is named', () => {
    expect(() => loadConfig({ cwd: scratchFolder(), env: {} })).toThrow(
      new ConfigurationError(
        'config/postern.yaml: cannot be read: there is no such file; name another with --config or POSTERN_CONFIG',
      ),
    );
  });
});
