// One write of a proxy application from request to store (D82, D87): judged, written, and judged again where another
// request changed the application in between.

import type { Clock } from '../../base/clock.ts';
import type { StoredApplication } from '../application/application.ts';
import { type AskedWrite, type JudgedWrite, type JudgeSources, judgeWrite } from '../rules/judge-write.ts';
import { conflictFaults } from '../rules/rules.ts';
import type { ApplicationStore } from '../store/application-store.ts';

/** What a write needs. */
export interface WriteParts {
  readonly store: ApplicationStore;
  readonly sources: JudgeSources;
  readonly clock: Clock;
}

/** How a write ended. */
export type WriteEnd =
  | { readonly ok: true; readonly application: StoredApplication }
  | Extract<JudgedWrite, { readonly ok: false }>;

/** How often an application may change under a write's hands: only other processes can do it. */
const mostTries = 20;

/**
 * Judges and writes. A create gets the id of the write.
 * @throws Error where the store fails, or other processes change the application without end
 */
export async function writeApplication(write: AskedWrite, parts: WriteParts): Promise<WriteEnd> {
  const { store, clock } = parts;
  for (let tries = 0; tries < mostTries; tries += 1) {
    const judged = await judgeWrite(write, parts.sources);
    if (!judged.ok) return judged;
    const { fields, claims } = judged;
    const { id, zone, account } = write;
    const entry = { id, zone: zone.id, account: account.id, fields, claims, now: clock.now() };
    const written =
      write.kind === 'create' ? await store.create(entry) : await store.replace(entry, judged.stored?.modifiedAt);
    if (!written) return { ok: false, notFound: true };
    if ('changed' in written) continue;
    if (written.ok) return { ok: true, application: written.application };
    return { ok: false, faults: conflictFaults(written.conflict, { fields, zone, account }) };
  }
  throw new Error(`Application ${write.id} was changed ${mostTries} times while one change of it was judged`);
}
