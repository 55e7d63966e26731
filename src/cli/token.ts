// `postern token`: makes, lists and revokes the tokens of the store; a running server sees it at once (D93, D94).

import type { Account } from '../accounts/account.ts';
import {
  accountMigrations,
  createToken,
  isLive,
  listTokens,
  revokeToken,
  type TokenRecord,
} from '../accounts/tokens.ts';
import { systemClock } from '../base/clock.ts';
import { closest } from '../base/closest.ts';
import { type DatabaseSync, migrate, openDatabase } from '../base/database.ts';
import { UsageError } from '../base/errors.ts';
import type { Config } from '../config.ts';
import { type CommandIo, configOption, defineCommand, table } from './command.ts';
import { defineGroup } from './command-table.ts';
import { configExitCode, configFor } from './load-config.ts';

const unitMs = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 } as const;

/** Reads a span of time: `30d`, `12h`, `90m`; at most 100 years. @returns milliseconds @throws UsageError */
export function parseSpan(text: string): number {
  const [, count, unit] = /^([1-9]\d{0,8})([smhdw])$/.exec(text) ?? [];
  const factor = Object.entries(unitMs).find(([name]) => name === unit)?.[1];
  const span = Number(count) * (factor ?? Number.NaN);
  if (span <= 36_500 * unitMs.d) return span;
  throw new UsageError(`--expires: got "${text}", want a span such as 30d, 12h or 90m`);
}

function chooseAccount(config: Config, reference: string): Account {
  const found = config.accounts.find(({ id, name }) => name === reference || id === reference.toLowerCase());
  if (found) return found;
  const names = config.accounts.map(({ name }) => name);
  const near = closest(reference, names);
  throw new UsageError(
    `--account: no account "${reference}"; ${near ? `did you mean "${near}"?` : `there are ${names.join(', ')}`}`,
  );
}

function chooseCredential(account: Account, name: string): string {
  if (account.credentials.has(name)) return name;
  const names = [...account.credentials.keys()];
  const near = closest(name, names);
  throw new UsageError(
    `--credential: account "${account.name}" has no credential "${name}"; ${near ? `did you mean "${near}"?` : `it has ${names.join(', ')}`}`,
  );
}

/** Opens the database, hands it to the work, closes it. */
function withDatabase<T>(config: Config, work: (database: DatabaseSync) => T): T {
  const database = openDatabase(config.database.file);
  try {
    migrate(database, accountMigrations);
    return work(database);
  } finally {
    database.close();
  }
}

const time = (ms: number | undefined) => (ms === undefined ? null : new Date(ms).toISOString());

function jsonOf(config: Config, record: TokenRecord) {
  const { id, account, credential, lastFour, label, createdAt, expiresAt, revokedAt } = record;
  return {
    id,
    account: config.accounts.find((one) => one.id === account)?.name ?? account,
    credential,
    last_four: lastFour,
    label,
    created_at: time(createdAt),
    expires_at: time(expiresAt),
    revoked_at: time(revokedAt),
    live: isLive(record, systemClock.now()),
  };
}

function writeJson(io: CommandIo, value: unknown): void {
  io.stdout.write(`${JSON.stringify(value, null, 2)}\n`);
}

const jsonOption = { json: { summary: 'print JSON' } } as const;

const create = defineCommand({
  name: 'create',
  summary: 'Make a token for a credential and print it, this once',
  synopsis: '',
  arguments: { min: 0, max: 0 },
  details:
    'The token is the password of SMTP (user name api_token) and the bearer token of HTTP. What it may do is written\n' +
    "with the credential's scopes in the configuration. Only its SHA-256 is kept. A running server takes it at once.",
  options: {
    account: { value: 'A', short: 'a', summary: 'name or id of the account (required)' },
    credential: { value: 'C', summary: 'name of its credential (required)' },
    expires: { value: 'SPAN', summary: 'how long it counts, such as 30d, 12h, 90m (default: until it is revoked)' },
    label: { value: 'TEXT', summary: 'what it is for, shown by token list' },
    ...jsonOption,
    ...configOption,
  },
  examples: [
    'postern token create --account dev --credential default',
    'postern token create --account dev --credential cron --expires 30d --label "backup host"',
  ],
  exitCodes: configExitCode,
  run({ options }, io) {
    const { account: reference, credential: name, expires, label } = options;
    if (reference === undefined || name === undefined) {
      throw new UsageError('postern token create: want --account A and --credential C');
    }
    const createdAt = systemClock.now();
    const expiry = expires === undefined ? {} : { expiresAt: createdAt + parseSpan(expires) };
    const config = configFor(io, options.config);
    const account = chooseAccount(config, reference);
    const wanted = {
      account: account.id,
      credential: chooseCredential(account, name),
      createdAt,
      ...expiry,
      label: label ?? '',
    };
    const { record, token } = withDatabase(config, (database) => createToken(database, wanted));
    if (options.json) writeJson(io, { token, ...jsonOf(config, record) });
    else io.stdout.write(`${token}\n`);
    if (!options.json) {
      const until = record.expiresAt === undefined ? 'until it is revoked' : `until ${time(record.expiresAt)}`;
      io.stderr.write(`Token ${record.id} of ${account.name}/${record.credential}, ${until}. It is not shown again.\n`);
    }
    return Promise.resolve(0);
  },
});

