// The first start in development, with real files and a real database (D95).

import { execFileSync } from 'node:child_process';
import { createHmac, createPublicKey, sign, verify, X509Certificate } from 'node:crypto';
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { connect, createServer } from 'node:tls';
import { describe, expect, onTestFinished, test } from 'vitest';
import { createAccounts } from '../../../src/accounts/accounts.ts';
import { openTokenStore, type TokenStore } from '../../../src/accounts/token-store.ts';
import {
  type BootstrapParts,
  bootstrap,
  ensureDevelopmentToken,
  loadKeys,
} from '../../../src/app/bootstrap/bootstrap.ts';
import { fileWarnings } from '../../../src/app/bootstrap/check-files.ts';
import { type Config } from '../../../src/app/config/config.ts';
import { configuredTokens } from '../../../src/app/config/secrets.ts';
import { generateDkimKey } from '../../../src/pipeline/sign/dkim-key.ts';
import { testCertificate } from '../../support/certificate.ts';
import { databaseFileOf } from '../../support/database-file.ts';
import { openTestDatabase } from '../../support/engines.ts';
import { clockOf } from '../../support/manual-clock.ts';
import { loadYaml, scratchFolder } from '../../support/scratch.ts';

const yaml = `
development: {}
platform: { dkim: [{ selector: p1, algorithm: ed25519 }] }
smtp: { hostname: mx.gateway.example }
accounts:
  - name: dev
    id: "${'a1'.repeat(16)}"
    sendingDomains:
      - { name: example.com, dkim: [{ selector: s1, algorithm: rsa }, { selector: e1, algorithm: ed25519 }] }
`;
const clock = clockOf(() => Date.UTC(2026, 5, 1));

async function open(config: Config): Promise<TokenStore> {
  return await openTokenStore(await openTestDatabase(databaseFileOf(config)));
}

async function setUp(text = yaml, env: Readonly<Record<string, string>> = {}) {
  const folder = scratchFolder();
  const config = loadYaml(text, env, folder);
  const tokens = await open(config);
  const start = (withEnv = env) => startOn(config, { env: withEnv, tokens, clock });
  return { folder, config, tokens, start };
}

/** A start as `serve` makes it: keys first, the token once everything is open. */
async function startOn(config: Config, parts: BootstrapParts) {
  return { ...(await bootstrap(config, parts)), token: await ensureDevelopmentToken(config, parts) };
}

function tree(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort();
}

