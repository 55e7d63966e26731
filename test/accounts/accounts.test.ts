// Accounts and tokens on a real database, from several handles (D50, D92-D94).

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Scope } from '../../src/accounts/account.ts';
import { type AccountsParts, createAccounts } from '../../src/accounts/accounts.ts';
import { stripRules } from '../../src/accounts/strip-rules.ts';
import { accountMigrations, hashToken, openTokenStore } from '../../src/accounts/token-store.ts';
import { openTestDatabase } from '../support/engines.ts';
import { clockOf } from '../support/manual-clock.ts';
import { loadYaml, scratchFolder } from '../support/scratch.ts';

const dev = 'a1'.repeat(16);

const configured = `
accounts:
  - name: dev
    id: "${dev}"
    sendingDomains:
      - { name: example.com }
      - { name: news.example.com }
      - { name: flat.example.org, subdomains: false }
      - { name: example.org }
    credentials:
      - { name: default }
      - { name: cron, strip: [User-Agent] }
      - { name: office, defaultDomain: example.com, scopes: ["email:send", "email:suppressions", admin] }
  - { name: payg, id: "${'c1'.repeat(16)}", sendingDomains: [{ name: payg.example }, { name: pay.example.com }, { name: till.example.com, subdomains: false }], credentials: [{ name: default }] }
`;

async function setUp(parts: Partial<AccountsParts> & { readonly now?: () => number } = {}) {
  const folder = scratchFolder();
  const config = loadYaml(configured, {}, folder);
  const file = join(folder, 'postern.db');
  const database = await openTestDatabase(file);
  const store = await openTokenStore(database);
  const clock = clockOf(parts.now ?? (() => 1_000_000));
  const accounts = createAccounts({ accounts: config.accounts, tokens: [], store, clock, ...parts });
  return { accounts, database, store, file };
}

describe('tokens of the store', () => {
  test('open their credential, and nothing else does', async () => {
    const { accounts, store } = await setUp();
    const { token, record } = await store.create({ account: dev, credential: 'cron', createdAt: 1 });
    expect(token).toMatch(/^pt_[A-Za-z0-9_-]{43}$/);
    expect(record.lastFour).toBe(token.slice(-4));
    expect(await accounts.authenticate(token)).toBe(accounts.submitter('dev', 'cron'));
    expect((await accounts.authenticate(token))?.credential.strip).toEqual(stripRules({ strip: ['User-Agent'] }));
    for (const wrong of [
      '',
      'x',
      token.slice(0, -1),
      `${token}x`,
      token.toUpperCase(),
      hashToken(token),
      `${token}\0`,
    ]) {
      expect(await accounts.authenticate(wrong), wrong).toBeUndefined();
    }
  });

  test('are not in the file, neither whole nor in part', async () => {
    const { database, store, file } = await setUp();
    const { token } = await store.create({ account: dev, credential: 'cron', createdAt: 1 });
    // The last connection writes its log into the file.
    await database.close();
    const octets = readFileSync(file);
    expect(octets.includes(Buffer.from(hashToken(token)))).toBe(true);
    expect(octets.includes(Buffer.from(token.slice(3, 20)))).toBe(false);
  });

  test('made and revoked by another handle count at once', async () => {
    const { accounts, file } = await setUp();
    const other = await openTokenStore(await openTestDatabase(file));
    const { token, record } = await other.create({ account: dev, credential: 'default', createdAt: 1 });
    expect((await accounts.authenticate(token))?.account.name).toBe('dev');
    expect(await other.revoke({ id: record.id, now: 7 })).toEqual({ ...record, revokedAt: 7 });
    expect(await accounts.authenticate(token)).toBeUndefined();
  });

  test('expire at their time', async () => {
    let now = 4_999;
    const { accounts, store } = await setUp({ now: () => now });
    const { token } = await store.create({ account: dev, credential: 'cron', createdAt: 0, expiresAt: 5_000 });
    expect(await accounts.authenticate(token)).toBeDefined();
    now = 5_000;
    expect(await accounts.authenticate(token)).toBeUndefined();
  });

  test('whose account or credential the configuration no longer has open nothing', async () => {
    const { accounts, store } = await setUp();
    const gone = await store.create({ account: dev, credential: 'gone', createdAt: 1 });
    const stranger = await store.create({ account: 'f'.repeat(32), credential: 'default', createdAt: 1 });
    expect(await accounts.authenticate(gone.token)).toBeUndefined();
    expect(await accounts.authenticate(stranger.token)).toBeUndefined();
  });

  test('are listed the oldest first, of one account or all', async () => {
    const { store } = await setUp();
    const second = await store.create({ account: 'c1'.repeat(16), credential: 'default', createdAt: 2, label: 'x' });
    const first = await store.create({ account: dev, credential: 'cron', createdAt: 1, expiresAt: 9 });
    expect(await store.list()).toEqual([first.record, second.record]);
    expect(await store.list(dev)).toEqual([first.record]);
    expect(JSON.stringify(await store.list())).not.toContain(first.token);
  });

  test('are revoked once, by id, and only of the account asked for', async () => {
    const { accounts, store } = await setUp();
    const { token, record } = await store.create({ account: dev, credential: 'cron', createdAt: 1 });
    expect(await store.revoke({ id: 'nothing', now: 5 })).toBeUndefined();
    expect(await store.revoke({ id: record.id, account: 'c1'.repeat(16), now: 5 })).toBeUndefined();
    expect(await accounts.authenticate(token)).toBeDefined();
    expect((await store.revoke({ id: record.id, account: dev, now: 5 }))?.revokedAt).toBe(5);
    expect((await store.revoke({ id: record.id, now: 6 }))?.revokedAt).toBe(5);
    expect(await accounts.authenticate(token)).toBeUndefined();
  });
});