function stateOf(record: TokenRecord, now: number): string {
  if (record.revokedAt !== undefined) return 'revoked';
  return isLive(record, now) ? 'live' : 'expired';
}

const list = defineCommand({
  name: 'list',
  summary: 'List the tokens of the store',
  synopsis: '',
  arguments: { min: 0, max: 0 },
  details:
    'Tokens that the configuration names (tokenEnv, tokenFile, tokenSha256) are not in the store and not listed.',
  options: {
    account: { value: 'A', short: 'a', summary: 'only those of this account' },
    all: { summary: 'revoked and expired ones too' },
    ...jsonOption,
    ...configOption,
  },
  examples: ['postern token list', 'postern token list --account dev --all --json'],
  exitCodes: configExitCode,
  run({ options }, io) {
    const config = configFor(io, options.config);
    const account = options.account === undefined ? undefined : chooseAccount(config, options.account).id;
    const now = systemClock.now();
    const records = withDatabase(config, (database) => listTokens(database, account)).filter(
      (record) => options.all === true || isLive(record, now),
    );
    if (options.json) {
      writeJson(
        io,
        records.map((record) => jsonOf(config, record)),
      );
      return Promise.resolve(0);
    }
    if (records.length === 0) io.stderr.write('No tokens.\n');
    const rows = records.map((record): [string, string] => {
      const { account: name } = jsonOf(config, record);
      const until = record.expiresAt === undefined ? '' : `, expires ${time(record.expiresAt)}`;
      const label = record.label === '' ? '' : `  ${record.label}`;
      return [
        record.id,
        `${name}/${record.credential}  ...${record.lastFour}  ${stateOf(record, now)}, made ${time(record.createdAt)}${until}${label}`,
      ];
    });
    for (const line of table(rows)) io.stdout.write(`${line.trimStart()}\n`);
    return Promise.resolve(0);
  },
});

const revoke = defineCommand({
  name: 'revoke',
  summary: 'Revoke a token: from now on it opens nothing',
  synopsis: 'ID',
  arguments: { min: 1, max: 1 },
  details: 'ID is the one that token create and token list print. A running server refuses the token at once.',
  options: configOption,
  examples: ['postern token revoke 0123456789abcdef'],
  exitCodes: { 1: 'there is no such token', ...configExitCode },
  run({ options, args: [id = ''] }, io) {
    const config = configFor(io, options.config);
    const now = systemClock.now();
    const record = withDatabase(config, (database) => revokeToken(database, { id, now }));
    if (!record) {
      io.stderr.write(`No token "${id}"; postern token list tells the ids.\n`);
      return Promise.resolve(1);
    }
    const before = record.revokedAt === now ? '' : ` before, at ${time(record.revokedAt)}`;
    io.stdout.write(
      `Token ${record.id} of ${jsonOf(config, record).account}/${record.credential} is revoked${before}.\n`,
    );
    return Promise.resolve(0);
  },
});

/** The commands about tokens. */
export const tokenCommands = defineGroup(
  'token',
  { summary: 'Make, list and revoke tokens' },
  {
    create: { summary: create.summary, load: () => Promise.resolve(create) },
    list: { summary: list.summary, load: () => Promise.resolve(list) },
    revoke: { summary: revoke.summary, load: () => Promise.resolve(revoke) },
  },
);
