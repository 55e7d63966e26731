// The time in statements that take and judge leases: that of the database, where several hosts share it (D91).

import type { Database, SqlValue } from './database.ts';

/** How the statements of a store tell the time, in milliseconds since 1970. */
export interface SharedTime {
  /** SQL of the time now. @param last the number of the statement's last parameter, which is the time where the database has none */
  readonly sql: (last: number) => string;
  /** The values of such a statement. @param now the time of this process, of which nothing is used where the database has its own */
  readonly values: (now: number, ...values: readonly SqlValue[]) => readonly SqlValue[];
}

/** How statements of a database tell the time. */
export function sharedTimeOf({ timeSql }: Pick<Database, 'timeSql'>): SharedTime {
  return {
    sql: (last) => timeSql ?? `$${last}`,
    values: (now, ...values) => (timeSql === undefined ? [...values, now] : values),
  };
}
