// Reads messages for the queue commands and for delivery.

import type { Row } from '../../base/database/database.ts';
import { Part } from '../../base/part.ts';
import { type Hold, Holds } from '../hold.ts';
import type { ListQuery, QueueItem, QueuePage, WaitingLine } from '../spool.ts';
import {
  examinedAtOnce,
  integer,
  messageColumns,
  octets,
  patternOf,
  queueItem,
  shownRecipientsAtOnce,
  stateNumbers,
  text,
} from '../stored-rows.ts';
import type { ServerParts } from './server/database-clock.ts';

/** The columns that `entryOf` reads, of a message `m`. */
export const entryColumns = messageColumns.map((name) => `m.${name}`).join(', ');

const readAtOnce = 50;
const [firstId, lastId] = ['00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff'];

const one = `SELECT ${entryColumns} FROM spool_messages m WHERE m.id = $1::uuid`;
const recipientsOf = `SELECT message, position, address, lane AS waits_for, state, attempts, next_attempt_at, reply_code,
    reply_enhanced, reply_text, host, notify, orcpt
  FROM spool_recipients WHERE message = ANY ($1::uuid[]) ORDER BY message, position`;
const lengthOf = 'SELECT head_length, size FROM spool_messages WHERE id = $1::uuid';
const octetsOf = 'SELECT octets FROM spool_octets WHERE message = $1::uuid ORDER BY part';
const endOfSlice = 'SELECT id FROM spool_messages WHERE id > $1::uuid ORDER BY id OFFSET $2::integer LIMIT 1';
const list = `SELECT ${entryColumns} FROM spool_messages m WHERE m.id > $1::uuid AND m.id <= $2::uuid
    AND ($6::text = '' OR m.account = $6::text)
    AND ($3::smallint < 0 OR EXISTS (SELECT 1 FROM spool_recipients r WHERE r.message = m.id AND r.state = $3::smallint))
    AND ($4::text = '%' OR m.id::text ILIKE $4::text OR m.message_id ILIKE $4::text OR m.client_message_id ILIKE $4::text
      OR m.sender_path ILIKE $4::text OR m.reverse_path ILIKE $4::text
      OR EXISTS (SELECT 1 FROM spool_recipients r WHERE r.message = m.id AND r.address ILIKE $4::text))
  ORDER BY m.id LIMIT $5::integer`;

/** How often the oldest message is looked for from the beginning, in milliseconds. */
const lookAllEveryMs = 60_000;
const oldest = `SELECT r.message, m.accepted_at FROM spool_recipients r JOIN spool_messages m ON m.id = r.message
  WHERE r.message >= $1::uuid AND r.state = 0 ORDER BY r.message LIMIT 1`;
const waiting = `SELECT CASE WHEN r.hold IS NULL THEN r.lane ELSE '' END AS lane, m.account, r.hold, count(*) AS recipients,
    min(m.accepted_at) AS accepted_at
  FROM spool_recipients r JOIN spool_messages m ON m.id = r.message WHERE r.state = 0
  GROUP BY 1, 2, 3 ORDER BY recipients DESC, 1, 2 LIMIT $1::integer`;

/** Whether a text can be the id of a message. */
export function isId(text: string): boolean {
  return /^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/i.test(text);
}

/** The queue of one database; the methods of the same names in `Spool` say what each does. */
export class PostgresQueue extends Part<ServerParts & { readonly holds: () => Promise<readonly Hold[]> }> {
  /** The message that was the oldest at the last question. */
  #oldest = firstId;
  #lookedAllAt = Number.NEGATIVE_INFINITY;

  async load(id: string): Promise<{ readonly head: Buffer; readonly body: Buffer } | undefined> {
    if (!isId(id)) return undefined;
    const parts = await this.parts.session.query(octetsOf, [id]);
    const [row] = await this.parts.session.query(lengthOf, [id]);
    if (!row) return undefined;
    const whole = Buffer.concat(parts.map((part) => octets(part, 'octets')));
    if (whole.length !== integer(row, 'size')) throw new Error(`Octets of message ${id} are missing from the database`);
    const head = integer(row, 'head_length');
    return { head: whole.subarray(0, head), body: whole.subarray(head) };
  }

  async show(id: string): Promise<QueueItem | undefined> {
    const [row] = isId(id) ? await this.parts.session.query(one, [id]) : [];
    if (!row) return undefined;
    const [item] = await this.#items([row]);
    return item;
  }

  async list({ state, account = '', search, limit, after = '' }: ListQuery): Promise<QueuePage> {
    const begin = isId(after) ? after : firstId;
    const [end] = await this.parts.session.query(endOfSlice, [begin, examinedAtOnce - 1]);
    const rows = await this.parts.session.query(list, [
      begin,
      end ? text(end, 'id') : lastId,
      state === undefined ? -1 : stateNumbers[state],
      patternOf(search),
      limit,
      account,
    ]);
    const items: QueueItem[] = [];
    let recipients = 0;
    for (let at = 0; at < rows.length && recipients <= shownRecipientsAtOnce; at += readAtOnce) {
      const read = await this.#items(rows.slice(at, at + readAtOnce));
      for (const item of read) {
        items.push(item);
        recipients += item.recipients.length;
      }
    }
    const last = items.at(-1)?.entry.id;
    if (last !== undefined && (rows.length === limit || items.length < rows.length)) return { items, next: last };
    return { items, next: end && text(end, 'id') };
  }

  /** When the oldest queued message was accepted. It goes on from the one that was the oldest at the last question. */
  async oldest(): Promise<number | undefined> {
    if (performance.now() - this.#lookedAllAt > lookAllEveryMs) {
      this.#lookedAllAt = performance.now();
      this.#oldest = firstId;
    }
    const [row] = await this.parts.session.query(oldest, [this.#oldest]);
    if (!row) return undefined;
    this.#oldest = text(row, 'message');
    return integer(row, 'accepted_at');
  }

  async waiting(limit: number): Promise<readonly WaitingLine[]> {
    const holds = new Holds(await this.parts.holds());
    return (await this.parts.session.query(waiting, [limit])).map((row) => {
      const line = { transport: text(row, 'lane'), account: text(row, 'account') };
      const hold = row['hold'] === null ? holds.ofLine(line)?.id : integer(row, 'hold');
      const told = { recipients: integer(row, 'recipients'), oldestAcceptedAt: integer(row, 'accepted_at') };
      return { ...line, ...told, ...(hold === undefined ? {} : { hold }) };
    });
  }

  async #items(rows: readonly Row[]): Promise<readonly QueueItem[]> {
    const found = await this.parts.session.query(recipientsOf, [rows.map((row) => text(row, 'id'))]);
    const holds = new Holds(await this.parts.holds());
    const byMessage = Map.groupBy(found, (row) => text(row, 'message'));
    return rows.map((row) => queueItem(row, byMessage.get(text(row, 'id')) ?? [], holds, this.parts.clock));
  }
}
