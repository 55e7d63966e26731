// Who may do what: the questions the doors and the pipeline ask about accounts (D50, D85, D93, D94).

import type { Account, SendingDomain, Submitter } from './account.ts';

/** The accounts of the configuration joined with the tokens of the store. */
export interface Accounts {
  /**
   * The submitter of a token, or undefined. The token's row is read each time, so that one made or revoked beside the
   * running server counts at once (D94); hashes are compared, never the token (D92).
   */
  authenticate(token: string): Promise<Submitter | undefined>;
  /**
   * The submitter of a token's hash (`hashToken`), or undefined. A long session asks again with the hash, so that it need
   * not keep the token itself.
   */
  authenticateHash(sha256: string): Promise<Submitter | undefined>;
  /**
   * The submitter of an account's global key (D85), or undefined: it has every permission of its account, under the
   * credential name `global-key`. E-mail addresses compare without case; of keys only hashes are compared.
   */
  authenticateGlobalKey(email: string, key: string): Submitter | undefined;
  /** The account of an id or a name (D93). */
  find(idOrName: string): Account | undefined;
  /** The submitter of `account/credential`, for listeners without AUTH (D40c). */
  submitter(account: string, credential: string): Submitter | undefined;
  /**
   * The account's sending domain that covers a domain, or undefined (D50). Of the sending domains of all accounts the
   * longest name that covers it decides: where that is another account's, this account may not send under it.
   * @param domain A-label in lower case
   */
  sendingDomain(account: Account, domain: string): SendingDomain | undefined;
}
