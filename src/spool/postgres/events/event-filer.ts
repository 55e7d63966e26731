// Files what transactions tell readers: events with their ids, what they are found by and how many there are, rows of the journal with
// what has become of their messages, and what each account has. A transaction leaves one row of its own in spool_unfiled; whoever
// files takes the rows away in the transaction that writes what they say. So nothing is skipped and nothing is filed twice, whoever
// ends in the middle, and no commit waits for another. One process files at a time: any, since all look for what there is.

import { setTimeout as sleep } from 'node:timers/promises';
import { Unavailable } from '../../../base/errors.ts';
import { sendRows } from '../../journal/writer/postgres-journal.ts';
import { integer, octets } from '../../stored-rows.ts';
import type { AccountTally } from '../../tally.ts';
import type { PostgresSession, Send } from '../server/postgres-session.ts';
import { decodeTold, encodeTold, type Told } from './told.ts';
import { sendEvents, takeTurn, tellEvents } from './written-events.ts';

/** Transactions whose rows are filed at once, at most; once their octets are so many, no further one is. */
const filedAtOnce = 250;
const octetsAtOnce = 4 * 1024 * 1024;
/** How often what was told is filed, in milliseconds: one commit then is of what many have told. */
const everyMs = 100;
/** How soon it is tried again where another process files, in milliseconds. */
const againMs = 20;
/**
 * How often all rows are looked for, in milliseconds; else those alone that may have come since. While a long transaction keeps the
 * server from clearing away what was filed, all of that would be gone through each time. A transaction that has drawn a number ends
 * sooner: nothing but COMMIT follows, which has 5 s, and so has a connection that says nothing.
 */
const lookAllEveryMs = 20_000;
/** How long a reader waits for what this process has told, and who files for a lock, in milliseconds. */
const patienceMs = 2000;

const keep = 'INSERT INTO spool_unfiled (told) VALUES ($1::bytea)';
const isMine = "pg_try_advisory_xact_lock(hashtextextended('postern filing ' || current_schema(), 0))";
// A row that was filed since the statement began is passed over: DELETE does not find it any more.
const take = `DELETE FROM spool_unfiled WHERE seq = ANY (ARRAY(
    SELECT seq FROM (SELECT seq, sum(octets) OVER (ORDER BY seq) - octets AS before
      FROM (SELECT seq, octet_length(told) AS octets FROM spool_unfiled WHERE (SELECT ${isMine}) AND seq > $1::bigint
        AND seq <> ALL ($2::bigint[]) ORDER BY seq LIMIT $3::integer) AS first) AS summed
    WHERE before < ${octetsAtOnce})) RETURNING seq, told`;

/** Rows that cannot be filed which are passed over, at most. */
const mostPassedOver = 100;

/** What became of one try: all there was is filed, there is more, or another process is at it. */
type Filed = 'all' | 'some' | 'not mine';

/** Sends the statement that keeps what a transaction tells. */
export function sendTold(send: Send, told: Told): void {
  if (told.events.length + told.rows.length + told.tallies.length > 0) void send(keep, [encodeTold(told)]);
}

/** What a filer calls. */
export interface FilerParts {
  /** Sends the statements that add what accounts have more. */
  readonly sendTallies: (send: Send, more: readonly AccountTally[]) => void;
  /** Something was filed that other processes have told. */
  readonly onOthers: () => void;
  /** A row cannot be filed and is passed over until the next start. */
  readonly onPassedOver: (row: { readonly seq: number; readonly error: unknown }) => void;
}

/** Files what the processes on one database tell. */
export class EventFiler {
  readonly #session: PostgresSession;
  readonly #on: FilerParts;
  /** How often this process has told something, and how much of that is filed for certain. */
  #told = 0;
  #filed = 0;
  #running: Promise<void> | undefined;
  #endedAt = Number.NEGATIVE_INFINITY;
  /** The last try has not failed. */
  #isGoingOn = true;
  /** The greatest number that was filed; as it was at the last look at all rows, and at the one before. */
  #greatest = 0;
  #atLook = 0;
  #before = 0;
  #lookedAt = Number.NEGATIVE_INFINITY;
  /** The rows of the last try, and those that are passed over, since they are damaged or the tables do not take what they say. */
  #tried: readonly number[] = [];
  readonly #passedOver: number[] = [];

  constructor(session: PostgresSession, on: FilerParts) {
    this.#session = session;
    this.#on = on;
  }

