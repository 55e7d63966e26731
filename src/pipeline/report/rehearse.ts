// Judges each message of an archive as the gateway would. Nothing is sent.

import type { Submitter } from '../../accounts/account.ts';
import { cutText, eventBounds } from '../../spool/events/event-bounds.ts';
import type { EventViolation } from '../../spool/events/mail-event.ts';
import { mailerOf } from '../../spool/events/refusal.ts';
import { type BuildParts, examine, type Submission, type Violation } from '../submit.ts';
import type { ArchivedMessage } from './archive/archived-message.ts';
import { charsetHint } from './cure.ts';
import type { Finding } from './findings.ts';

/** A message as `check` judges it: by SMTP, for a credential, without a client. */
interface OfflineMessage extends Pick<ArchivedMessage, 'fields' | 'tooLarge' | 'body' | 'size'> {
  readonly reversePath: string;
  readonly recipients: readonly string[];
}

/** Makes the submission that a message would be, handed over by SMTP with the settings of a credential. */
export function offlineSubmission(message: OfflineMessage, submitter: Submitter, sessionId: string): Submission {
  const { fields, tooLarge, body, size, reversePath, recipients } = message;
  const { credential } = submitter;
  return {
    via: {
      kind: 'smtp',
      sessionId,
      helo: 'check.invalid',
      protocol: 'ESMTPSA',
      legacyCharset: credential.legacyCharset ?? 'windows-1252',
      trustedHop: credential.trustedHop,
      lineEndings: 'fix',
    },
    submitter,
    envelope: { reversePath, recipients, smtputf8: false, requireTls: false },
    fields,
    ...(tooLarge ? { headerSectionTooLarge: true } : {}),
    body: { kind: 'mime', bytes: body },
    size,
  };
}

/** The submitter and the settings with which messages of an archive are judged. */
export interface RehearsalParts extends Pick<BuildParts, 'sendingDomain'> {
  readonly submitter: Submitter;
  /** The reverse-path to assume where the archive does not tell it; '' is null. */
  readonly reversePath: string;
  readonly recipients: readonly string[];
  /** The limit of a message, octets (D42). */
  readonly messageBytes: number;
}

/** The mark of a message on which no field names its program. */
const unmarked = 'without a mark';

/** Completes a reverse-path without a domain, as SMTP does at MAIL (D4b). */
function completed(path: string, { credential }: Submitter): string {
  return path === '' || path.includes('@') || credential.defaultDomain === undefined
    ? path
    : `${path}@${credential.defaultDomain}`;
}

function charsetHints({ charset }: ArchivedMessage, { credential }: Submitter): readonly EventViolation[] {
  const present = credential.legacyCharset?.toLowerCase() ?? 'windows-1252';
  if (charset === undefined || charset === present) return [];
  return [{ code: charsetHint, message: `The raw 8-bit text of the header is ${charset}, and is read as ${present}` }];
}

function reasonOf({ code, name, message }: Violation): EventViolation {
  const field = name === undefined ? {} : { field: cutText(name, eventBounds.fieldName) };
  return { code, message: cutText(message, eventBounds.violationMessage), ...field };
}

/** Judges one message of an archive. It rejects only on an internal error. */
export async function rehearse(message: ArchivedMessage, parts: RehearsalParts): Promise<Finding> {
  const { submitter, recipients, messageBytes } = parts;
  const { fields } = message;
  const reversePath = completed(message.senderPath ?? parts.reversePath, submitter);
  const submission = offlineSubmission({ ...message, reversePath, recipients }, submitter, 'check');
  const { violations } = await examine(submission, parts);
  const limit = `The message has ${message.size} octets, at most ${messageBytes} are allowed`;
  const reasons = [
    ...(message.size > messageBytes ? [{ code: 'E_CONTENT_TOO_LARGE', message: limit }] : []),
    ...violations.slice(0, eventBounds.violations).map(reasonOf),
  ];
  const mailer = mailerOf(fields);
  return {
    account: submitter.account.name,
    credential: submitter.credential.name,
    mailer: mailer ?? unmarked,
    at: message.date,
    id: message.name,
    reasons,
    accepted: reasons.length === 0,
    hints: charsetHints(message, submitter),
    facts: {
      mailer,
      senderPath: reversePath,
      sendingDomains: submitter.account.sendingDomains.map(({ name }) => name),
      fieldNames: fields.map(({ name }) => name),
      charset: message.charset,
    },
  };
}
