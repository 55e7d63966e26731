// Makes a binding of an environment, for programs that expect it as a member of an object (`env.EMAIL.send(...)`), and for
// programs that are configured by environment variables.

import type { EmailBindingOptions } from './check-options.ts';
import { bindingOf, type EmailBinding } from './email-binding.ts';
import { membersOf } from './email-error.ts';

const variableNames = { endpoint: 'POSTERN_ENDPOINT', token: 'POSTERN_TOKEN', account: 'POSTERN_ACCOUNT' } as const;

/** The options that do not come from the environment. */
export type EmailFromEnvOptions = Pick<EmailBindingOptions, 'fetch' | 'timeoutMs'>;

/** The options that do not come from the environment, and the name of the binding in it. */
export interface BindEmailOptions<Name extends string> extends EmailFromEnvOptions {
  readonly name: Name;
}

/** The process's environment, in a runtime that has processes. */
function processEnvironment(): object {
  const scope: object = globalThis;
  const process: unknown = 'process' in scope ? scope.process : undefined;
  const env: unknown = typeof process === 'object' && process !== null && 'env' in process ? process.env : undefined;
  if (typeof env === 'object' && env !== null) return env;
  throw new TypeError('env must be given: this runtime has no process.env');
}

function environmentOf(env: object | undefined): object {
  const environment: unknown = env ?? processEnvironment();
  if (typeof environment !== 'object' || environment === null) throw new TypeError('env must be an object');
  return environment;
}

/**
 * Makes a binding of POSTERN_ENDPOINT, POSTERN_TOKEN and POSTERN_ACCOUNT.
 * @param env what holds the variables; `process.env` if absent
 * @throws TypeError that names the variable that is missing or invalid, and its rule; it never quotes the token
 */
export function emailFromEnv(env?: object, options: EmailFromEnvOptions = {}): EmailBinding {
  const variables = membersOf(environmentOf(env));
  const { endpoint, token, account } = variableNames;
  const given = { endpoint: variables[endpoint], token: variables[token], account: variables[account] };
  return bindingOf({ ...options, ...given }, variableNames);
}

/** The type of the environment where the caller gives none. */
type Variables = Readonly<Record<string, string | undefined>>;

/**
 * Gives a copy of an environment with a binding in it; the environment itself stays as it is.
 * @param env what holds the variables; `process.env` if absent
 * @param options `name`: what the binding is called in the copy, in place of `EMAIL`
 * @throws TypeError as `emailFromEnv`
 */
export function bindEmail<Env extends object = Variables>(
  env?: Env,
  options?: EmailFromEnvOptions & { readonly name?: undefined },
): Omit<Env, 'EMAIL'> & { readonly EMAIL: EmailBinding };
export function bindEmail<Name extends string, Env extends object = Variables>(
  env: Env | undefined,
  options: BindEmailOptions<Name>,
): Omit<Env, Name> & Readonly<Record<Name, EmailBinding>>;
export function bindEmail(
  env?: object,
  options: EmailFromEnvOptions & { readonly name?: string | undefined } = {},
): object {
  const { name = 'EMAIL', ...others } = options;
  if (typeof name !== 'string' || name === '') throw new TypeError('name must be a text that is not empty');
  const environment = environmentOf(env);
  return { ...environment, [name]: emailFromEnv(environment, others) };
}
