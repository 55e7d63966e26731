// Combines the accounts of the configuration with the tokens of the store (D50, D85, D93, D94).

import type { Clock } from '../base/clock.ts';
import { parentNames } from '../base/net/domain-labels.ts';
import { type Account, type Credential, type Scope, type SendingDomain, type Submitter, scopes } from './account.ts';
import type { Accounts } from './accounts.ts';
import { stripRules } from './strip-rules.ts';
import type { TokenStore } from './token-store.ts';
import { hashToken, scopesInForce } from './tokens.ts';

/** A token that the configuration gives to a credential, as its hash. */
export interface TokenHash {
  /** Id of the account. */
  readonly account: string;
  readonly credential: string;
  /** 64 hex digits, lower case. */
  readonly sha256: string;
}

/** An account's global key, as its hash (D85). */
export interface GlobalKeyHash extends Pick<TokenHash, 'account' | 'sha256'> {
  readonly email: string;
}

/** What `createAccounts` needs. */
export interface AccountsParts {
  readonly accounts: readonly Account[];
  /** Tokens of the configuration, which have no row in the store. */
  readonly tokens: readonly TokenHash[];
  readonly globalKeys?: readonly GlobalKeyHash[];
  /** The tokens of the store. Where absent, only the tokens of the configuration count. */
  readonly store?: Pick<TokenStore, 'findLive'>;
  readonly clock: Clock;
}

/** The sending domain with the longest name that covers a domain. One without `subdomains` covers only itself (D50). */
export function coveringDomain<Owned extends { readonly domain: Pick<SendingDomain, 'subdomains'> }>(
  domains: ReadonlyMap<string, Owned>,
  domain: string,
): Owned | undefined {
  for (const name of parentNames(domain)) {
    const found = domains.get(name);
    if (found && (name === domain || found.domain.subdomains)) return found;
  }
  return undefined;
}

/** The credential that a login by a global key gets (D85). */
const globalCredential: Credential = {
  name: 'global-key',
  scopes: new Set(scopes),
  strip: stripRules(),
  trustedHop: false,
};

function submitterOf(account: Account, credential: Credential): Submitter {
  return Object.freeze({ account, credential });
}

/** Makes the accounts from those of the configuration and the tokens of the store. */
export function createAccounts({ accounts, tokens, globalKeys = [], store, clock }: AccountsParts): Accounts {
  const byReference = new Map<string, Account>();
  const submitters = new Map<string, Submitter>();
  // By names alone, because a session asks for its submitter with every command.
  const ofAccounts = new Map<Account, ReadonlyMap<string, Submitter>>();
  // The domains of all accounts: a name below one account's domain may belong to another account by a longer name (D50).
  const domains = new Map<string, { readonly account: string; readonly domain: SendingDomain }>();
  for (const account of accounts) {
    byReference.set(account.id, account).set(account.name, account);
    for (const domain of account.sendingDomains) domains.set(domain.name, { account: account.id, domain });
    const own = new Map<string, Submitter>();
    for (const credential of account.credentials.values()) own.set(credential.name, submitterOf(account, credential));
    for (const [name, submitter] of own) submitters.set(`${account.id}/${name}`, submitter);
    ofAccounts.set(account, own);
  }
  const globals = new Map(
    globalKeys.flatMap(({ account: id, email, sha256 }): [string, Submitter][] => {
      const account = byReference.get(id);
      return account ? [[`${email.toLowerCase()} ${sha256}`, submitterOf(account, globalCredential)]] : [];
    }),
  );
  const fixed = new Map(tokens.map((token) => [token.sha256, `${token.account}/${token.credential}`]));
  const narrowed = new Map<string, Submitter>();

  /** The submitter with the scopes that both its credential and the token have; the same object each time. */
  function narrow(submitter: Submitter, tokenScopes: readonly Scope[]): Submitter {
    const { account, credential } = submitter;
    const own = scopesInForce(credential, tokenScopes);
    const key = `${account.id}/${credential.name} ${own.join(' ')}`;
    const found = narrowed.get(key) ?? submitterOf(account, { ...credential, scopes: new Set(own) });
    narrowed.set(key, found);
    return found;
  }

  async function authenticateHash(sha256: string): Promise<Submitter | undefined> {
    const own = fixed.get(sha256);
    if (own !== undefined) return submitters.get(own);
    const found = await store?.findLive(sha256, clock.now());
    // A token whose account or credential is no longer in the configuration gives no access.
    const submitter = found && submitters.get(`${found.account}/${found.credential}`);
    return submitter && found.scopes ? narrow(submitter, found.scopes) : submitter;
  }

  const find = (idOrName: string) => byReference.get(idOrName) ?? byReference.get(idOrName.toLowerCase());
  return {
    // Only hashes are compared, here and in the index, so that the time taken reveals nothing about a token (D92).
    authenticate: (token) => authenticateHash(hashToken(token)),
    authenticateHash,
    authenticateGlobalKey: (email, key) => globals.get(`${email.toLowerCase()} ${hashToken(key)}`),
    find,
    submitter: (account, credential) => {
      const found = find(account);
      return found && ofAccounts.get(found)?.get(credential);
    },
    sendingDomain: (account, domain) => {
      const covering = coveringDomain(domains, domain);
      return covering?.account === account.id ? covering.domain : undefined;
    },
  };
}
