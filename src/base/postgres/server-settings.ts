// What a server of PostgreSQL must be and do before mail may be confirmed on its word (D90).

type Row = Readonly<Record<string, unknown>>;

/** SQLSTATE read_only_sql_transaction: of all errors that say that a server takes no changes from us, also of our own. */
export const takesNoChanges = '25006';

/** An error for a server that cannot be used as it is. @param reason of `whyUnusable` */
export function unusableServer(reason: string): Error {
  return Object.assign(new Error(reason), { code: takesNoChanges });
}

/** Asks for what `whyUnusable` and `risksOf` look at, and for the time: milliseconds since 1970. */
export const askServer = `SELECT extract(epoch FROM clock_timestamp()) * 1000 AS time, pg_is_in_recovery() AS standby,
  current_setting('synchronous_commit') AS synchronous_commit, current_setting('synchronous_standby_names') AS standby_names,
  current_setting('transaction_read_only') AS read_only,
  current_setting('fsync') AS fsync, current_setting('full_page_writes') AS full_page_writes`;

/** Why a server cannot be used as it is, with what to do; undefined where it can. */
export function whyUnusable(row: Row): string | undefined {
  if (row['standby'] === true)
    return 'This PostgreSQL is a standby, which takes no changes: name the primary in database.url';
  if (row['read_only'] === 'on')
    return 'default_transaction_read_only is on: PostgreSQL takes no changes from this user; set it to off';
  if (row['synchronous_commit'] === 'off')
    return 'synchronous_commit is off: PostgreSQL would confirm mail that a crash can lose; set it to on';
  if (row['synchronous_commit'] === 'local' && row['standby_names'] !== '')
    return 'synchronous_commit is local although synchronous_standby_names is set: a failover would lose mail that was confirmed; set it to on';
  return undefined;
}

/** Asks a server how it is. @throws `unusableServer`, or what keeps it from answering */
export async function requireUsable(server: { query(sql: string): Promise<{ rows: readonly Row[] }> }): Promise<void> {
  const { rows } = await server.query(askServer);
  const reason = whyUnusable(rows[0] ?? {});
  if (reason !== undefined) throw unusableServer(reason);
}

/** What an operator should know of a server that can be used, one line each. */
export function risksOf(row: Row): readonly string[] {
  const risks: string[] = [];
  if (row['fsync'] === 'off')
    risks.push('fsync is off: a crash of the host of PostgreSQL can lose mail and ruin the database');
  if (row['full_page_writes'] === 'off')
    risks.push('full_page_writes is off: a crash of the host of PostgreSQL can ruin the database');
  if (row['synchronous_commit'] === 'remote_write' && row['standby_names'] !== '')
    risks.push('synchronous_commit is remote_write: a standby whose host crashes can lose mail that was confirmed');
  return risks;
}
