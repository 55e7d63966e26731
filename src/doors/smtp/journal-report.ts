// Finds out what a copy is a copy of (D4f): the message itself, or, in a journal report of Exchange, the message within it. Whom
// the message went to is not in the envelope of a blind copy, which names the mailbox of copies.

import { parseAddressList } from '../../mail/address/address.ts';
import { readPath } from '../../mail/address/path.ts';
import type { HeaderField } from '../../mail/header/header-field.ts';
import { readMessage } from '../../mail/header/header-reader.ts';
import { unfold } from '../../mail/header/header-text.ts';
import { type MimePart, walkMime } from '../../mail/mime/mime-walk.ts';
import type { Submission } from '../../pipeline/submit.ts';

/** What a copy stands for. */
interface Copied {
  /** Members of the submission that are others for the message within a report; none where there is no report. */
  readonly message: Partial<Pick<Submission, 'fields' | 'body' | 'size' | 'octets' | 'headerSectionTooLarge'>>;
  readonly reversePath?: string;
  readonly recipients: readonly string[];
}

const mostRecipients = 1000;
/** Octets of a report's own text that are read, and of a field with addresses. */
const mostOctets = 65_536;

function textOf(fields: readonly HeaderField[], name: string): string | undefined {
  const found = fields.find((field) => field.name.toLowerCase() === name);
  return found && unfold(found.rawBytes.subarray(0, mostOctets).toString()).trim();
}

/** The addresses of To, Cc and Bcc, each once. */
function addressed(fields: readonly HeaderField[]): readonly string[] {
  const found = new Set<string>();
  for (const name of ['to', 'cc', 'bcc']) {
    const list = parseAddressList(textOf(fields, name) ?? '');
    if (!list.ok) continue;
    for (const entry of list.addresses)
      for (const mailbox of entry.kind === 'group' ? entry.members : [entry])
        found.add(mailbox.domain === undefined ? mailbox.localPart : `${mailbox.localPart}@${mailbox.domain}`);
  }
  return [...found].slice(0, mostRecipients);
}

/** An address of a report as MAIL and RCPT would have it, its domain an A-label in lower case; where it is no path, as it stands there. */
function asInPath(address: string): string {
  return readPath(address, 0)?.mailbox ?? address;
}

/** The lines `Sender:`, `Recipient:`, `To:`, `Cc:` and `Bcc:` of a report's text. */
function ofReport(text: string): Pick<Copied, 'reversePath' | 'recipients'> {
  const [, sender] = /^Sender:[ \t]*<?([^\s<>,]+)>?[ \t]*$/im.exec(text) ?? [];
  const recipients = [...text.matchAll(/^(?:Recipient|To|Cc|Bcc):[ \t]*<?([^\s<>,]+@[^\s<>,]+)>?/gim)].map(
    ([, address = '']) => asInPath(address),
  );
  const some = [...new Set(recipients)].slice(0, mostRecipients);
  return { ...(sender === undefined ? {} : { reversePath: asInPath(sender) }), recipients: some };
}

function isType({ contentType }: MimePart, type: string): boolean {
  return `${contentType.type}/${contentType.subtype}` === type;
}

/** Takes a journal report apart; undefined where a message is none. */
async function reportedMessage({ fields, body }: Submission): Promise<Copied | undefined> {
  const contentType = textOf(fields, 'content-type');
  if (body.kind !== 'mime' || contentType === undefined || textOf(fields, 'x-ms-journal-report') === undefined)
    return undefined;
  const { root } = await walkMime(body.bytes, { contentType });
  const original = root.children.find((part) => isType(part, 'message/rfc822') && part.closed === undefined);
  const own = root.children.find((part) => isType(part, 'text/plain'));
  if (!original) return undefined;
  const octets = body.bytes.subarray(original.start, original.end);
  const { fields: inner, body: bytes, tooLarge } = readMessage(octets);
  const text = own ? body.bytes.subarray(own.start, Math.min(own.end, own.start + mostOctets)).toString() : '';
  return {
    message: {
      ...{ fields: inner, body: { kind: 'mime', bytes }, size: octets.length, octets },
      ...(tooLarge ? { headerSectionTooLarge: true } : {}),
    },
    ...ofReport(text),
  };
}

/** What a copy is a copy of: its recipients are those of Exchange's report, else of To, Cc and Bcc, else of the envelope. */
export async function copiedMessage(submission: Submission): Promise<Copied> {
  const copied = (await reportedMessage(submission)) ?? { message: {}, recipients: [] };
  if (copied.recipients.length > 0) return copied;
  const recipients = addressed(copied.message.fields ?? submission.fields);
  return { ...copied, recipients: recipients.length > 0 ? recipients : submission.envelope.recipients };
}
