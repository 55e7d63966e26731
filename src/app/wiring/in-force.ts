// The configuration in force, with the files that were read for it. A reload replaces all of it in one step. Each part asks
// for the configuration whenever it uses it.

import type { Accounts } from '../../accounts/accounts.ts';
import type { GlobalKeyHash, TokenHash } from '../../accounts/create-accounts.ts';
import type { Keys } from '../bootstrap/bootstrap.ts';
import type { Config } from '../config/config.ts';

/** A configuration and everything that it names (keys, certificates, tokens), read and checked. */
export interface Settings {
  readonly config: Config;
  readonly keys: Keys;
  /** Tokens of the configuration and the environment, as hashes. */
  readonly tokens: readonly TokenHash[];
  readonly globalKeys: readonly GlobalKeyHash[];
}

/** The settings that the parts of a running gateway use. */
export interface InForce extends Settings {
  readonly accounts: Accounts;
}

/** Holds the settings in force. */
export interface Live {
  current: InForce;
}

/** Makes accounts that answer each call by the settings in force at that moment. */
export function liveAccounts(live: Live): Accounts {
  return {
    authenticate: (token) => live.current.accounts.authenticate(token),
    authenticateHash: (sha256) => live.current.accounts.authenticateHash(sha256),
    authenticateGlobalKey: (email, key) => live.current.accounts.authenticateGlobalKey(email, key),
    find: (idOrName) => live.current.accounts.find(idOrName),
    submitter: (account, credential) => live.current.accounts.submitter(account, credential),
    sendingDomain: (account, domain) => live.current.accounts.sendingDomain(account, domain),
  };
}

/** Makes a value from the settings in force: at the first call, and again at the first call after they have changed. */
export function madeOf<T>(live: Live, make: (inForce: InForce) => T): () => T {
  let last: { readonly of: InForce; readonly value: T } | undefined;
  return () => {
    if (last?.of !== live.current) last = { of: live.current, value: make(live.current) };
    return last.value;
  };
}
