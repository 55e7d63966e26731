// Messages in flight from their acceptance (D90): their recipients stand in the message's row, as its envelope, and get rows of their own
// only where they are not all delivered within seconds. A message delivered at once costs one row, and no entry in the index of what is due.

import type { Row } from '../../base/database/database.ts';
import { type DatabaseSync, prepareAll } from '../../base/database/sqlite-file.ts';
import { Part } from '../../base/part.ts';
import type { GroupMessage } from '../core/message-group.ts';
import { reportBits, wantedReports } from '../reports/report.ts';
import { distinctRecipients, type EntryMeta, integer, text } from '../stored-rows.ts';
import type { SpoolClock } from './sqlite-clock.ts';
import type { Lines } from './sqlite-lines.ts';

/** How long a message is in flight before its recipients get rows, in milliseconds. */
const inFlightMs = 30_000;
/** Only a message whose claim holds for longer than that, in milliseconds, has an envelope: nobody else claims it meanwhile. */
export const leastClaimMs = 2 * inFlightMs;
/** Messages whose recipients get rows in one transaction, at most. */
const spreadAtOnce = 500;
/** How often the mark is moved, in milliseconds. */
const markEveryMs = 1000;

/** A recipient in an envelope: its address, its transport, the sum of `reportBits`, NOTIFY and ORCPT as given. */
type EnvelopeRecipient = readonly [address: string, transport: string, wanted: number, notify?: string, orcpt?: string];

/** What stands in the column `envelope`, as JSON. `until`: how long the recipients are claimed, in stored time. */
export interface FlightEnvelope {
  readonly until: number;
  readonly to: readonly EnvelopeRecipient[];
}

/** The columns and the condition that tell of messages in flight; `spool_in_flight.mark` is no newer than the oldest of them. */
export const inFlightRows = `spool_messages WHERE seq >= (SELECT mark FROM spool_in_flight) AND envelope IS NOT NULL`;

/** The tables, a step of the spool's migrations. */
export const inFlightTables = `
  -- envelope: recipients that have no rows in spool_recipients yet, as JSON (in-flight.ts); NULL once they have.
  ALTER TABLE spool_messages ADD COLUMN envelope TEXT;
  -- One row. mark: no message with a lower seq has an envelope, and none gets a lower one.
  CREATE TABLE spool_in_flight (one INTEGER PRIMARY KEY CHECK (one = 1), mark INTEGER NOT NULL) STRICT;
  INSERT INTO spool_in_flight SELECT 1, 1 + coalesce(max(seq), 0) FROM spool_messages;
`;

/** Makes the envelope of a message. @param until how long its recipients are claimed, in stored time */
export function envelopeOf(entry: EntryMeta, until: number): FlightEnvelope {
  const to = distinctRecipients(entry).map(({ address, transport }): EnvelopeRecipient => {
    const { notify, orcpt } = entry.dsn?.recipients?.get(address) ?? {};
    const wanted = wantedReports(entry, address);
    return notify === undefined && orcpt === undefined
      ? [address, transport, wanted]
      : [address, transport, wanted, notify ?? '', orcpt ?? ''];
  });
  return { until, to };
}

/** Reads an envelope; undefined where the column is NULL. */
export function readEnvelope(column: unknown): FlightEnvelope | undefined {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- only `envelopeOf` makes them
  return typeof column === 'string' ? (JSON.parse(column) as FlightEnvelope) : undefined;
}

/** The rows that the recipients of an envelope have in spool_recipients, joined with their lines, as soon as they have some. */
export function envelopeRows({ until, to }: FlightEnvelope, nextAttemptAt: number) {
  return to.map(([address, transport, reports, notify = '', orcpt = ''], position) => ({
    ...{ position, address, state: 0, attempts: 0, next_attempt_at: nextAttemptAt, claimed_until: until, reports },
    ...{ notify: notify || null, orcpt: orcpt || null, waits_for: transport, reply_code: null, host: null },
  }));
}

/** A message in flight, as far as its delivery needs it. */
export interface InFlight extends Pick<GroupMessage, 'id' | 'account' | 'size'> {
  readonly seq: number;
  readonly isBodyFile: boolean;
  readonly recipients: readonly string[];
  /** A delivery of some of them is to be reported. */
  readonly isReported: boolean;
  /** How long its recipients are claimed, in stored time. */
  readonly until: number;
  /** When it was added, by this thread's monotonic clock. */
  readonly since: number;
}

function prepare(database: DatabaseSync) {
  return prepareAll(database, {
    addRecipient: `INSERT INTO spool_recipients (message, position, address, state, attempts, next_attempt_at, claimed_until,
        line, notify, orcpt, reports)
      VALUES (?, ?, ?, 0, 0, ?, ?, ?, ?, ?, ?)`,
    forget: 'DELETE FROM spool_messages WHERE seq = ? AND envelope IS NOT NULL',
    mark: 'UPDATE spool_in_flight SET mark = ?',
    envelope: 'SELECT seq, account, accepted_at, envelope FROM spool_messages WHERE id = ? AND envelope IS NOT NULL',
    spread: 'UPDATE spool_messages SET envelope = NULL WHERE seq = ?',
  });
}

