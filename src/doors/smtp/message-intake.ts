// Takes a complete message: makes it a Submission, hands it to the pipeline, and turns the result into a reply (D7, D41).

import { laterPeriod } from '../../accounts/observe-period.ts';
import { Unavailable } from '../../base/errors.ts';
import { parseAddressList } from '../../mail/address/address.ts';
import { readPath } from '../../mail/address/path.ts';
import type { HeaderField } from '../../mail/header/header-reader.ts';
import { readMessage } from '../../mail/header/header-reader.ts';
import { unfold } from '../../mail/header/header-text.ts';
import { type MimePart, walkMime } from '../../mail/mime/mime-walk.ts';
import type { JudgeCopy } from '../../pipeline/judge-copy.ts';
import type { ShadowCopy, Submission, Submit } from '../../pipeline/submit.ts';
import type { RefusalFacts } from '../../spool/events/refusal.ts';
import type { DialogueContext, DoorAccounts } from './dialogue-context.ts';
import { heardOf, senderViolation } from './mail-commands.ts';
import { type Answer, refusalReply, replies, tooLarge, unavailableReply, withLink } from './replies.ts';
import type { ReceivedMessage } from './smtp-session.ts';

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
async function copiedMessage(submission: Submission): Promise<Copied> {
  const copied = (await reportedMessage(submission)) ?? { message: {}, recipients: [] };
  if (copied.recipients.length > 0) return copied;
  const recipients = addressed(copied.message.fields ?? submission.fields);
  return { ...copied, recipients: recipients.length > 0 ? recipients : submission.envelope.recipients };
}

/** What the intake asks of its door. */
export type IntakeContext = Pick<
  DialogueContext,
  'listener' | 'limits' | 'log' | 'onRefused' | 'entryLink' | 'accounts'
>;

type Take = (message: ReceivedMessage) => Promise<Answer>;

/** Makes the function that judges and keeps one message and gives the reply to its final dot. */
export function createMessageIntake(context: IntakeContext, submit: Submit): Take {
  return intakeOf(context, async (submission) => {
    const result = await submit(submission);
    if (!result.accepted) return refusalReply(result.violations);
    return { code: 250, enhanced: '2.0.0', text: `Ok ${result.messageId}` };
  });
}

/** Makes the function of a shadow listener, which has a copy judged and keeps nothing to send (D4f). */
export function createShadowIntake(context: IntakeContext, judgeCopy: JudgeCopy): Take {
  return intakeOf(context, async (submission) => {
    await judgeCopy(await copyOf(submission, context.accounts));
    return { code: 250, enhanced: '2.0.0', text: 'Ok, judged; a shadow listener sends nothing' };
  });
}

/** The copy that a message is, of which a journal report of Exchange is only the wrapping. */
async function copyOf(submission: Submission, accounts: Pick<DoorAccounts, 'sendingDomain'>): Promise<ShadowCopy> {
  const { submitter, envelope } = submission;
  const copied = await copiedMessage(submission);
  const reversePath = copied.reversePath ?? envelope.reversePath;
  const violation = senderViolation(
    accounts,
    { account: submitter.account, senders: submission.senders ?? submitter.credential.senders },
    reversePath,
  );
  return {
    ...submission,
    ...copied.message,
    envelope: { ...envelope, reversePath, recipients: copied.recipients },
    shadow: true,
    ofDoor: violation ? [violation] : [],
  };
}

/** Makes what takes one message. It never rejects: an error is logged, and answered 451 4.3.0. @param settle judges and answers */
function intakeOf(context: IntakeContext, settle: (submission: Submission) => Promise<Answer>): Take {
  return async (message) => {
    const { data, client } = message;
    const { entryLink } = context;
    const journalId = entryLink?.newId();
    const linked = (answer: Answer): Answer => withLink(answer, entryLink, journalId);
    const entry = journalId === undefined ? {} : { journalId };
    if (data.oversize) {
      const { code, enhanced, text } = tooLarge(context.limits.messageBytes);
      const violations = [{ code: 'E_CONTENT_TOO_LARGE', message: text }];
      context.onRefused({ ...refusalFacts(message), ...entry, violations, reply: { code, enhanced } });
      return linked(tooLarge(context.limits.messageBytes, data.flooded));
    }
    if (data.noRoom) {
      const { code, enhanced, text: reason } = replies.noRoom;
      context.onRefused({ ...refusalFacts(message), ...entry, violations: [], reason, reply: { code, enhanced } });
      return linked(replies.noRoom);
    }
    try {
      const answer = await settle({ ...submissionOf(context, message), ...entry });
      return answer.code < 400 ? answer : linked(answer);
    } catch (error) {
      if (error instanceof Unavailable) {
        context.log.warn({ ...factsOf(context, message), reason: error.message }, 'put off');
        return unavailableReply(error);
      }
      context.log.error({ ...factsOf(context, message), err: error }, 'failed');
      return { ...replies.internalError, text: `Internal error, id ${client.sessionId}` };
    }
  };
}

function refusalFacts({ client, dialogue, data }: ReceivedMessage): Omit<RefusalFacts, 'violations'> {
  const { reversePath, recipients } = dialogue.envelope ?? {};
  const journal = heardOf(client);
  return { ...dialogue.refusalFacts, stage: 'message', senderPath: reversePath, recipients, size: data.size, journal };
}

function factsOf({ listener }: IntakeContext, { client, dialogue, data }: ReceivedMessage) {
  const { submitter, envelope } = dialogue;
  return {
    session: client.sessionId,
    listener: listener.name,
    client: client.address,
    helo: dialogue.helo,
    account: submitter?.account.name,
    credential: submitter?.credential.name,
    from: envelope?.reversePath,
    recipients: envelope?.recipients.length,
    size: data.size,
  };
}

function submissionOf({ listener }: IntakeContext, { client, dialogue, data }: ReceivedMessage): Submission {
  const { submitter, envelope, helo } = dialogue;
  if (!submitter || !envelope) throw new Error('A message came in without a submitter or an envelope');
  const octets = data.message();
  const { fields, body, tooLarge } = readMessage(octets);
  return {
    via: {
      kind: 'smtp',
      sessionId: client.sessionId,
      ...(helo === undefined ? {} : { helo }),
      remoteAddress: client.address,
      listener: listener.name,
      protocol: dialogue.protocol,
      legacyCharset: submitter.credential.legacyCharset ?? listener.legacyCharset,
      trustedHop: listener.trustedHop || submitter.credential.trustedHop,
      lineEndings: listener.lineEndings,
    },
    submitter,
    envelope,
    fields,
    ...(tooLarge ? { headerSectionTooLarge: true } : {}),
    observe: laterPeriod(listener.observe, submitter.credential.observe),
    senders: listener.senders,
    body: { kind: 'mime', bytes: body },
    size: data.size,
    octets,
    transcript: client.transcript?.ofTransaction(),
  };
}
