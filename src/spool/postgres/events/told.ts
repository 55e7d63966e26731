// What a transaction tells readers, as it is kept until it is filed: lines of text, compressed, since an event and the row of the
// journal beside it say much the same.

import { deflateRawSync, inflateRawSync } from 'node:zlib';
import type { EncodedEvent } from '../../encoded-event.ts';
import type { JournalRow } from '../../journal/journal-row.ts';
import type { AccountTally } from '../../tally.ts';

/** What a transaction tells. */
export interface Told {
  /** Their times as they are stored. */
  readonly events: readonly EncodedEvent[];
  readonly rows: readonly JournalRow[];
  /** What accounts have more; less where it is negative. */
  readonly tallies: readonly AccountTally[];
}

/**
 * What is told in most transactions, most of all at its end: a row names what is said here instead of saying it. It stays as it is,
 * since rows that were written by it are read by it; another one would need another mark.
 */
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
