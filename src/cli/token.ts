import { type Account, isScope, type Scope } from '../accounts/account.ts';
import { isLive, openTokenStore, type TokenRecord, type TokenStore } from '../accounts/token-store.ts';
import type { Config } from '../app/config/config.ts';
import { systemClock } from '../base/clock.ts';
import { didYouMean } from '../base/closest.ts';
import { UsageError } from '../base/errors.ts';
import { tokenJson } from '../web/admin/token-endpoints.ts';
import { chooseAccount, isoTime, withDatabase } from './command/choose-account.ts';
import { type CommandIo, columns, defineCommand, defineGroup, fail, print } from './command/command.ts';
import { parseSpan } from './command/span.ts';

function chooseCredential(account: Account, name: string): string {
  if (account.credentials.has(name)) return name;
  const names = [...account.credentials.keys()];
  const which = didYouMean(name, names, `it has ${names.join(', ')}`);
  throw new UsageError(`--credential: account "${account.name}" has no credential "${name}"; ${which}`);
}

/** Reads scopes such as `email:send,email:suppressions`. @throws UsageError for one that the credential lacks */
function chooseScopes(account: Account, credential: string, text: string): Scope[] {
  const own = [...(account.credentials.get(credential)?.scopes ?? [])];
  const names = [...new Set(text.split(/[\s,]+/).filter((name) => name !== ''))];
  const wrong = names.find((name) => !own.some((scope) => scope === name));
  if (names.length > 0 && wrong === undefined) return names.filter(isScope);
  const fault = wrong === undefined ? 'got none' : `credential "${credential}" has no scope "${wrong}"`;
  throw new UsageError(`--scopes: ${fault}; it has ${own.join(', ')}`);
}

/** A record as the API shows it, with the name of its account. */
function jsonOf(config: Config, record: TokenRecord) {
  const account = config.accounts.find(({ id }) => id === record.account);
  const name = account?.name ?? record.account;
  const { id, ...shown } = tokenJson(account, record, systemClock.now());
  return { id, account: name, ...shown };
}

function withTokens<T>(config: Config, work: (store: TokenStore) => Promise<T>): Promise<T> {
  return withDatabase(config, async (database) => await work(await openTokenStore(database)));
}

function printPretty(io: CommandIo, value: unknown): number {
  return print(io, JSON.stringify(value, null, 2));
}

const jsonOption = { json: { summary: 'print JSON' } } as const;

const create = defineCommand({
  summary: 'Make a token for a credential and print it, this once',
  details:
    'The token is the password of SMTP (user name api_token) and the bearer token of HTTP. What it may do is written\n' +
    "with the credential's scopes in the configuration. Only its SHA-256 is kept. A running server takes it at once.",
  options: {
    account: { value: 'A', short: 'a', summary: 'name or id of the account (required)' },
    credential: { value: 'C', summary: 'name of its credential (required)' },
    expires: { value: 'SPAN', summary: 'how long it counts, such as 30d, 12h, 90m (default: until it is revoked)' },
    label: { value: 'TEXT', summary: 'what it is for, shown by token list' },
    scopes: { value: 'LIST', summary: "some of the credential's scopes, by commas (default: all of them)" },
    ...jsonOption,
  },
  examples: [
    'postern token create --account dev --credential default',
    'postern token create --account dev --credential cron --expires 30d --label "backup host"',
    'postern token create --account dev --credential default --scopes email:send,email:suppressions',
  ],
  async run({ options, readConfig }, io) {
    const { account: reference, credential: name, expires, label } = options;
    if (reference === undefined || name === undefined) {
      throw new UsageError('postern token create: want --account A and --credential C');
    }
    const createdAt = systemClock.now();
    const expiry = expires === undefined ? {} : { expiresAt: createdAt + parseSpan(expires, '--expires') };
    const config = readConfig();
    const account = chooseAccount(config, reference);
    const credential = chooseCredential(account, name);
    const scopes = options.scopes === undefined ? {} : { scopes: chooseScopes(account, credential, options.scopes) };
    const wanted = { account: account.id, credential, ...scopes, createdAt, ...expiry, label: label ?? '' };
    const { record, token } = await withTokens(config, (store) => store.create(wanted));
    if (options.json) return printPretty(io, { token, ...jsonOf(config, record) });
    const until = isoTime(record.expiresAt) ?? 'it is revoked';
    print(io, token);
    io.stderr.write(`Token ${record.id} of ${account.name}/${credential}, until ${until}. It is not shown again.\n`);
    return 0;
  },
});

function stateOf(record: TokenRecord, now: number): string {
  if (record.revokedAt !== undefined) return 'revoked';
  return isLive(record, now) ? 'live' : 'expired';
}

const list = defineCommand({
  summary: 'List the tokens of the store',
  details:
    'Tokens that the configuration names (tokenEnv, tokenFile, tokenSha256) are not in the store and not listed.',
  options: {
    account: { value: 'A', short: 'a', summary: 'only those of this account' },
    all: { summary: 'revoked and expired ones too' },
    ...jsonOption,
  },
  examples: ['postern token list', 'postern token list --account dev --all --json'],
  async run({ options, readConfig }, io) {
    const config = readConfig();
    const account = options.account === undefined ? undefined : chooseAccount(config, options.account).id;
    const now = systemClock.now();
    const every = await withTokens(config, (store) => store.list(account));
    const records = every.filter((record) => options.all === true || isLive(record, now));
    const shown = records.map((record) => jsonOf(config, record));
    if (options.json) return printPretty(io, shown);
    if (records.length === 0) io.stderr.write('No tokens.\n');
    const rows = records.map((record, index) => {
      const { account: name, scopes } = shown[index] ?? jsonOf(config, record);
      const until = record.expiresAt === undefined ? '' : `, expires ${isoTime(record.expiresAt)}`;
      const only = record.scopes ? `, only ${scopes.join(', ')}` : '';
      const state = `${stateOf(record, now)}, made ${isoTime(record.createdAt)}${until}${only}`;
      const label = record.label === '' ? [] : [record.label];
      return [record.id, [`${name}/${record.credential}`, `...${record.lastFour}`, state, ...label].join('  ')];
    });
    return print(io, columns(rows));
  },
});

const revoke = defineCommand({
  summary: 'Revoke a token: from now on it opens nothing',
  synopsis: 'ID',
  details: 'ID is the one that token create and token list print. A running server refuses the token at once.',
  options: {},
  examples: ['postern token revoke 0123456789abcdef'],
  exitCodes: { 1: 'there is no such token' },
  async run({ args: [id = ''], readConfig }, io) {
    const config = readConfig();
    const now = systemClock.now();
    const record = await withTokens(config, (store) => store.revoke({ id, now }));
    if (!record) return fail(io, `No token "${id}"; postern token list tells the ids.`);
    const before = record.revokedAt === now ? '' : ` before, at ${isoTime(record.revokedAt)}`;
    const whose = `${jsonOf(config, record).account}/${record.credential}`;
    return print(io, `Token ${record.id} of ${whose} is revoked${before}.`);
  },
});

/** `postern token` makes, lists and revokes the tokens of the store. A running server sees changes at once (D93, D94). */
export const command = defineGroup({ create, list, revoke });
