// Files what transactions tell readers: events with their ids, what they are found by and how many there are, rows of the journal with
// what has become of their messages, and what each account has. A transaction leaves one row of its own in spool_unfiled; whoever
// files takes the rows away in the transaction that writes what they say. So nothing is skipped and nothing is filed twice, whoever
// ends in the middle, and no commit waits for another. One process files at a time: any, since all look for what there is.

import { setTimeout as sleep } from 'node:timers/promises';
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import { Unavailable } from '../../../base/errors.ts';
import type { Logger } from '../../../base/log.ts';
import { Part } from '../../../base/part.ts';
import type { EncodedEvent } from '../../encoded-event.ts';
import type { JournalRow } from '../../journal/journal-row.ts';
import { sendRows } from '../../journal/writer/postgres-journal.ts';
import { integer, octets } from '../../stored-rows.ts';
import type { AccountTally } from '../../tally.ts';
import type { ServerParts } from '../server/database-clock.ts';
import type { Send } from '../server/postgres-session.ts';
import { sendEvents, sendTallies, takeTurn, tellEvents } from './written-events.ts';

/** What a transaction tells. Until it is filed it is kept as compressed text, since an event and the journal's row say much the same. */
export interface Told {
  /** Their times as they are stored. */
  readonly events: readonly EncodedEvent[];
  readonly rows: readonly JournalRow[];
  /** What accounts have more; less where it is negative. */
  readonly tallies: readonly AccountTally[];
}

/** What most transactions tell: a row names it instead of saying it. It stays as it is, since kept rows are read by it. */
const dictionary =
  Buffer.from(`{"credential":"","via":"smtp","client":"127.0.0.1","helo":"","mailer":"","sender":"@example.com",\
"recipients":["@example.net"],"count":1,"subject":"","size":4,"codes":["","fields":["","reasons":[{"code":"E_HEADER_NOT_ALLOWED",\
"message":"","field":""}],"reasonCount":1,"kind":"deferred","failed","dropped","reply":{"code":450,"enhanced":"4.2.0","text":"\
{"session":"","names":"Received\\nFrom\\nTo\\nCc\\nReply-To\\nSubject\\nDate\\nMessage-ID\\nMIME-Version\\nContent-Type\\n\
Content-Transfer-Encoding","verdicts":"lll","dialogue":"S 2 220 mx. ESMTP Postern\\nC 2 EHLO \\nS 2 250-\\nC 3 STARTTLS\\n\
S 3 220 2.0.0 Ready to start TLS\\nC 4 AUTH PLAIN\\nS 5 235 2.7.0 Authentication successful\\nC 3 MAIL FROM:<\\n\
S 4 250 2.1.0 Ok\\nC 4 RCPT TO:<\\nS 9 250 2.1.5 Ok\\nC 9 DATA\\nS 9 354 End data with <CR><LF>.<CR><LF>\\n",\
"tls":{"version":"TLSv1.3","cipher":"TLS_AES_256_GCM_SHA384"},"timings":{"read":0.5,"check":5.6,"compose":3.4,"sign":9.6},\
"sizeAsSent":5
e{"at":1795626501536,"account":"","kind":"accepted","message":"01a2
{"kind":"accepted","at":1795626501536,"account":"","credential":"","sessionId":"","via":"smtp","clientAddress":"127.0.0.1",\
"helo":"","senderPath":"@example.com","queueId":"01a2","messageId":"<","recipients":["@example.net"],"recipientCount":1,"size":4,\
"sizeAsSent":5
j{"id":"01a2","at":1795626501536,"account":"","outcome":1,"waiting":1,"octets":0}
t{"account":"","messages":{"queued":1,"failed":0},"octets":{"queued":5506,"failed":0},\
"recipients":{"queued":1,"delivered":0,"failed":0}}
t{"account":"","messages":{"queued":-1,"failed":0},"octets":{"queued":-5506,"failed":0},\
"recipients":{"queued":-1,"delivered":0,"failed":0}}
e{"at":1795626501726,"account":"","kind":"delivered","message":"01a2
{"kind":"delivered","at":1795626501726,"account":"","credential":"","sessionId":"","via":"smtp","clientAddress":"","helo":"",\
"senderPath":"","queueId":"01a2","messageId":"<","recipient":"@example.com","route":"","host":" (","tls":{"policy":"none"},\
"reply":{"code":250,"enhanced":"2.0.0","text":"2.0.0 Ok: queued as "},"attempts":1,"acceptedAt":1795626501717,"sizeAsSent":5`);
/** The first octet of what was packed with the dictionary. What was packed without one never begins so (RFC 1951 section 3.2.3). */
const withDictionary = 7;

/** Packs it. JSON has no line break outside of its texts, nor in them. */
export function encodeTold({ events, rows, tallies }: Told): Buffer {
  const lines: string[] = [];
  for (const { json, ...event } of events) lines.push(`e${JSON.stringify(event)}`, json);
  for (const { facts, more, ...row } of rows) lines.push(`j${JSON.stringify(row)}`, facts, more);
  for (const tally of tallies) lines.push(`t${JSON.stringify(tally)}`);
  const packed = deflateRawSync(lines.join('\n'), { dictionary, memLevel: 7, windowBits: 14 });
  return Buffer.concat([Buffer.of(withDictionary), packed]);
}

/** Unpacks it. @throws Error where it is damaged */
export function decodeTold(octets: Uint8Array): Told {
  const told = { events: [] as EncodedEvent[], rows: [] as JournalRow[], tallies: [] as AccountTally[] };
  const [mark] = octets;
  const text = mark === withDictionary ? inflateRawSync(octets.subarray(1), { dictionary }) : inflateRawSync(octets);
  const lines = text.toString().split('\n').values();
  const next = (): string => lines.next().value ?? '';
  for (let line = next(); line !== ''; line = next()) {
    const rest = line.slice(1);
    // oxlint-disable typescript/no-unsafe-type-assertion -- only `encodeTold` writes them
    if (line.startsWith('e')) told.events.push({ ...(JSON.parse(rest) as Omit<EncodedEvent, 'json'>), json: next() });
    else if (line.startsWith('t')) told.tallies.push(JSON.parse(rest) as AccountTally);
    else told.rows.push({ ...(JSON.parse(rest) as Omit<JournalRow, 'facts' | 'more'>), facts: next(), more: next() });
    // oxlint-enable typescript/no-unsafe-type-assertion
  }
  return told;
}

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

interface FilerParts extends Pick<ServerParts, 'session'> {
  readonly log: Logger;
  /** Something was filed that other processes have told. */
  readonly onOthers: () => void;
}

/** Files what the processes on one database tell. */
export class EventFiler extends Part<FilerParts> {
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
      const facts = { err: thrown, seq };
      this.parts.log.error(facts, 'events and rows of the journal cannot be filed, and stay in spool_unfiled');
      return 'some';
    }
  }

  async #tryFiling(most: number): Promise<Filed> {
    const now = performance.now();
    const isWhole = now - this.#lookedAt >= lookAllEveryMs;
    const own = this.#told - this.#filed;
    this.#tried = [];
    const after = isWhole ? 0 : this.#before;
    const filed = await this.parts.session.transaction((send) => this.#take(send, after, most));
    this.#greatest = Math.max(this.#greatest, this.#tried.at(-1) ?? 0);
    if (this.#tried.length > own) this.parts.onOthers();
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
    sendTallies(
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
