// Changes of partitions are made by one process at a time; the others find them made.

import type { PostgresSession, Send } from '../server/postgres-session.ts';

const mine = "SELECT pg_try_advisory_xact_lock(hashtextextended('postern partitions ' || current_schema(), 0)) AS mine";

/** Runs a transaction that no other process runs as well. @returns whether it was run; else another's is under way */
export async function changeAlone(session: PostgresSession, work: (send: Send) => Promise<void>): Promise<boolean> {
  return await session.transaction(async (send) => {
    const [row] = await send(mine);
    if (row?.['mine'] !== true) return false;
    await work(send);
    return true;
  });
}