describe('in development', () => {
  test('makes every file that is missing, and at the next start none', async () => {
    const { config, folder, start } = await setUp();
    const files = [
      'certs/hmac.key',
      'certs/tls/mx.gateway.example/fullchain.pem',
      'certs/tls/mx.gateway.example/privkey.pem',
      'certs/dkim/platform.example/p1.pem',
      'certs/dkim/example.com/s1.pem',
      'certs/dkim/example.com/e1.pem',
    ];
    const first = await start();
    expect(first.made.map((file) => relative(folder, file))).toEqual(files);
    for (const file of first.made) expect(statSync(file).mode & 0o777, file).toBe(0o600);
    expect(statSync(config.certsDir).mode & 0o777).toBe(0o700);
    const before = first.made.map((file) => readFileSync(file, 'utf8'));
    expect((await start()).made).toEqual([]);
    expect(first.made.map((file) => readFileSync(file, 'utf8'))).toEqual(before);
    expect(tree(config.certsDir).filter((name) => name.includes('.tmp'))).toEqual([]);
  });

  test('for HTTPS, a certificate for every hostname of a zone; without a zone that of the mail host', async () => {
    const zones = `zones: [{ name: a.example, id: "${'1'.repeat(32)}", account: dev, hostnames: [a.example, www.a.example] }]`;
    const mailOff = 'smtp: { hostname: mx.gateway.example, listeners: [] }';
    const hostsOf = async (text: string) => {
      const { config, start } = await setUp(text);
      await start();
      return [...loadKeys(config).tls.keys()].toSorted();
    };
    const withoutMail = yaml.replace('smtp: { hostname: mx.gateway.example }', mailOff);
    expect(await hostsOf(`${yaml}${zones}`)).toEqual(['a.example', 'mx.gateway.example', 'www.a.example']);
    expect(await hostsOf(`${withoutMail}${zones}`)).toEqual(['a.example', 'www.a.example']);
    expect(await hostsOf(withoutMail)).toEqual(['mx.gateway.example']);
    expect(await hostsOf(`${withoutMail}${zones}\nhttp: { tlsListen: "" }`)).toEqual([]);
  });

  test('a certificate with a wildcard or several names serves every host that it holds for, and none is made for them', async () => {
    const zone = `{ name: a.example, id: "${'1'.repeat(32)}", account: dev, hostnames: [a.example, www.a.example, b.test] }`;
    const { config, start } = await setUp(
      `${yaml}zones: [${zone}]\nhttp: { apiHosts: [api.a.example, x.api.a.example] }\n`,
    );
    const pairs = {
      any: await testCertificate(['*.a.example', 'b.test']),
      own: await testCertificate(['www.a.example']),
    };
    for (const [folder, { cert, key }] of [
      ['any', pairs.any],
      ['www.a.example', pairs.own],
    ] as const) {
      mkdirSync(join(config.certsDir, 'tls', folder), { recursive: true });
      writeFileSync(join(config.certsDir, 'tls', folder, 'fullchain.pem'), cert);
      writeFileSync(join(config.certsDir, 'tls', folder, 'privkey.pem'), key, { mode: 0o644 });
    }
    const made = (await start()).made.filter((file) => file.includes('/tls/'));
    expect(new Set(made.map((file) => file.split('/').at(-2)))).toEqual(new Set(['a.example', 'mx.gateway.example']));
    const { tls } = loadKeys(config);
    const shown = (host: string) => tls.get(host)?.certificate;
    expect([shown('b.test'), shown('api.a.example')]).toEqual([pairs.any.cert, pairs.any.cert]);
    // Its own folder comes first; a wildcard is one label (RFC 9525 §6.3).
    expect(shown('www.a.example')).toBe(pairs.own.cert);
    expect(tls.has('x.api.a.example')).toBe(false);
    expect(fileWarnings(config, { tls }, Date.now())).toEqual(
      ['www.a.example', 'any'].map((name) =>
        expect.stringContaining(`tls/${name}/privkey.pem can be read by every user`),
      ),
    );
    rmSync(join(config.certsDir, 'tls/any/privkey.pem'));
    expect(() => loadKeys(config)).toThrow('tls/b.test/fullchain.pem is missing');
  });

  test('the certificate of a name of the API is shown where it is there, and not missed where it is not', async () => {
    const text = `${yaml}http: { apiHosts: [api.gateway.example, 127.0.0.1] }\n`;
    const { config, start } = await setUp(text);
    await start();
    const folder = join(config.certsDir, 'tls/api.gateway.example');
    expect(loadKeys(config).tls.has('api.gateway.example')).toBe(false);
    cpSync(join(config.certsDir, 'tls/mx.gateway.example'), folder, { recursive: true });
    expect(loadKeys(config).tls.has('api.gateway.example')).toBe(true);
    rmSync(join(folder, 'privkey.pem'));
    expect(() => loadKeys(config)).toThrow('api.gateway.example/privkey.pem is missing');
  });

  test('makes only the one that was removed', async () => {
    const { folder, start } = await setUp();
    await start();
    rmSync(join(folder, 'certs/dkim/example.com/e1.pem'));
    expect((await start()).made).toEqual([join(folder, 'certs/dkim/example.com/e1.pem')]);
  });

  test('the keys load and work', async () => {
    const { config, start } = await setUp();
    await start();
    const keys = loadKeys(config);
    const [rsa, ed25519] = keys.signing.get('example.com') ?? [];
    expect(rsa).toMatchObject({ domain: 'example.com', selector: 's1', algorithm: 'rsa' });
    expect(ed25519).toMatchObject({ domain: 'example.com', selector: 'e1', algorithm: 'ed25519' });
    expect(rsa?.key.asymmetricKeyDetails?.modulusLength).toBe(2048);
    expect(keys.platform.map(({ domain, selector }) => `${selector} ${domain}`)).toEqual(['p1 platform.example']);
    if (!rsa || !ed25519) throw new Error('no keys');
    const data = Buffer.from('x');
    expect(verify('sha256', data, createPublicKey(rsa.key), sign('sha256', data, rsa.key))).toBe(true);
    expect(verify(null, data, createPublicKey(ed25519.key), sign(null, data, ed25519.key))).toBe(true);
    expect(createHmac('sha256', keys.hmacKey).update('x').digest()).toHaveLength(32);
    expect(keys.hmacKey.symmetricKeySize).toBeGreaterThanOrEqual(32);
  });

  test('the certificate is for the host and for loopback, ten years, and a client takes it', async () => {
    const { config, start } = await setUp();
    await start();
    const tls = loadKeys(config).tls.get('mx.gateway.example');
    if (!tls) throw new Error('no certificate');
    const certificate = new X509Certificate(tls.certificate);
    for (const host of ['mx.gateway.example', 'localhost']) expect(certificate.checkHost(host), host).toBe(host);
    expect(certificate.checkIP('127.0.0.1')).toBe('127.0.0.1');
    expect(certificate.checkIP('::1')).toBe('::1');
    expect(certificate.checkHost('other.example')).toBeUndefined();
    expect(certificate.publicKey.asymmetricKeyDetails?.namedCurve).toBe('prime256v1');
    expect(tls.notAfter).toBe(clock.now() + 3650 * 86_400_000);
    const server = createServer({ cert: tls.certificate, key: tls.privateKey }, (socket) => socket.end('hello'));
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
    onTestFinished(() => void server.close());
    const address = server.address();
    const port = typeof address === 'object' && address ? address.port : 0;
    const text = await new Promise<string>((settle, reject) => {
      const socket = connect({ port, host: '127.0.0.1', servername: 'mx.gateway.example', ca: tls.certificate });
      socket.on('data', (data) => settle(data.toString())).on('error', reject);
    });
    expect(text).toBe('hello');
  });

  test('a file where the folder of the keys should be is told as such', async () => {
    const { folder, start } = await setUp();
    writeFileSync(join(folder, 'certs'), '');
    await expect(start()).rejects.toThrow(`Cannot write "${join(folder, 'certs/hmac.key')}"`);
  });

  test('several starts at once make one of each', async () => {
    const { config, tokens } = await setUp();
    const parts = { env: {}, clock };
    const starts = await Promise.all([
      startOn(config, { ...parts, tokens }),
      startOn(config, { ...parts, tokens: await open(config) }),
      startOn(config, { ...parts, tokens: await open(config) }),
    ]);
    const made = starts.flatMap(({ made: files }) => files);
    expect(new Set(made).size).toBe(made.length);
    expect(made).toHaveLength(6);
    expect(starts.map(({ token }) => token?.kind).toSorted((a, b) => `${a}`.localeCompare(`${b}`))).toEqual([
      'kept',
      'kept',
      'made',
    ]);
    expect(() => loadKeys(config)).not.toThrow();
  });
});

