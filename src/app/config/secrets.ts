// Reads secrets from variables or files, where they are used; they are never kept in the configuration (D92).

import type { GlobalKeyHash, TokenHash } from '../../accounts/accounts.ts';
import { hashToken } from '../../accounts/token-store.ts';
import { ConfigurationError, errorCode, errorMessage } from '../../base/errors.ts';
import { readRegularFile } from '../../base/named-file.ts';
import type { Config, ConfiguredToken, EdgeAccount, SecretSource } from './settings.ts';

/** The environment as everything here takes it. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** A configured variable without white space around it; '' where unset. Its own alone counts: objects inherit `constructor`. */
export function variableOf(name: string, env: Environment): string {
  return (Object.hasOwn(env, name) ? env[name] : undefined)?.trim() ?? '';
}

type Found = { readonly value: string } | { readonly problem: string; readonly cause?: unknown };

function find(source: SecretSource, env: Environment): Found {
  if (source.kind === 'variable') {
    const value = variableOf(source.name, env);
    return value ? { value } : { problem: `the environment variable ${source.name} is not set` };
  }
  try {
    const value = readRegularFile(source.file).toString().trim();
    return value ? { value } : { problem: `"${source.file}" is empty` };
  } catch (cause) {
    const reason = errorCode(cause) === 'ENOENT' ? 'there is no such file' : errorMessage(cause);
    return { problem: `cannot read "${source.file}": ${reason}`, cause };
  }
}

/** Reads a secret without white space around it. @param path where it is named @throws ConfigurationError where it is missing */
export function readSecret(source: SecretSource, env: Environment, path: string): string {
  const found = find(source, env);
  if ('value' in found) return found.value;
  throw new ConfigurationError(`${path}: ${found.problem}`, { cause: found.cause });
}

/** SHA-256 of a secret, 64 hexadecimal digits; undefined where the secret is missing. */
export function secretHash(source: SecretSource, env: Environment): string | undefined {
  const found = find(source, env);
  return 'value' in found ? hashToken(found.value) : undefined;
}

/** Whether a token is the development credential's, which may be missing because the start makes one (D95). */
function isMade({ development }: Config, token: ConfiguredToken) {
  return token.account === development?.account && token.credential === development.credential;
}

/** The secrets that the gateway would miss while it runs, one line each. */
export function missingSecrets(config: Config, env: Environment): string[] {
  const tokens = config.tokens.filter((token) => !isMade(config, token));
  const { metricsToken } = config.http;
  return [...config.routeSecrets, ...config.webhookSecrets, ...tokens, ...(metricsToken ? [metricsToken] : [])].flatMap(
    ({ path, source }) => {
      const found = source.kind === 'sha256' ? { value: source.hex } : find(source, env);
      return 'value' in found ? [] : [`${path}: ${found.problem}`];
    },
  );
}

/** POSTERN_TOKEN: the development credential's token (D96). */
export function developmentToken(env: Environment): string | undefined {
  return env['POSTERN_TOKEN']?.trim() || undefined;
}

interface NamedHash extends TokenHash {
  readonly path: string;
}

function hashOf({ source, path, account, credential }: ConfiguredToken, env: Environment): NamedHash[] {
  if (source.kind === 'sha256') return [{ account, credential, path, sha256: source.hex }];
  const found = find(source, env);
  return 'value' in found ? [{ account, credential, path, sha256: hashToken(found.value) }] : [];
}

/** The tokens as hashes, POSTERN_TOKEN's among them, without missing ones. @throws ConfigurationError where two credentials share one */
export function configuredTokens(config: Config, env: Environment): TokenHash[] {
  const given = developmentToken(env);
  const own =
    config.development && given ? [{ ...config.development, sha256: hashToken(given), path: 'POSTERN_TOKEN' }] : [];
  const owners = new Map<string, NamedHash>();
  for (const token of [...own, ...config.tokens.flatMap((token) => hashOf(token, env))]) {
    const owner = owners.get(token.sha256);
    if (owner && (owner.account !== token.account || owner.credential !== token.credential)) {
      throw new ConfigurationError(`${token.path}: the same token stands for another credential (${owner.path})`);
    }
    owners.set(token.sha256, token);
  }
  return [...owners.values()].map(({ account, credential, sha256 }) => ({ account, credential, sha256 }));
}

/** An account's global key; undefined where it has none or the variable is unset. */
export function globalKeyOf({ globalKey }: EdgeAccount, env: Environment): string | undefined {
  const found = globalKey && find(globalKey, env);
  return found && 'value' in found ? found.value : undefined;
}

/** The global keys of the accounts as hashes (D85). A missing key is left out, and a warning tells of it. */
export function configuredGlobalKeys(config: Config, env: Environment): GlobalKeyHash[] {
  return config.edgeAccounts.flatMap((account) => {
    const { id, email } = account;
    const key = globalKeyOf(account, env);
    return email === undefined || key === undefined ? [] : [{ account: id, email, sha256: hashToken(key) }];
  });
}
