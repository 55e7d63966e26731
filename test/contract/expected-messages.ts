// A commit waits for messages that are being judged and signed, in either engine.

import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { Spool } from '../../src/spool/spool.ts';
import { someTime, spoolEntry } from '../support/spool-entry.ts';

/** @param open opens a spool that tells of each commit how many operations it had */
export function expectedMessagesContract(name: string, open: (onCommitted: (count: number) => void) => Promise<Spool>) {
  test(`${name}: a message that is expected shares the commit of those before it`, async () => {
    const commits: number[] = [];
    const spool = await open((count) => void commits.push(count));
    // On a busy machine the few milliseconds of patience may be over before the second message comes.
    for (let tries = 0; tries < 50 && !commits.includes(2); tries += 1) {
      spool.expect(1);
      const first = spool.add(spoolEntry(), someTime);
      await nextTurn();
      await nextTurn();
      spool.expect(-1);
      await Promise.all([first, spool.add(spoolEntry(), someTime)]);
    }
    await spool.close();
    expect(commits).toContain(2);
  });
}