describe('tokens narrowed to some scopes', () => {
  test('may these and no more, and are their credential otherwise', async () => {
    const { accounts, store } = await setUp();
    const make = async (scopes: readonly Scope[]) =>
      await store.create({ account: dev, credential: 'office', createdAt: 1, scopes });
    const { token, record } = await make(['email:suppressions', 'admin']);
    const found = await accounts.authenticate(token);
    expect(found?.credential).toEqual({
      ...accounts.submitter('dev', 'office')?.credential,
      scopes: new Set(['email:suppressions', 'admin']),
    });
    expect(found?.account).toBe(accounts.find('dev'));
    expect(await accounts.authenticate(token)).toBe(found);
    expect(await accounts.authenticateHash(hashToken(token))).toBe(found);
    expect(record.scopes).toEqual(['email:suppressions', 'admin']);
    expect(await store.list(dev)).toEqual([record]);
    expect((await accounts.authenticate((await make(['email:send'])).token))?.credential.scopes).toEqual(
      new Set(['email:send']),
    );
  });

  test('never may more than the credential does, whatever the row says', async () => {
    const { accounts, database, store } = await setUp();
    const { token } = await store.create({
      account: dev,
      credential: 'cron',
      createdAt: 1,
      scopes: ['admin', 'email:send'],
    });
    expect((await accounts.authenticate(token))?.credential.scopes).toEqual(new Set(['email:send']));
    await database.run("UPDATE tokens SET scopes = 'admin everything'");
    expect((await accounts.authenticate(token))?.credential.scopes).toEqual(new Set());
  });

  test('are their own account’s and credential’s, though others are narrowed to the same scopes', async () => {
    const { accounts, store } = await setUp();
    const made = [
      [dev, 'cron'],
      ['c1'.repeat(16), 'default'],
      [dev, 'default'],
      [dev, 'office'],
    ] as const;
    const tokens = await Promise.all(
      made.map(([account, credential]) =>
        store.create({ account, credential, createdAt: 1, scopes: ['email:send'] as const }),
      ),
    );
    // Twice, since what was narrowed once is remembered.
    for (const _ of [1, 2]) {
      const found = [];
      for (const { token } of tokens) found.push(await accounts.authenticate(token));
      expect(found.map((one) => [one?.account.id, one?.credential.name])).toEqual(made);
      expect(found.map((one) => one?.credential.strip)).toEqual(
        made.map(([account, credential]) => accounts.submitter(account, credential)?.credential.strip),
      );
    }
  });

  test('tokens of an older database may all that their credential may', async () => {
    const folder = scratchFolder();
    const file = join(folder, 'postern.db');
    const database = await openTestDatabase(file);
    await database.migrate({ ...accountMigrations, steps: accountMigrations.steps.slice(0, 1) });
    const values = ['01', dev, 'office', hashToken('old'), 'xxxx', '', 1, null];
    await database.run('INSERT INTO tokens VALUES ($1, $2, $3, $4, $5, $6, $7, $8, NULL)', values);
    const store = await openTokenStore(database);
    const { accounts } = loadYaml(configured, {}, folder);
    const upgraded = createAccounts({ accounts, tokens: [], store, clock: clockOf(() => 2) });
    expect(await upgraded.authenticate('old')).toBe(upgraded.submitter('dev', 'office'));
    expect(await store.list()).toEqual([
      { id: '01', account: dev, credential: 'office', lastFour: 'xxxx', label: '', createdAt: 1 },
    ]);
  });
});

