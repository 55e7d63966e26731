// Writes the journal in PostgreSQL: one statement for each table, however many rows. What is kept of messages is written in the
// transaction that takes them, and the rows behind it (event-filer.ts), with what has become of their messages meanwhile.

import type { EventKind } from '../../events/mail-event.ts';
import { type JournalFacts, outcomeNumbers } from '../../journal/journal-row.ts';
import { keyWords, searchText } from '../../journal/store/words.ts';
import type { PackedEvent } from '../packed-event.ts';
import type { Send } from '../postgres/server/postgres-session.ts';
import type { JournalRow, PackedJournal } from './pack-journal.ts';

/** A row that is to be filed. */
export interface ToldRow extends JournalRow {
  /** Those of its content. */
  readonly octets: number;
}

/** A row that is to be written, with the octets that leave. */
export interface PostgresJournalRow {
  readonly packed: PackedJournal;
  readonly sentHead: Buffer | undefined;
  readonly sentBody: Buffer | undefined;
}

const addRows = `INSERT INTO journal (id, at, account, outcome, waiting, octets, facts, more, keys, words)
  SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::smallint[], $5::integer[], $6::bigint[], $7::text[],
    $8::text[], $9::text[], $10::text[])`;

// The octets of all rows come in one value, because octets in an array would be sent as text. Counted from 1; 0: none.
const addContent = `INSERT INTO journal_content (id, seq, same_body, received_head, sent_head, received_body, sent_body)
  SELECT new.id, 0, new.same_body,
    CASE WHEN new.rh > 0 THEN substring($1::bytea FROM new.rh FOR new.rhl) END,
    CASE WHEN new.sh > 0 THEN substring($1::bytea FROM new.sh FOR new.shl) END,
    CASE WHEN new.rb > 0 THEN substring($1::bytea FROM new.rb FOR new.rbl) END,
    CASE WHEN new.sb > 0 THEN substring($1::bytea FROM new.sb FOR new.sbl) END
  FROM unnest($2::text[], $3::smallint[], $4::integer[], $5::integer[], $6::integer[], $7::integer[], $8::integer[],
    $9::integer[], $10::integer[], $11::integer[]) AS new (id, same_body, rh, rhl, sh, shl, rb, rbl, sb, sbl)`;

// What several events make of a row together. The bounds of the ids say in which partitions the rows are.
const noteAll = `UPDATE journal SET
  waiting = greatest(waiting - new.ended + new.again, 0),
  outcome = CASE WHEN new.dropped = 1 THEN 5 WHEN new.failed = 1 OR (outcome = 4 AND new.requeued = 0) THEN 4
    WHEN new.ended > 0 AND waiting - new.ended + new.again <= 0 THEN 2
    WHEN new.deferred = 1 AND (outcome = 1 OR new.requeued = 1) THEN 3 WHEN new.requeued = 1 THEN 1 ELSE outcome END
  FROM unnest($1::text[], $2::integer[], $3::integer[], $4::smallint[], $5::smallint[], $6::smallint[], $7::smallint[])
    AS new (id, ended, again, dropped, requeued, failed, deferred)
  WHERE journal.id = new.id AND journal.id BETWEEN $8::text AND $9::text`;

/** What the events of a message make of its row; what came before it was queued again counts for `waiting` alone. */
interface Noted {
  ended: number;
  again: number;
  dropped: number;
  requeued: number;
  failed: number;
  deferred: number;
}

const changes: Partial<Record<EventKind, (noted: Noted, event: PackedEvent) => void>> = {
  delivered: (noted) => void (noted.ended += 1),
  deferred: (noted) => void (noted.deferred = 1),
  failed: (noted) => {
    noted.ended += 1;
    noted.failed = 1;
  },
  requeued: (noted, { json }) => {
    Object.assign(noted, { requeued: 1, failed: 0, deferred: 0 });
    const event: unknown = JSON.parse(json);
    if (typeof event === 'object' && event !== null && 'failedCount' in event) noted.again += Number(event.failedCount);
  },
  dropped: (noted) => void (noted.dropped = 1),
};

function notesOf(events: readonly PackedEvent[]): ReadonlyMap<string, Noted> {
  const notes = new Map<string, Noted>();
  for (const event of events) {
    const change = changes[event.kind];
    if (!change || event.message === null) continue;
    const noted = notes.get(event.message) ?? { ended: 0, again: 0, dropped: 0, requeued: 0, failed: 0, deferred: 0 };
    change(noted, event);
    notes.set(event.message, noted);
  }
  return notes;
}

