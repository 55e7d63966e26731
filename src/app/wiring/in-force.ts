// The configuration in force with its files; a reload replaces all in one step. Each part asks for it whenever it uses it.

import type { Accounts, GlobalKeyHash, TokenHash } from '../../accounts/accounts.ts';
import type { Guessing } from '../../accounts/guessing.ts';
import type { TokenStore } from '../../accounts/token-store.ts';
import type { ToldCounts } from '../../accounts/told-counts.ts';
import type { BodyBudget } from '../../base/body-budget.ts';
import type { Clock } from '../../base/clock.ts';
import type { Database } from '../../base/database/database.ts';
import type { Logger } from '../../base/log.ts';
import { fileMark } from '../../base/named-file.ts';
import type { OwnDoor } from '../../base/net/own-doors.ts';
import { oncePer } from '../../base/once-per.ts';
import type { ProcessGroup } from '../../base/process-group.ts';
import type { Metrics } from '../../web/http/metrics.ts';
import type { Keys } from '../bootstrap/bootstrap.ts';
import type { Config } from '../config/config.ts';

/** A configuration and everything that it names (keys, certificates, tokens), read and checked. */
export interface Settings {
  readonly config: Config;
  readonly keys: Keys;
  readonly tokens: readonly TokenHash[];
  readonly globalKeys: readonly GlobalKeyHash[];
  readonly pageMarks: readonly string[];
}

/** The marks of the files of Error Pages, by which a reload knows that one has changed. */
export function pageMarksOf({ zones, edgeAccounts }: Pick<Config, 'zones' | 'edgeAccounts'>): string[] {
  const files = [...zones, ...edgeAccounts].flatMap(({ customErrors }) => customErrors?.errorPage?.file ?? []);
  return files.map((file) => fileMark(file) ?? '');
}

/** The settings that the parts of a running gateway use. */
export interface InForce extends Settings {
  readonly accounts: Accounts;
}

/** Holds the settings in force. */
export interface Live {
  current: InForce;
}

/** What the parts of a gateway share. */
export interface Shared {
  readonly live: Live;
  /** The accounts as they are at the moment of each call. */
  readonly accounts: Accounts;
  readonly tokens: TokenStore;
  /** The database of all tables but the spool's. */
  readonly database: Database;
  readonly bodies: BodyBudget;
  readonly guessing: Guessing;
  readonly metrics: Metrics;
  /** The processes that share the work; absent: there is one. */
  readonly group?: ProcessGroup | undefined;
  /** Counts together with the other gateways of the database; absent: they are not asked. */
  readonly told?: ToldCounts | undefined;
  /** Begins what one process of the server does. */
  readonly onDuty: (begin: () => void) => void;
  /** Postern's own listeners, which nothing that it sends may come to. */
  readonly ownDoors: () => readonly OwnDoor[];
  readonly clock: Clock;
  readonly log: Logger;
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
  const made = oncePer(make);
  return () => made(live.current);
}