test('tokens of the configuration open theirs without a row', async () => {
  const { accounts } = await setUp({
    tokens: [{ account: dev, credential: 'cron', sha256: hashToken('from the environment') }],
  });
  expect(await accounts.authenticate('from the environment')).toBe(accounts.submitter('dev', 'cron'));
  expect(await accounts.authenticate('from the Environment')).toBeUndefined();
});

test('accounts are found by name and by id in any case', async () => {
  const { accounts } = await setUp();
  const account = accounts.find('dev');
  expect(account?.id).toBe(dev);
  expect(accounts.find(dev)).toBe(account);
  expect(accounts.find(dev.toUpperCase())).toBe(account);
  expect(accounts.find('nobody')).toBeUndefined();
  expect(accounts.find('')).toBeUndefined();
  expect(accounts.find('constructor')).toBeUndefined();
  expect(accounts.submitter(dev, 'cron')?.credential.name).toBe('cron');
  expect(accounts.submitter('dev', 'other')).toBeUndefined();
  expect(accounts.submitter('nobody', 'cron')).toBeUndefined();
});

test.each([
  ['example.com', 'example.com'],
  ['a.example.com', 'example.com'],
  ['a.b.example.com', 'example.com'],
  ['news.example.com', 'news.example.com'],
  ['a.news.example.com', 'news.example.com'],
  ['oldnews.example.com', 'example.com'],
  ['notexample.com', undefined],
  ['com', undefined],
  ['', undefined],
  ['flat.example.org', 'flat.example.org'],
  ['below.flat.example.org', 'example.org'],
  ['payg.example', undefined],
  ['example.com.evil.test', undefined],
  ['pay.example.com', undefined],
  ['a.pay.example.com', undefined],
  ['oldpay.example.com', 'example.com'],
  ['till.example.com', undefined],
  ['a.till.example.com', 'example.com'],
])('the sending domain of %s is %s', async (domain, wanted) => {
  const { accounts } = await setUp();
  const account = accounts.find('dev');
  if (!account) throw new Error('no account');
  expect(accounts.sendingDomain(account, domain)?.name).toBe(wanted);
});

test('the longest sending domain of all accounts decides who may send under a name (D50)', async () => {
  const { accounts } = await setUp();
  const account = accounts.find('payg');
  if (!account) throw new Error('no account');
  expect(accounts.sendingDomain(account, 'a.pay.example.com')?.name).toBe('pay.example.com');
  expect(accounts.sendingDomain(account, 'till.example.com')?.name).toBe('till.example.com');
  expect(accounts.sendingDomain(account, 'a.till.example.com')).toBeUndefined();
  expect(accounts.sendingDomain(account, 'example.com')).toBeUndefined();
});