/** What `noteAll` does, for a row that is not written yet. */
function withNotes(row: ToldRow, noted: Noted | undefined): ToldRow {
  if (!noted) return row;
  const left = row.waiting - noted.ended + noted.again;
  const { accepted, delivered, deferred, failed, dropped } = outcomeNumbers;
  const outcomes: readonly (readonly [boolean, number])[] = [
    [noted.dropped === 1, dropped],
    [noted.failed === 1, failed],
    [noted.ended > 0 && left <= 0, delivered],
    [noted.deferred === 1, deferred],
    [noted.requeued === 1, accepted],
  ];
  const [, outcome] = outcomes.find(([isSo]) => isSo) ?? [true, row.outcome];
  return { ...row, waiting: Math.max(left, 0), outcome };
}

/** The octets of the content of a row. */
export function octetsOf({ packed, sentHead, sentBody }: PostgresJournalRow): number {
  const parts = [packed.receivedHead, packed.receivedBody, sentHead, sentBody];
  return parts.reduce((sum, part) => sum + (part?.length ?? 0), 0);
}

/** Sends the statement that writes what is kept of messages. */
export function sendContent(send: Send, rows: readonly PostgresJournalRow[]): void {
  const octets: Buffer[] = [];
  let length = 0;
  const place = (part: Buffer | undefined): readonly [number, number] => {
    if (!part) return [0, 0];
    octets.push(part);
    length += part.length;
    return [length - part.length + 1, part.length];
  };
  const placed = rows
    .filter((row) => octetsOf(row) > 0)
    .map(({ packed, sentHead, sentBody }) => ({
      packed,
      places: [place(packed.receivedHead), place(sentHead), place(packed.receivedBody), place(sentBody)] as const,
    }));
  if (placed.length === 0) return;
  const column = (part: 0 | 1 | 2 | 3, of: 0 | 1): number[] => placed.map(({ places }) => places[part][of]);
  void send(addContent, [
    Buffer.concat(octets, length),
    placed.map(({ packed }) => packed.row.id),
    placed.map(({ packed }) => (packed.isSameBody ? 1 : 0)),
    ...[column(0, 0), column(0, 1), column(1, 0), column(1, 1), column(2, 0), column(2, 1), column(3, 0), column(3, 1)],
  ]);
}

/** What PostgreSQL keeps beside a row for its search. @param facts `JournalFacts` as JSON @throws SyntaxError where it is none */
export function searchColumns(facts: string): { readonly keys: string; readonly words: string } {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- only pack-journal.ts writes them
  const read = JSON.parse(facts) as JournalFacts;
  return { keys: keyWords(read), words: searchText(read) };
}

/** Sends the statements that write rows, and what events make of them and of rows that were there before. */
export function sendRows(send: Send, rows: readonly ToldRow[], events: readonly PackedEvent[]): void {
  const notes = notesOf(events);
  const own = new Set(rows.map(({ id }) => id));
  if (rows.length > 0) {
    const written = rows.map((row) => withNotes(row, notes.get(row.id)));
    const searched = written.map(({ facts }) => searchColumns(facts));
    void send(addRows, [
      written.map(({ id }) => id),
      written.map(({ at }) => at),
      written.map(({ account }) => account),
      written.map(({ outcome }) => outcome),
      written.map(({ waiting }) => waiting),
      written.map(({ octets }) => octets),
      written.map(({ facts }) => facts),
      written.map(({ more }) => more),
      searched.map(({ keys }) => keys),
      searched.map(({ words }) => words),
    ]);
  }
  // Ids of one day begin alike, so that each statement finds its rows in one partition.
  const others = [...notes].filter(([id]) => !own.has(id));
  for (const some of Map.groupBy(others, ([id]) => dayOf(id)).values()) sendNotes(send, some);
}

/** The day of a UUIDv7, as a number; any other text has one, too. */
function dayOf(id: string): number {
  return Math.floor(Number.parseInt(id.slice(0, 13).replace('-', ''), 16) / 86_400_000);
}

function sendNotes(send: Send, notes: readonly (readonly [string, Noted])[]): void {
  const ids = notes.map(([id]) => id);
  const [first, last] = [ids.reduce(lesser, ids[0] ?? ''), ids.reduce(greater, '')];
  void send(
    noteAll,
    [
      ids,
      notes.map(([, { ended }]) => ended),
      notes.map(([, { again }]) => again),
      notes.map(([, { dropped }]) => dropped),
      notes.map(([, { requeued }]) => requeued),
      notes.map(([, { failed }]) => failed),
      notes.map(([, { deferred }]) => deferred),
      first,
      last,
    ],
    { isPlannedAnew: true },
  );
}

function lesser(one: string, other: string): string {
  return other < one ? other : one;
}

function greater(one: string, other: string): string {
  return other > one ? other : one;
}
