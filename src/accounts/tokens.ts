// The record of a token, and its scopes (D92, D93). token-store.ts keeps the records.

import { hash } from 'node:crypto';
import { type Credential, isScope, type Scope } from './account.ts';

/** The record of a token: everything but the token itself. Times are milliseconds since 1970. */
export interface TokenRecord {
  readonly id: string;
  /** Id of the account. */
  readonly account: string;
  readonly credential: string;
  /** The token's last four characters, to tell it from others. */
  readonly lastFour: string;
  /** What the token was made for; '' where nobody said. */
  readonly label: string;
  /** The scopes that it is narrowed to, of those of its credential; all of them if absent. */
  readonly scopes?: readonly Scope[] | undefined;
  readonly createdAt: number;
  /** It does not expire if absent. */
  readonly expiresAt?: number | undefined;
  readonly revokedAt?: number | undefined;
}

/** The hash under which a token is kept and looked up: 64 hex digits. */
export function hashToken(token: string): string {
  return hash('sha256', token, 'hex');
}

/** A token that is to be made. */
export type NewToken = Omit<TokenRecord, 'id' | 'lastFour' | 'label' | 'revokedAt'> & { readonly label?: string };

/** Reads the scopes of a database row. Words that this program does not know are ignored. */
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

/** Whether a token is valid at a time: neither revoked nor expired. */
export function isLive(record: TokenRecord, now: number): boolean {
  return record.revokedAt === undefined && (record.expiresAt === undefined || record.expiresAt > now);
}
