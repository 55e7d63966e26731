// Finds the account that a command line names, and opens the database that the command works on.

import type { Account } from '../../accounts/account.ts';
import type { Config } from '../../app/config/config.ts';
import { openDatabaseOf } from '../../app/wiring/engine/open-stores.ts';
import { didYouMean } from '../../base/closest.ts';
import type { Database } from '../../base/database/database.ts';
import { UsageError } from '../../base/errors.ts';

/** Finds an account by its name or id. @throws UsageError, which suggests the account that was probably meant */
export function chooseAccount(config: Config, reference: string): Account {
  const found = config.accounts.find(({ id, name }) => name === reference || id === reference.toLowerCase());
  if (found) return found;
  const names = config.accounts.map(({ name }) => name);
  const which = didYouMean(reference, names, `there are ${names.join(', ')}`);
  throw new UsageError(`--account: no account "${reference}"; ${which}`);
}

/** `--account`, for commands that want it. */
export const accountOption = {
  account: { value: 'A', short: 'a', summary: 'name or id of the account (required)' },
} as const;

/** The account of `--account`. @throws UsageError where none is named or there is no such account */
function accountOf(config: Config, reference: string | undefined): Account {
  if (reference === undefined) throw new UsageError('--account: want the name or id of an account');
  return chooseAccount(config, reference);
}

/** Opens the database, runs the work with it, and closes it when the work is done. */
export async function withDatabase<T>(config: Config, work: (database: Database) => Promise<T>): Promise<T> {
  const database = await openDatabaseOf(config);
  try {
    return await work(database);
  } finally {
    await database.close();
  }
}

/** Opens a store for the account of `--account`, runs the work with both, and closes it. @throws UsageError as `accountOf` */
export async function withStoreOf<Store>(
  config: Config,
  { account }: { readonly account?: string },
  open: (database: Database) => Promise<Store>,
  work: (store: Store, account: Account) => Promise<number>,
): Promise<number> {
  const named = accountOf(config, account);
  return await withDatabase(config, async (database) => work(await open(database), named));
}

/** A time as JSON shows it; null for none. */
export function isoTime(ms: number | undefined): string | null {
  return ms === undefined ? null : new Date(ms).toISOString();
}
