// Who may do what, by the accounts of the configuration and the tokens of the store (D50, D85, D93, D94).

import type { Clock } from '../base/clock.ts';
import { parentNames } from '../base/net/domain-labels.ts';
import { type Account, type Credential, type Scope, type SendingDomain, type Submitter, scopes } from './account.ts';
import { stripRules } from './strip-rules.ts';
import { hashToken, scopesInForce, type TokenStore } from './token-store.ts';

/** The accounts of the configuration joined with the tokens of the store. */
export type Accounts = ReturnType<typeof createAccounts>;

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

/** Narrows submitters to the scopes that both their credential and a token have; it gives the same object each time. */
function narrowing(): (submitter: Submitter, tokenScopes: readonly Scope[]) => Submitter {
  const narrowed = new Map<string, Submitter>();
  return ({ account, credential }, tokenScopes) => {
    const own = scopesInForce(credential, tokenScopes);
    const key = `${account.id}/${credential.name} ${own.join(' ')}`;
    const found = narrowed.get(key) ?? submitterOf(account, { ...credential, scopes: new Set(own) });
    narrowed.set(key, found);
    return found;
  };
}

/** Makes the accounts from those of the configuration and the tokens of the store. */
export function createAccounts({ accounts, tokens, globalKeys = [], store, clock }: AccountsParts) {
  const byId = new Map(accounts.map((account) => [account.id, account]));
  const byReference = new Map(accounts.flatMap((account) => [account.id, account.name].map((name) => [name, account])));
  const submitters = new Map(
    accounts.map((account) => {
      const own = account.credentials.values().map((one) => [one.name, submitterOf(account, one)] as const);
      return [account, new Map(own)];
    }),
  );
  const submitterIn = (account: Account | undefined, credential: string) =>
    account && submitters.get(account)?.get(credential);
  // The domains of all accounts: a name below one account's domain may belong to another account by a longer name (D50).
  const domains = new Map(
    accounts.flatMap(({ id: account, sendingDomains }) =>
      sendingDomains.map((domain) => [domain.name, { account, domain }]),
    ),
  );
  const globals = new Map(
    globalKeys.flatMap(({ account: id, email, sha256 }) => {
      const account = byId.get(id);
      return account ? [[`${email.toLowerCase()} ${sha256}`, submitterOf(account, globalCredential)]] : [];
    }),
  );
  const fixed = new Map(tokens.map((token) => [token.sha256, token]));
  const narrow = narrowing();
  const authenticateHash = async (sha256: string): Promise<Submitter | undefined> => {
    const found = fixed.get(sha256) ?? (await store?.findLive(sha256, clock.now()));
    // A token whose account or credential is no longer in the configuration gives no access.
    const submitter = found && submitterIn(byId.get(found.account), found.credential);
    return submitter && 'scopes' in found && found.scopes ? narrow(submitter, found.scopes) : submitter;
  };
  const find = (idOrName: string): Account | undefined =>
    byReference.get(idOrName) ?? byReference.get(idOrName.toLowerCase());
  return {
    // Only hashes are compared, here and in the index, so that the time taken reveals nothing about a token (D92).
    /** The submitter of a token, or undefined. Its row is read each time, so that one made or revoked elsewhere counts at once (D94). */
    authenticate: (token: string) => authenticateHash(hashToken(token)),
    /** The submitter of a token's hash (`hashToken`), or undefined. A long session asks again by it, and need not keep the token. */
    authenticateHash,
    /** The submitter `global-key` of an account's key (D85), with every permission, or undefined. E-mail addresses have no case. */
    authenticateGlobalKey: (email: string, key: string) => globals.get(`${email.toLowerCase()} ${hashToken(key)}`),
    /** The account of an id or a name (D93). */
    find,
    /** The submitter of `account/credential`, for listeners without AUTH (D40c). */
    submitter: (account: string, credential: string) => submitterIn(find(account), credential),
    /** An account's sending domain for a domain (A-label), by the longest name of all accounts (D50); undefined: another's, or none. */
    sendingDomain: (account: Account, domain: string): SendingDomain | undefined => {
      const covering = coveringDomain(domains, domain);
      return covering?.account === account.id ? covering.domain : undefined;
    },
  };
}
