// Makes a Submission of a request of send_raw: the one that SMTP would have brought (D46).

import { yieldToEventLoop } from '../../base/yield-to-event-loop.ts';
import { readMessage } from '../../mail/header/header-reader.ts';
import type { Violation } from '../../pipeline/submit.ts';
import { isJsonObject, type JsonDocument, type JsonObject, type JsonValue } from '../../web/http/json/json-reader.ts';
import { compileJudge, documentFaults } from '../../web/http/schema-faults.ts';
import { type ApiMailbox, readPathAddress } from './addresses.ts';
import { invalid } from './invalid.ts';
import { faultOf } from './merge-faults.ts';
import {
  countOf,
  isAscii,
  judge,
  noFields,
  type ReadContext,
  type ReadRequest,
  stringOf,
  suppressedOf,
  viaOf,
} from './read-request.ts';
import { SendRawRequest } from './schemas.ts';

const noOctets = Buffer.alloc(0);

const judgeSendRaw = compileJudge(SendRawRequest);

/** So many entries of `recipients` are read even where the limit is lower, so that faults beyond the limit are told too. */
const mostRecipientsRead = 2000;

function readEnvelope(body: JsonObject, { submitter, limits }: ReadContext) {
  const { defaultDomain } = submitter.credential;
  const violations: Violation[] = [];
  const recipients: ApiMailbox[] = [];
  const read = (value: JsonValue | undefined, pointer: string): string | undefined => {
    if (typeof value !== 'string') return undefined;
    const found = readPathAddress(value, defaultDomain);
    if ('address' in found) return found.address;
    violations.push(invalid(pointer, found.reason));
    return undefined;
  };
  const { from } = body;
  // D50: any sender may use the null reverse-path.
  const reversePath = from === '' || from === '<>' ? '' : (read(from, '/from') ?? '');
  const given = Array.isArray(body['recipients']) ? body['recipients'] : [];
  // A list with too many recipients is refused anyway, so its end is not read.
  const most = Math.max(mostRecipientsRead, limits.recipients);
  given.slice(0, most).forEach((recipient, index) => {
    const pointer = `/recipients/${index}`;
    const address = read(recipient, pointer);
    if (address !== undefined) recipients.push({ address, pointer });
  });
  if (Array.isArray(body['recipients']) && given.length === 0) {
    violations.push({ code: 'E_FIELD_MISSING', message: '"recipients" holds no address', pointer: '/recipients' });
  }
  if (given.length > limits.recipients) {
    const message = `There are ${given.length} recipients, at most ${limits.recipients} are allowed`;
    violations.push({ code: 'E_TOO_MANY_RECIPIENTS', message, pointer: '/recipients' });
  }
  return { reversePath, recipients, violations };
}

/** Octets that are converted before others get a turn. */
const sliceOctets = 65_536;

/**
 * Gives the message as SMTP would bring it (D46). A message without any CRLF is text whose lines end with LF: each LF becomes
 * CRLF. In a message with both, a bare LF stays as it is, and is refused in the header section (D11). A bare CR always stays.
 */
async function asSentBySmtp(octets: Buffer): Promise<Buffer> {
  if (octets.includes('\r\n') || !octets.includes('\n')) return octets;
  const pieces: Buffer[] = [];
  for (let start = 0; start < octets.length; start += sliceOctets) {
    if (start > 0) await yieldToEventLoop();
    const text = octets.toString('latin1', start, start + sliceOctets);
    pieces.push(Buffer.from(text.replaceAll('\n', '\r\n'), 'latin1'));
  }
  return pieces.length === 1 ? (pieces[0] ?? octets) : Buffer.concat(pieces);
}

/** Reads a request of `send_raw` as the message and envelope that SMTP would have brought (D46). */
export async function readSendRaw(document: JsonDocument, context: ReadContext): Promise<ReadRequest> {
  const ofSchema = await judge(judgeSendRaw, document.value);
  const body = isJsonObject(document.value) ? document.value : noFields;
  const { reversePath, recipients, violations } = readEnvelope(body, context);
  const octets = await asSentBySmtp(Buffer.from(stringOf(body['mime_message']) ?? ''));
  const { fields, body: bytes, tooLarge } = readMessage(octets);
  const { messageBytes } = context.limits;
  const message = `The message has ${octets.length} octets, at most ${messageBytes} are allowed`;
  const size: Violation[] = [];
  if (octets.length > messageBytes) size.push({ code: 'E_CONTENT_TOO_LARGE', message, pointer: '/mime_message' });
  const addresses = new Set(recipients.map(({ address }) => address));
  return {
    submission: {
      via: viaOf('raw', context),
      submitter: context.submitter,
      envelope: {
        reversePath,
        recipients: [...addresses],
        smtputf8: ![reversePath, ...addresses].every(isAscii),
        requireTls: false,
      },
      fields,
      ...(tooLarge ? { headerSectionTooLarge: true } : {}),
      observe: context.submitter.credential.observe,
      // A message that is too large is not looked into.
      body: { kind: 'mime', bytes: size.length > 0 ? noOctets : bytes },
      size: octets.length,
      ...(size.length > 0 ? {} : { octets }),
    },
    faults: [
      ...documentFaults(document),
      ...ofSchema,
      ...[...violations, ...(await suppressedOf(recipients, context)), ...size].map(faultOf),
    ],
    recipients: countOf(body['recipients']),
  };
}