async function submitterOf(config: Config, store: TokenStore, token: string, env = {}) {
  const tokens = configuredTokens(config, env);
  return await createAccounts({ accounts: config.accounts, tokens, store, clock }).authenticate(token);
}

describe('the development token', () => {
  test('is made once and opens the credential', async () => {
    const { config, tokens: store, start } = await setUp();
    const { token } = await start();
    if (token?.kind !== 'made') throw new Error('no token was made');
    expect(token).toMatchObject({ account: 'dev', credential: 'default' });
    expect((await submitterOf(config, store, token.token))?.credential.scopes.size).toBe(11);
    const lastFour = [token.token.slice(-4)];
    expect((await start()).token).toEqual({ kind: 'kept', account: 'dev', credential: 'default', lastFour });
  });

  test('is not made where a person has made one', async () => {
    const { config, tokens: store, start } = await setUp();
    await store.create({ account: config.accounts[0]?.id ?? '', credential: 'default', createdAt: 1 });
    expect((await start()).token?.kind).toBe('kept');
  });

  test('is made though other credentials and other accounts have theirs', async () => {
    const { tokens: store, start } = await setUp();
    await store.create({ account: 'a1'.repeat(16), credential: 'other', createdAt: 1 });
    await store.create({ account: 'b2'.repeat(16), credential: 'default', createdAt: 1 });
    expect((await start()).token).toMatchObject({ kind: 'made', account: 'dev', credential: 'default' });
  });

  test('POSTERN_TOKEN takes the place of the one made, not of those that a person made', async () => {
    const { config, tokens: store, start } = await setUp();
    const first = await start();
    if (first.token?.kind !== 'made') throw new Error('no token was made');
    const own = await store.create({ account: config.accounts[0]?.id ?? '', credential: 'default', createdAt: 1 });
    const env = { POSTERN_TOKEN: 'a token of my own choice' };
    const given = { kind: 'given', account: 'dev', credential: 'default' };
    expect((await start(env)).token).toEqual({ ...given, revoked: [first.token.token.slice(-4)] });
    expect((await start(env)).token).toEqual({ ...given, revoked: [] });
    const lastFour = [own.token.slice(-4)];
    expect((await start()).token).toEqual({ kind: 'kept', account: 'dev', credential: 'default', lastFour });
    expect(await submitterOf(config, store, first.token.token, env)).toBeUndefined();
    expect(await submitterOf(config, store, own.token, env)).toBeDefined();
    expect((await submitterOf(config, store, 'a token of my own choice', env))?.credential.name).toBe('default');
    expect((await store.list()).filter(({ revokedAt }) => revokedAt !== undefined)).toHaveLength(1);
  });
});

