// Accounts, credentials and sending domains as values (D50, D93). They come from the configuration and the store.

import type { ReportWish } from '../mail/envelope.ts';
import type { ObservePeriod } from './observe-period.ts';
import type { SenderMap } from './sender-map.ts';
import type { StripRules } from './strip-rules.ts';

/** Every scope (D85). */
export const scopes = [
  'email:send',
  'email:suppressions',
  'email:events',
  'email:webhooks',
  'proxy:read',
  'proxy:edit',
  'edge:edit',
  'ip_prefixes:read',
  'console:read',
  'console:edit',
  'admin',
] as const;

/** What a token may do (D85). */
export type Scope = (typeof scopes)[number];

/** Tells whether a text is the name of a scope. */
export function isScope(text: string): text is Scope {
  return scopes.some((scope) => scope === text);
}

/** The scopes that include another one, which who has them need not have besides. */
const includedIn: Partial<Record<Scope, readonly Scope[]>> = {
  'console:read': ['console:edit', 'admin'],
  'console:edit': ['admin'],
};

/** Whether a credential has a scope, or one that includes it. */
export function hasScope({ scopes: own }: Pick<Credential, 'scopes'>, scope: Scope): boolean {
  return own.has(scope) || (includedIn[scope]?.some((wider) => own.has(wider)) ?? false);
}

/** Names a DKIM key: certs/dkim/<domain>/<selector>.pem (D27). */
export interface DkimKeyName {
  readonly selector: string;
  readonly algorithm: 'rsa' | 'ed25519';
}

/** A domain that an account may send from (D50). */
export interface SendingDomain {
  /** A-label, lower case. It is the d= of its signatures. */
  readonly name: string;
  /** Whether the names below it belong to it, too. */
  readonly subdomains: boolean;
  /** The domain of the reverse-path that leaves, in place of the platform's bounce domain (D26). */
  readonly returnPathDomain?: string;
  /** Never empty. */
  readonly dkim: readonly DkimKeyName[];
}

/** A named entry under an account with its own settings (D93). */
export interface Credential {
  readonly name: string;
  readonly scopes: ReadonlySet<Scope>;
  /** What is removed before the policy runs (D4a). */
  readonly strip: StripRules;
  /** Whether its messages may have Received fields (D4). */
  readonly trustedHop: boolean;
  /** Completes an address without a domain (D4b). A-label, lower case. */
  readonly defaultDomain?: string;
  /** For raw 8-bit text that is no UTF-8; wins over the listener's (D13, D42a). */
  readonly legacyCharset?: string;
  /** Until when the policy is only observed for its messages by SMTP and send_raw (D4c). */
  readonly observe?: ObservePeriod;
  /** What senders become that nobody owns (D4d); absent: they are refused. */
  readonly senders?: SenderMap;
}

/** Rates an account may not exceed (D42a); absent is unlimited. */
export interface AccountLimits {
  readonly messagesPerMinute?: number;
  readonly recipientsPerDay?: number;
}

/** What puts an address on the account's suppression list by itself (D51). */
export interface SuppressSettings {
  /** Reports that say that nobody is there. */
  readonly hardBounces: boolean;
  readonly complaints: boolean;
  /** The next hop's refusals that say that nobody is there. */
  readonly failures: boolean;
}

/** One account (D93). */
export interface Account {
  /** 32 hex. */
  readonly id: string;
  readonly name: string;
  readonly plan: 'free' | 'payg' | 'enterprise';
  readonly sendingDomains: readonly SendingDomain[];
  readonly limits: AccountLimits;
  /** Show the client's address in Received (D25). */
  readonly showClientAddress: boolean;
  /** Write `TLS-Required: No` (D30). */
  readonly tlsRequiredNo: boolean;
  /** Rewrite In-Reply-To and References that cite a Message-ID which was replaced (D23); absent: no. */
  readonly threadRepair?: boolean;
  /** Which reports senders get about recipients without NOTIFY; absent ones follow the door that the mail came by. */
  readonly reports?: Partial<ReportWish>;
  /** Absent: everything does. */
  readonly suppress?: SuppressSettings;
  readonly credentials: ReadonlyMap<string, Credential>;
}

/** Who submits a message: an account with one of its credentials. */
export interface Submitter {
  readonly account: Account;
  readonly credential: Credential;
}
