// What is kept of a token, and what it may; where it is kept is in token-store.ts (D92, D93).

import { hash } from 'node:crypto';
import { type Credential, isScope, type Scope } from './account.ts';

/** What is kept of a token: everything but itself. Times are milliseconds since 1970. */
export interface TokenRecord {
  readonly id: string;
  /** Id of the account. */
  readonly account: string;
  readonly credential: string;
  /** Its last four characters, to tell it from others. */
  readonly lastFour: string;
  /** What it was made for; '' for nothing in particular. */
  readonly label: string;
  /** What it is narrowed to (it never may more than its credential); absent: all that its credential may. */
  readonly scopes?: readonly Scope[];
  readonly createdAt: number;
  readonly expiresAt?: number;
  readonly revokedAt?: number;
}

/** The hash under which a token is kept and looked up: 64 hex digits. */
export function hashToken(token: string): string {
  return hash('sha256', token, 'hex');
}

/** For whom a token is made. */
export interface NewToken {
  /** Id of the account. */
  readonly account: string;
  readonly credential: string;
  readonly label?: string;
  /** Narrows it to some of its credential's scopes; absent: all of them. */
  readonly scopes?: readonly Scope[];
  /** Milliseconds since 1970; absent: until it is revoked. */
  readonly expiresAt?: number;
  /** Now, milliseconds since 1970. */
  readonly createdAt: number;
}

/** The scopes of a row; a word that this program does not know gives no right. */
export function scopesOf(column: unknown): readonly Scope[] | undefined {
  return typeof column === 'string' ? column.split(' ').filter(isScope) : undefined;
}

/**
 * The scopes that a token has now, in the order of its credential's: all of those where it is not narrowed, never one
 * that the credential lacks.
 */
export function scopesInForce(credential: Credential | undefined, scopes: readonly Scope[] | undefined): Scope[] {
  const own = [...(credential?.scopes ?? [])];
  return scopes ? own.filter((scope) => scopes.includes(scope)) : own;
}

/** Whether a token counts at a time. */
export function isLive(record: TokenRecord, now: number): boolean {
  return record.revokedAt === undefined && (record.expiresAt === undefined || record.expiresAt > now);
}