describe('without development', () => {
  const production = yaml.replace('development: {}', '');

  test('nothing is made, and each missing file is told with the command that makes it', async () => {
    const { config, folder, start } = await setUp(production, { POSTERN_TOKEN: 'not used' });
    expect(await start()).toEqual({ made: [], missing: [] });
    expect(() => statSync(config.certsDir)).toThrow('ENOENT');
    const act = () => loadKeys(config);
    const certs = join(folder, 'certs');
    for (const line of [
      `${certs}/dkim/example.com/s1.pem is missing; make it: postern dkim keygen example.com --selector s1 --algorithm rsa`,
      `${certs}/dkim/example.com/e1.pem is missing; make it: postern dkim keygen example.com --selector e1 --algorithm ed25519`,
      `${certs}/dkim/platform.example/p1.pem is missing; make it: postern dkim keygen platform.example --selector p1 --algorithm ed25519`,
      `${certs}/hmac.key is missing; make it: postern keys hmac`,
      `${certs}/tls/mx.gateway.example/fullchain.pem is missing`,
      `${certs}/tls/mx.gateway.example/privkey.pem is missing`,
    ]) {
      expect(act).toThrow(line);
    }
  });

  test('a secret in use that is not there is an error, in development it is told', async () => {
    const route =
      'routes: [{ name: out, type: smarthost, url: "smtps://h.example", auth: { user: u, passwordEnv: NOT_SET } }]\n';
    const { start } = await setUp(route + production);
    await expect(start()).rejects.toThrow('routes[0].auth: the environment variable NOT_SET is not set');
    expect((await (await setUp(route + yaml)).start()).missing).toEqual([
      'routes[0].auth: the environment variable NOT_SET is not set',
    ]);
    expect((await (await setUp(route + production, { POSTERN_RELAY: 'capture' })).start()).missing).toEqual([]);
  });
});

