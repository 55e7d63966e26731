// Writes the journal in PostgreSQL: one statement for each table, however many rows. What is kept of messages is written in the
// transaction that takes them, and the rows behind it (event-filer.ts), with what has become of their messages meanwhile.

import { type EncodedEvent, readFacts } from '../../encoded-event.ts';
import { anew, columnsOf, type Send } from '../../postgres/server/postgres-session.ts';
import { type JournalFacts, type JournalRow, timeOf } from '../journal-row.ts';
import { keyWords, searchText } from '../store/words.ts';
import { notesOf, type WrittenJournal, withNotes } from './journal-of-event.ts';

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
  waiting = CASE WHEN new.dropped = 1 THEN 0 ELSE greatest(waiting - new.ended + new.again, 0) END,
  outcome = CASE WHEN new.dropped = 1 THEN 5 WHEN new.failed = 1 OR (outcome = 4 AND new.requeued = 0) THEN 4
    WHEN new.ended > 0 AND waiting - new.ended + new.again <= 0 THEN 2
    WHEN new.deferred = 1 AND (outcome = 1 OR new.requeued = 1) THEN 3 WHEN new.requeued = 1 THEN 1 ELSE outcome END
  FROM unnest($1::text[], $2::integer[], $3::integer[], $4::smallint[], $5::smallint[], $6::smallint[], $7::smallint[])
    AS new (id, ended, again, dropped, requeued, failed, deferred)
  WHERE journal.id = new.id AND journal.id BETWEEN $8::text AND $9::text`;

/** Sends the statement that writes what is kept of messages. */
export function sendContent(send: Send, rows: readonly WrittenJournal[]): void {
  const octets: Uint8Array[] = [];
  let length = 0;
  const place = (part: Uint8Array | undefined): readonly [number, number] => {
    if (!part) return [0, 0];
    octets.push(part);
    length += part.length;
    return [length - part.length + 1, part.length];
  };
  const placed = rows
    .filter(({ row }) => row.octets > 0)
    .map(({ row, isSameBody, ...kept }) => ({
      ...{ row, isSameBody },
      places: [place(kept.receivedHead), place(kept.sentHead), place(kept.receivedBody), place(kept.sentBody)] as const,
    }));
  if (placed.length === 0) return;
  const column = (part: 0 | 1 | 2 | 3, of: 0 | 1): number[] => placed.map(({ places }) => places[part][of]);
  void send(addContent, [
    Buffer.concat(octets, length),
    placed.map(({ row }) => row.id),
    placed.map(({ isSameBody }) => (isSameBody ? 1 : 0)),
    ...[column(0, 0), column(0, 1), column(1, 0), column(1, 1), column(2, 0), column(2, 1), column(3, 0), column(3, 1)],
  ]);
}

/** What PostgreSQL keeps beside a row for its search. @param facts `JournalFacts` as JSON @throws SyntaxError where it is none */
export function searchColumns(facts: string): { readonly keys: string; readonly words: string } {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- only journal-of-event.ts writes them
  const read = JSON.parse(facts) as JournalFacts;
  return { keys: keyWords(read), words: searchText(read) };
}

/** Sends the statements that write rows, and what events make of them and of rows that were there before. */
export function sendRows(send: Send, rows: readonly JournalRow[], events: readonly EncodedEvent[]): void {
  const notes = notesOf(events, ({ json }) => readFacts(json));
  const own = new Set(rows.map(({ id }) => id));
  if (rows.length > 0) {
    const written = rows.map((row) => withNotes(row, notes.get(row.id)));
    const searched = written.map(({ facts }) => searchColumns(facts));
    void send(addRows, [
      ...columnsOf(written, 'id', 'at', 'account', 'outcome', 'waiting', 'octets', 'facts', 'more'),
      ...columnsOf(searched, 'keys', 'words'),
    ]);
  }
  // Ids of one day begin alike, so that each statement finds its rows in one partition.
  const others = [...notes].filter(([id]) => !own.has(id));
  for (const some of Map.groupBy(others, ([id]) => Math.floor(timeOf(id) / 86_400_000)).values()) {
    const noted = some.map(([id, note]) => ({ id, ...note })).toSorted((one, other) => (one.id < other.id ? -1 : 1));
    const columns = columnsOf(noted, 'id', 'ended', 'again', 'dropped', 'requeued', 'failed', 'deferred');
    void send(noteAll, [...columns, noted[0]?.id ?? '', noted.at(-1)?.id ?? ''], anew);
  }
}
