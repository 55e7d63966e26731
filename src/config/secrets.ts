// Secrets by environment variable or file: read where they are used, never kept in the configuration (D92).

import { readFileSync } from 'node:fs';
import { ConfigurationError, errorCode, errorMessage } from '../base/errors.ts';
import type { Config, SecretSource } from './settings.ts';

/** The environment as everything here takes it. */
export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Reads a secret; surrounding white space of a file is no part of it.
 * @param path where it is named, for the error
 * @throws ConfigurationError where the variable is unset or empty, or the file cannot be read or is empty
 */
export function readSecret(source: SecretSource, env: Environment, path: string): string {
  if (source.kind === 'variable') {
    const value = env[source.name]?.trim();
    if (value) return value;
    throw new ConfigurationError(`${path}: the environment variable ${source.name} is not set`);
  }
  let text: string;
  try {
    text = readFileSync(source.file, 'utf8').trim();
  } catch (cause) {
    const reason = errorCode(cause) === 'ENOENT' ? 'there is no such file' : errorMessage(cause);
    throw new ConfigurationError(`${path}: cannot read "${source.file}": ${reason}`, { cause });
  }
  if (text === '') throw new ConfigurationError(`${path}: "${source.file}" is empty`);
  return text;
}

/**
 * The secrets that the gateway would miss while it runs: passwords of routes in force and tokens of credentials, one
 * line each. The development credential's token is not among them, since it is made (D95).
 */
export function missingSecrets(config: Config, env: Environment): string[] {
  const { development } = config;
  const tokens = config.tokens.filter(
    (token) => token.account !== development?.account || token.credential !== development.credential,
  );
  return [...config.routeSecrets, ...tokens].flatMap(({ path, source }) => {
    if (source.kind === 'sha256') return [];
    try {
      readSecret(source, env, path);
      return [];
    } catch (error) {
      if (error instanceof ConfigurationError) return [error.message];
      throw error;
    }
  });
}