async function spoil(change: (certs: string) => void | Promise<void>, text = yaml): Promise<string> {
  const { config, start } = await setUp(text);
  await start();
  await change(config.certsDir);
  try {
    loadKeys(config);
  } catch (error) {
    return error instanceof Error ? error.message.replaceAll(config.certsDir, 'certs') : '';
  }
  return 'loaded';
}

describe('keys that are there but wrong', async () => {
  test.each<readonly [string, (certs: string) => void | Promise<void>, string]>([
    ['nothing', () => undefined, 'loaded'],
    [
      'no PEM',
      (certs) => writeFileSync(`${certs}/dkim/example.com/s1.pem`, 'x'),
      'certs/dkim/example.com/s1.pem: DKIM key s1._domainkey.example.com cannot be read as a private key in PEM',
    ],
    [
      'another algorithm',
      async (certs) => writeFileSync(`${certs}/dkim/example.com/s1.pem`, await generateDkimKey('ed25519')),
      'certs/dkim/example.com/s1.pem: DKIM key s1._domainkey.example.com is ed25519, not rsa',
    ],
    [
      'a short HMAC key',
      (certs) => writeFileSync(`${certs}/hmac.key`, 'x'.repeat(31)),
      'certs/hmac.key has 31 octets, want at least 32',
    ],
    ['an HMAC key just long enough', (certs) => writeFileSync(`${certs}/hmac.key`, `${'x'.repeat(32)}\n`), 'loaded'],
    [
      'a key of another certificate',
      async (certs) => writeFileSync(`${certs}/tls/mx.gateway.example/privkey.pem`, await generateDkimKey('rsa')),
      'certs/tls/mx.gateway.example/fullchain.pem and privkey.pem beside it are no certificate and its key',
    ],
    [
      'a folder for a file',
      (certs) => {
        rmSync(`${certs}/hmac.key`);
        mkdirSync(`${certs}/hmac.key`);
      },
      'certs/hmac.key cannot be read: EISDIR',
    ],
    [
      'a pipe that nobody writes to',
      (certs) => {
        rmSync(`${certs}/hmac.key`);
        execFileSync('mkfifo', [`${certs}/hmac.key`]);
      },
      'certs/hmac.key cannot be read: it is a pipe',
    ],
    [
      'a device',
      (certs) => {
        rmSync(`${certs}/hmac.key`);
        symlinkSync('/dev/null', `${certs}/hmac.key`);
      },
      'certs/hmac.key cannot be read: it is a device',
    ],
  ])('%s', async (_, change, wanted) => {
    expect(await spoil(change)).toContain(wanted);
  });

  test('a certificate without its key is left alone, not replaced', async () => {
    const { config, start } = await setUp();
    await start();
    rmSync(`${config.certsDir}/tls/mx.gateway.example/privkey.pem`);
    expect((await start()).made).toEqual([]);
    expect(() => loadKeys(config)).toThrow('privkey.pem is missing');
  });

  test('keys that nothing uses need not be there', async () => {
    const unused = `
development: {}
http: { tlsListen: "" }
smtp: { listeners: [{ name: a, listen: "127.0.0.1:1", tls: none, credential: dev/default, allowFrom: [127.0.0.1] }] }
routes: [{ name: out, type: capture, platformSignature: false }]
accounts: [{ name: dev, id: "${'a1'.repeat(16)}" }]
`;
    const { config, start } = await setUp(unused);
    expect((await start()).made).toEqual([]);
    expect(loadKeys(config)).toMatchObject({ platform: [], signing: new Map(), tls: new Map() });
  });
});