/** The messages in flight of one database. Every method runs in the caller's transaction. */
export class MessagesInFlight extends Part<{
  readonly database: DatabaseSync;
  readonly clock: SpoolClock;
  readonly lines: Lines;
}> {
  readonly #sql = prepare(this.parts.database);
  /** In the order in which they were added, which is that of `seq`. */
  #byId = new Map<string, InFlight>();
  /** What the transaction has added and taken out. */
  #added: string[] = [];
  #taken: InFlight[] = [];
  #newest = 0;
  #markedAt = Number.NEGATIVE_INFINITY;
  #marked = 0;
  #isRecovered = false;

  begin(): void {
    this.#added = [];
    this.#taken = [];
  }

  /** Notes that a message was written with an envelope. */
  add(message: Omit<InFlight, 'recipients' | 'isReported' | 'until' | 'since'>, { to, until }: FlightEnvelope): void {
    const isReported = to.some(([, , wanted]) => (wanted & reportBits.success) > 0);
    this.#byId.set(message.id, {
      ...message,
      recipients: to.map(([address]) => address),
      isReported,
      until,
      since: performance.now(),
    });
    this.#added.push(message.id);
    this.#newest = message.seq;
  }

  /** Writes the rows of recipients. @param message a row of spool_messages with seq, account and accepted_at */
  writeRows(envelope: FlightEnvelope, message: Row): void {
    const [seq, account] = [integer(message, 'seq'), text(message, 'account')];
    const nextAttemptAt = this.parts.clock.stored(integer(message, 'accepted_at'));
    const due = Math.max(nextAttemptAt, envelope.until);
    for (const row of envelopeRows(envelope, nextAttemptAt)) {
      const line = this.parts.lines.of({ transport: row.waits_for, account }, due);
      this.#sql.addRecipient.run(
        ...[seq, row.position, row.address, nextAttemptAt, envelope.until, line, row.notify, row.orcpt, row.reports],
      );
    }
  }

  /** To be called where the transaction was undone. */
  undo(): void {
    for (const id of this.#added) this.#byId.delete(id);
    if (this.#taken.length > 0) {
      const added = new Set(this.#added);
      const all = [...this.#byId.values(), ...this.#taken.filter(({ id }) => !added.has(id))];
      this.#byId = new Map(all.toSorted((left, right) => left.seq - right.seq).map((one) => [one.id, one]));
    }
    this.#marked = 0;
    this.begin();
  }

  /** Removes a message whose recipients are all in `delivered`. @returns it; undefined: not in flight, not done, or with reports */
  forget(id: string, delivered: ReadonlySet<string>): InFlight | undefined {
    const message = this.#byId.get(id);
    if (!message || message.isReported || !message.recipients.every((address) => delivered.has(address)))
      return undefined;
    this.#take(message);
    // A command beside the server may have given it rows, or dropped it (D94).
    return Number(this.#sql.forget.run(message.seq).changes) > 0 ? message : undefined;
  }

  /** Gives the recipients of a message rows. @returns false where it has no envelope */
  spread(id: string): boolean {
    const known = this.#byId.get(id);
    if (known) this.#take(known);
    const row = this.#sql.envelope.get(id);
    const envelope = readEnvelope(row?.['envelope']);
    if (!row || !envelope) return false;
    this.writeRows(envelope, row);
    this.#sql.spread.run(integer(row, 'seq'));
    return true;
  }

  get #first(): InFlight | undefined {
    return this.#byId.values().next().value;
  }

  /** The seq of the oldest message in flight; greater than any where none is. */
  get oldest(): number {
    return this.#first?.seq ?? Number.MAX_SAFE_INTEGER;
  }

  /** Whether any message is in flight. */
  get isAny(): boolean {
    return this.#byId.size > 0;
  }

  /** Whether messages have been in flight for too long, so that `settle` has something to do. */
  get isLate(): boolean {
    return this.#first !== undefined && performance.now() - this.#first.since > inFlightMs;
  }

  /** Gives rows to the recipients of messages whose claim is over. @param at stored time */
  settleDue(at: number): void {
    for (let oldest = this.#first; oldest && oldest.until <= at; oldest = this.#first) this.spread(oldest.id);
  }

  /** Gives rows to the recipients of messages that have been in flight for too long, or with `all` of some of all. */
  settle(all = false): void {
    let left = spreadAtOnce;
    for (const { id, since } of [...this.#byId.values()]) {
      if (left === 0 || (!all && performance.now() - since <= inFlightMs)) return;
      this.spread(id);
      left -= 1;
    }
  }

  /** To be called once nothing is in flight that an earlier process accepted: from then on the mark moves. */
  recovered(): void {
    this.#isRecovered = true;
  }

  /** Moves the mark, now and then; to be called before COMMIT. */
  mark(): void {
    if (!this.#isRecovered || this.#newest === 0 || performance.now() - this.#markedAt < markEveryMs) return;
    this.#markedAt = performance.now();
    const mark = this.#first?.seq ?? this.#newest + 1;
    if (mark !== this.#marked) this.#sql.mark.run(mark);
    this.#marked = mark;
  }

  #take(message: InFlight): void {
    this.#byId.delete(message.id);
    this.#taken.push(message);
  }
}

/** Gives rows without a transport to recipients in flight that no process delivers. @param isMarked only those behind the mark */
export function spreadAll(database: DatabaseSync, isMarked: boolean): void {
  const which = isMarked ? inFlightRows : 'spool_messages WHERE envelope IS NOT NULL';
  database.exec(`
    INSERT INTO spool_recipients (message, position, address, state, attempts, next_attempt_at, claimed_until, line, notify, orcpt,
      reports)
    SELECT m.seq, r.key, r.value ->> 0, 0, 0, m.accepted_at - coalesce((SELECT offset FROM spool_clock), 0), 0, 0,
      nullif(r.value ->> 3, ''), nullif(r.value ->> 4, ''), r.value ->> 2
    FROM (SELECT seq, accepted_at, envelope FROM ${which}) m, json_each(m.envelope, '$.to') r;
    UPDATE spool_messages SET envelope = NULL WHERE seq IN (SELECT seq FROM ${which});`);
}