  /** How many transactions of this process have told what is not filed yet, and how many rows were passed over since the start. */
  get behind(): { readonly unfiled: number; readonly passedOver: number } {
    return { unfiled: this.#told - this.#filed, passedOver: this.#passedOver.length };
  }

  /** A transaction has told something: it is filed soon. */
  wrote(): void {
    this.#told += 1;
    this.#run().catch(() => undefined);
  }

  /** Resolves once what this process has told is filed, or cannot be filed for now. */
  async caughtUp(): Promise<void> {
    const until = performance.now() + patienceMs;
    for (const wanted = this.#told; this.#filed < wanted && performance.now() < until; ) {
      const isDone = await Promise.race([
        this.#run().then(
          () => true,
          () => false,
        ),
        sleep(until - performance.now(), false, { ref: false }),
      ]);
      if (!isDone) return;
    }
  }

  /** Files what there is, whoever has told it. @throws Unavailable while the server is away, or somebody has locked what is needed */
  async file(): Promise<void> {
    for (let filed: Filed = 'some'; filed === 'some'; ) filed = await this.#fileSome();
  }

  #run(): Promise<void> {
    this.#running ??= this.#fileTold().finally(() => {
      this.#running = undefined;
      this.#endedAt = performance.now();
      if (this.#isGoingOn && this.#filed < this.#told) this.#run().catch(() => undefined);
    });
    return this.#running;
  }

  async #fileTold(): Promise<void> {
    await sleep(Math.max(0, this.#endedAt + everyMs - performance.now()));
    const upTo = this.#told;
    this.#isGoingOn = false;
    for (;;) {
      const filed = await this.#fileSome();
      if (filed === 'all') break;
      if (filed === 'not mine') await sleep(againMs);
    }
    this.#isGoingOn = true;
    this.#filed = upTo;
  }

  /** Files some rows; where that fails for one of them, one alone, so that a single one keeps nobody from reading. */
  async #fileSome(most = filedAtOnce): Promise<Filed> {
    try {
      return await this.#tryFiling(most);
    } catch (thrown) {
      const [seq] = this.#tried;
      if (thrown instanceof Unavailable || seq === undefined) throw thrown;
      if (this.#tried.length > 1) return await this.#fileSome(1);
      if (this.#passedOver.length === mostPassedOver) throw thrown;
      this.#passedOver.push(seq);
      this.#on.onPassedOver({ seq, error: thrown });
      return 'some';
    }
  }

  async #tryFiling(most: number): Promise<Filed> {
    const now = performance.now();
    const isWhole = now - this.#lookedAt >= lookAllEveryMs;
    const own = this.#told - this.#filed;
    this.#tried = [];
    const after = isWhole ? 0 : this.#before;
    const filed = await this.#session.transaction((send) => this.#take(send, after, most));
    this.#greatest = Math.max(this.#greatest, this.#tried.at(-1) ?? 0);
    if (this.#tried.length > own) this.#on.onOthers();
    if (isWhole && filed === 'all') {
      this.#lookedAt = now;
      [this.#before, this.#atLook] = [this.#atLook, this.#greatest];
    }
    return filed;
  }

  async #take(send: Send, after: number, most: number): Promise<Filed> {
    void send(`SET LOCAL lock_timeout = ${patienceMs}`);
    const asked = send(`SELECT ${isMine} AS mine`);
    const rows = await send(take, [after, this.#passedOver, most]);
    const [row] = await asked;
    if (rows.length === 0) return row?.['mine'] === true ? 'all' : 'not mine';
    const sorted = rows.toSorted((left, right) => integer(left, 'seq') - integer(right, 'seq'));
    this.#tried = sorted.map((one) => integer(one, 'seq'));
    const told = sorted.map((one) => octets(one, 'told'));
    this.#write(send, told.map(unpack));
    const total = told.reduce((sum, { length }) => sum + length, 0);
    return rows.length < most && total < octetsAtOnce ? 'all' : 'some';
  }

  #write(send: Send, all: readonly Told[]): void {
    const events = all.flatMap((told) => told.events);
    void send(takeTurn, [events.length]);
    sendEvents(send, events);
    sendRows(
      send,
      all.flatMap(({ rows }) => rows),
      events,
    );
    this.#on.sendTallies(
      send,
      all.flatMap(({ tallies }) => tallies),
    );
    void send(tellEvents);
  }
}

/** @throws Error where a row is damaged; its code is none of the connection's failures */
function unpack(told: Uint8Array): Told {
  try {
    return decodeTold(told);
  } catch (thrown) {
    throw Object.assign(new Error('What a transaction has told cannot be read', { cause: thrown }), { code: '00000' });
  }
}
