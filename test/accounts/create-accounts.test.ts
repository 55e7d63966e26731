// Accounts and tokens on a real database, from several handles (D50, D92-D94).

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Scope } from '../../src/accounts/account.ts';
import { type AccountsParts, createAccounts } from '../../src/accounts/create-accounts.ts';
import { stripRules } from '../../src/accounts/strip-rules.ts';
import { accountMigrations, createToken, hashToken, listTokens, revokeToken } from '../../src/accounts/tokens.ts';
import { type DatabaseSync, migrateSqlite, openSqliteFile } from '../../src/base/database/sqlite-file.ts';
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
  - { name: payg, id: "${'c1'.repeat(16)}", sendingDomains: [{ name: payg.example }, { name: pay.example.com }, { name: till.example.com, subdomains: false }] }
`;

function open(file: string): DatabaseSync {
  const database = openSqliteFile(file);
  onTestFinished(() => database.close());
  return database;
}

function setUp(parts: Partial<AccountsParts> & { readonly now?: () => number } = {}) {
  const folder = scratchFolder();
  const config = loadYaml(configured, {}, folder);
  const file = join(folder, 'postern.db');
  const database = open(file);
  const clock = clockOf(parts.now ?? (() => 1_000_000));
  const accounts = createAccounts({ accounts: config.accounts, tokens: [], database, clock, ...parts });
  return { accounts, database, file };
}

describe('tokens of the store', () => {
  test('open their credential, and nothing else does', () => {
    const { accounts, database } = setUp();
    const { token, record } = createToken(database, { account: dev, credential: 'cron', createdAt: 1 });
    expect(token).toMatch(/^pt_[A-Za-z0-9_-]{43}$/);
    expect(record.lastFour).toBe(token.slice(-4));
    expect(accounts.authenticate(token)).toBe(accounts.submitter('dev', 'cron'));
    expect(accounts.authenticate(token)?.credential.strip).toEqual(stripRules({ strip: ['user-agent'] }));
    for (const wrong of [
      '',
      'x',
      token.slice(0, -1),
      `${token}x`,
      token.toUpperCase(),
      hashToken(token),
      `${token}\0`,
    ]) {
      expect(accounts.authenticate(wrong), wrong).toBeUndefined();
    }
  });

  test('are not in the file, neither whole nor in part', () => {
    const { database, file } = setUp();
    const { token } = createToken(database, { account: dev, credential: 'cron', createdAt: 1 });
    database.exec('PRAGMA wal_checkpoint(TRUNCATE)');
    const octets = readFileSync(file);
    expect(octets.includes(Buffer.from(hashToken(token)))).toBe(true);
    expect(octets.includes(Buffer.from(token.slice(3, 20)))).toBe(false);
  });

  test('made and revoked by another handle count at once', () => {
    const { accounts, file } = setUp();
    const other = open(file);
    const { token, record } = createToken(other, { account: dev, credential: 'default', createdAt: 1 });
    expect(accounts.authenticate(token)?.account.name).toBe('dev');
    expect(revokeToken(other, { id: record.id, now: 7 })).toEqual({ ...record, revokedAt: 7 });
    expect(accounts.authenticate(token)).toBeUndefined();
  });

  test('expire at their time', () => {
    let now = 4_999;
    const { accounts, database } = setUp({ now: () => now });
    const { token } = createToken(database, { account: dev, credential: 'cron', createdAt: 0, expiresAt: 5_000 });
    expect(accounts.authenticate(token)).toBeDefined();
    now = 5_000;
    expect(accounts.authenticate(token)).toBeUndefined();
  });

  test('whose account or credential the configuration no longer has open nothing', () => {
    const { accounts, database } = setUp();
    const gone = createToken(database, { account: dev, credential: 'gone', createdAt: 1 });
    const stranger = createToken(database, { account: 'f'.repeat(32), credential: 'default', createdAt: 1 });
    expect(accounts.authenticate(gone.token)).toBeUndefined();
    expect(accounts.authenticate(stranger.token)).toBeUndefined();
  });

  test('are listed the oldest first, of one account or all', () => {
    const { database } = setUp();
    const second = createToken(database, { account: 'c1'.repeat(16), credential: 'default', createdAt: 2, label: 'x' });
    const first = createToken(database, { account: dev, credential: 'cron', createdAt: 1, expiresAt: 9 });
    expect(listTokens(database)).toEqual([first.record, second.record]);
    expect(listTokens(database, dev)).toEqual([first.record]);
    expect(JSON.stringify(listTokens(database))).not.toContain(first.token);
  });

  test('are revoked once, by id, and only of the account asked for', () => {
    const { accounts, database } = setUp();
    const { token, record } = createToken(database, { account: dev, credential: 'cron', createdAt: 1 });
    expect(revokeToken(database, { id: 'nothing', now: 5 })).toBeUndefined();
    expect(revokeToken(database, { id: record.id, account: 'c1'.repeat(16), now: 5 })).toBeUndefined();
    expect(accounts.authenticate(token)).toBeDefined();
    expect(revokeToken(database, { id: record.id, account: dev, now: 5 })?.revokedAt).toBe(5);
    expect(revokeToken(database, { id: record.id, now: 6 })?.revokedAt).toBe(5);
    expect(accounts.authenticate(token)).toBeUndefined();
  });
});

describe('tokens narrowed to some scopes', () => {
  test('may these and no more, and are their credential otherwise', () => {
    const { accounts, database } = setUp();
    const make = (scopes: readonly Scope[]) =>
      createToken(database, { account: dev, credential: 'office', createdAt: 1, scopes });
    const { token, record } = make(['email:suppressions', 'admin']);
    const found = accounts.authenticate(token);
    expect(found?.credential).toEqual({
      ...accounts.submitter('dev', 'office')?.credential,
      scopes: new Set(['email:suppressions', 'admin']),
    });
    expect(found?.account).toBe(accounts.find('dev'));
    expect(accounts.authenticate(token)).toBe(found);
    expect(accounts.authenticateHash(hashToken(token))).toBe(found);
    expect(record.scopes).toEqual(['email:suppressions', 'admin']);
    expect(listTokens(database, dev)).toEqual([record]);
    expect(accounts.authenticate(make(['email:send']).token)?.credential.scopes).toEqual(new Set(['email:send']));
  });

  test('never may more than the credential does, whatever the row says', () => {
    const { accounts, database } = setUp();
    const { token } = createToken(database, {
      account: dev,
      credential: 'cron',
      createdAt: 1,
      scopes: ['admin', 'email:send'],
    });
    expect(accounts.authenticate(token)?.credential.scopes).toEqual(new Set(['email:send']));
    database.exec("UPDATE tokens SET scopes = 'admin everything'");
    expect(accounts.authenticate(token)?.credential.scopes).toEqual(new Set());
  });

  test('tokens of an older database may all that their credential may', () => {
    const folder = scratchFolder();
    const file = join(folder, 'postern.db');
    const database = open(file);
    migrateSqlite(database, { ...accountMigrations, steps: accountMigrations.steps.slice(0, 1) });
    database
      .prepare('INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL)')
      .run('01', dev, 'office', hashToken('old'), 'xxxx', '', 1, null);
    const { accounts } = loadYaml(configured, {}, folder);
    const upgraded = createAccounts({ accounts, tokens: [], database, clock: clockOf(() => 2) });
    expect(upgraded.authenticate('old')).toBe(upgraded.submitter('dev', 'office'));
    expect(listTokens(database)).toEqual([
      { id: '01', account: dev, credential: 'office', lastFour: 'xxxx', label: '', createdAt: 1 },
    ]);
  });
});

test('tokens of the configuration open theirs without a row', () => {
  const { accounts } = setUp({
    tokens: [{ account: dev, credential: 'cron', sha256: hashToken('from the environment') }],
  });
  expect(accounts.authenticate('from the environment')).toBe(accounts.submitter('dev', 'cron'));
  expect(accounts.authenticate('from the Environment')).toBeUndefined();
});

test('accounts are found by name and by id in any case', () => {
  const { accounts } = setUp();
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
])('the sending domain of %s is %s', (domain, wanted) => {
  const { accounts } = setUp();
  const account = accounts.find('dev');
  if (!account) throw new Error('no account');
  expect(accounts.sendingDomain(account, domain)?.name).toBe(wanted);
});

test('the longest sending domain of all accounts decides who may send under a name (D50)', () => {
  const { accounts } = setUp();
  const account = accounts.find('payg');
  if (!account) throw new Error('no account');
  expect(accounts.sendingDomain(account, 'a.pay.example.com')?.name).toBe('pay.example.com');
  expect(accounts.sendingDomain(account, 'till.example.com')?.name).toBe('till.example.com');
  expect(accounts.sendingDomain(account, 'a.till.example.com')).toBeUndefined();
  expect(accounts.sendingDomain(account, 'example.com')).toBeUndefined();
});
