// What events make of the journal's row of their message is the same in whatever groups they are filed: as if each were noted alone,
// by the rules that were statements of SQLite once.

import { DatabaseSync } from 'node:sqlite';
import { describe, expect, test } from 'vitest';
import type { EventFacts } from '../../src/spool/events/mail-event.ts';
import { outcomeNumbers } from '../../src/spool/journal/journal-row.ts';
import { notesOf, withNotes } from '../../src/spool/journal/writer/journal-of-event.ts';
import { SqliteJournal } from '../../src/spool/journal/writer/journal-tables.ts';
import fc from '../support/properties.ts';

const { accepted, delivered, deferred, failed, dropped } = outcomeNumbers;

interface Row {
  readonly waiting: number;
  readonly outcome: number;
}

interface Noted {
  readonly kind: string;
  readonly message: string;
  readonly failedCount: number;
}

/** The rules for one event. */
const rules: Readonly<Record<string, (row: Row, failedCount: number) => Row>> = {
  delivered: ({ waiting, outcome }) => ({
    waiting: Math.max(waiting - 1, 0),
    outcome: outcome === failed ? failed : waiting <= 1 ? delivered : outcome,
  }),
  deferred: ({ waiting, outcome }) => ({ waiting, outcome: outcome === accepted ? deferred : outcome }),
  failed: ({ waiting }) => ({ waiting: Math.max(waiting - 1, 0), outcome: failed }),
  requeued: ({ waiting }, failedCount) => ({ waiting: waiting + failedCount, outcome: accepted }),
  dropped: () => ({ waiting: 0, outcome: dropped }),
};

function factsOf({ kind, failedCount }: Noted): EventFacts | undefined {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- nothing else of it is read
  return { kind, failedCount } as EventFacts;
}

/** What happens to a message of some recipients, in an order in which it can, cut into groups. */
const histories = fc
  .record({
    recipients: fc.integer({ min: 1, max: 3 }),
    choices: fc.array(fc.record({ choice: fc.nat(), isCut: fc.boolean() }), { minLength: 1, maxLength: 10 }),
  })
  .map(({ recipients, choices }) => {
    const states = Array<'waits' | 'delivered' | 'failed'>(recipients).fill('waits');
    const groups: Noted[][] = [[]];
    let isOver = false;
    for (const { choice, isCut } of choices) {
      const waits = states.indexOf('waits');
      const failures = states.filter((state) => state === 'failed').length;
      const possible = [
        ...(waits < 0 ? [] : ['delivered', 'deferred', 'failed']),
        ...(waits < 0 && failures === 0 ? [] : ['requeued', 'dropped']),
      ];
      const kind = possible[choice % possible.length];
      if (kind === undefined || isOver) break;
      // One of those that failed may be queued again, or all.
      const again = kind === 'requeued' && choice % 2 === 0 ? Math.min(1, failures) : failures;
      if (kind === 'delivered' || kind === 'failed') states[waits] = kind;
      if (kind === 'requeued') for (let left = again; left > 0; left -= 1) states[states.indexOf('failed')] = 'waits';
      isOver = kind === 'dropped';
      if (isCut) groups.push([]);
      groups.at(-1)?.push({ kind, message: 'm', failedCount: again });
    }
    return { recipients, groups: groups.filter((group) => group.length > 0) };
  });

function oneByOne(recipients: number, groups: readonly (readonly Noted[])[]): Row {
  const first: Row = { waiting: recipients, outcome: accepted };
  return groups.flat().reduce((row, { kind, failedCount }) => rules[kind]?.(row, failedCount) ?? row, first);
}

describe('what events make of a row', () => {
  test('is the same in groups as one by one', () => {
    fc.assert(
      fc.property(histories, ({ recipients, groups }) => {
        const row = groups.reduce<Row>((before, group) => withNotes(before, notesOf(group, factsOf).get('m')), {
          waiting: recipients,
          outcome: accepted,
        });
        expect(row).toEqual(oneByOne(recipients, groups));
      }),
      { numRuns: 5000 },
    );
  });

  test.each([true, false])('is so in SQLite, with the acceptance in the first group: %s', (isFiledTogether) => {
    const database = new DatabaseSync(':memory:');
    const journal = new SqliteJournal(database);
    fc.assert(
      fc.property(histories, ({ recipients, groups }) => {
        database.exec('DELETE FROM journal');
        const row = {
          id: 'm',
          at: 1,
          account: 'dev',
          outcome: accepted,
          waiting: recipients,
          octets: 0,
          facts: '{}',
          more: '{}',
        };
        const nothing = { receivedHead: undefined, receivedBody: undefined, sentHead: undefined, sentBody: undefined };
        // Another message beside it, which nothing happens to.
        const other = { ...row, id: 'o', waiting: 7, outcome: deferred };
        for (const each of [other, row]) journal.add({ row: each, isSameBody: false, ...nothing });
        // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- nothing else of it is read
        const facts = { kind: 'accepted', recipientCount: recipients } as EventFacts;
        const taken = groups.map((group) => group.map((event) => ({ ...event, facts: factsOf(event) })));
        if (isFiledTogether) taken[0]?.unshift({ kind: 'accepted', message: 'm', failedCount: 0, facts });
        for (const group of taken) journal.note(group);
        const told = database.prepare('SELECT waiting, outcome FROM journal WHERE id = ?');
        expect({ ...told.get('m') }).toEqual(oneByOne(recipients, groups));
        expect({ ...told.get('o') }).toEqual({ waiting: 7, outcome: deferred });
      }),
      { numRuns: 1000 },
    );
    database.close();
  });
});
