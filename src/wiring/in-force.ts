// The configuration in force, with what was read for it. A reload puts another in its place, all of it in one step; each
// part asks for it when it uses it.

import type { Accounts } from '../accounts/accounts.ts';
import type { GlobalKeyHash, TokenHash } from '../accounts/create-accounts.ts';
import type { Keys } from '../bootstrap.ts';
import type { Config } from '../config.ts';

/** A configuration with everything that it names, read and checked. */
export interface Settings {
  readonly config: Config;
  readonly keys: Keys;
  /** Tokens of the configuration and the environment, as hashes. */
  readonly tokens: readonly TokenHash[];
  readonly globalKeys: readonly GlobalKeyHash[];
}

/** What the parts of a running gateway go by. */
export interface InForce extends Settings {
  readonly accounts: Accounts;
}

/** Where what is in force is found. */
export interface Live {
  current: InForce;
}

/** Accounts as they are at the moment of each question. */
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

/** What is made of the settings in force: once, and anew for whoever asks after they have changed. */
export function madeOf<T>(live: Live, make: (inForce: InForce) => T): () => T {
  let last: { readonly of: InForce; readonly value: T } | undefined;
  return () => {
    if (last?.of !== live.current) last = { of: live.current, value: make(live.current) };
    return last.value;
  };
}
