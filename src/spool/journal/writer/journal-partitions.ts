// The partitions of the journal in PostgreSQL, one a day. Ids of rows are UUIDv7, which begin with their time, so that a range of ids
// is a day. A row and its content stand in partitions of the same day.

import { type AskServer, makePartition, partitionsOf } from '../../../base/database/postgres-partitions.ts';

const dayMs = 86_400_000;
const tables = ['journal', 'journal_content'] as const;

/** The least id of a time: what every UUIDv7 of that millisecond begins with. @param at milliseconds since 1970 */
function leastId(at: number): string {
  const time = at.toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}`;
}

/** The statements that make the missing partitions of the days between two times; each list is one transaction. */
export async function missingJournalDays(
  ask: AskServer,
  { since, until }: { readonly since: number; readonly until: number },
): Promise<readonly (readonly string[])[]> {
  const all: string[][] = [];
  const existing = await Promise.all(tables.map((table) => partitionsOf(ask, table)));
  for (let day = Math.floor(since / dayMs) * dayMs; day <= until; day += dayMs) {
    const [from, to] = [leastId(day), leastId(day + dayMs)];
    const name = new Date(day).toISOString().slice(0, 10).replaceAll('-', '');
    const statements = tables.flatMap((table, at) => {
      const own = existing[at] ?? [];
      const isThere = own.some((one) => !one.isDefault && (one.from ?? '') < to && (one.to ?? '~') > from);
      if (own.length === 0 || isThere) return [];
      const made = makePartition(table, { name: `${table}_${name}`, key: 'id', from, to });
      // Room in each page for what outcomes make of some rows: of a row that is changed within its page the server's log gets what has
      // changed, and else the whole of it.
      return table === 'journal' ? [...made, `ALTER TABLE journal_${name} SET (fillfactor = 80)`] : made;
    });
    if (statements.length > 0) all.push(statements);
  }
  return all;
}
