// POST .../journal/{id}/resend: makes a new message of one that came before, through the pipeline like any other.

import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { type Account, type Credential, hasScope, type Submitter } from '../../../accounts/account.ts';
import { type ReadMessage, readMessage } from '../../../mail/header/header-reader.ts';
import { bareId } from '../../../mail/message-ids.ts';
import { findHeader } from '../../../pipeline/policy/header-catalogue.ts';
import type { Submission, Submit } from '../../../pipeline/submit.ts';
import type { EventStore } from '../../../spool/events/event-store.ts';
import type { Journal, JournalEntry } from '../../../spool/journal/journal.ts';
import type { JournalContent } from '../../../spool/journal/journal-row.ts';
import { endpoint, endpointsOf } from '../../http/endpoint.ts';
import { Refusal, refusal } from '../../http/envelope.ts';
import type { V4Plugin } from '../../http/v4-app.ts';
import { readHistory } from '../events/message-endpoints.ts';
import { entryNamed } from './journal-endpoints.ts';
import { entryPath } from './schemas.ts';

interface ResendParts {
  readonly journal: Pick<Journal, 'find' | 'content'>;
  /** `journal.enabled`. */
  readonly isOn: boolean;
  readonly events: Pick<EventStore, 'read'>;
  readonly submit: Submit;
  /** Whether an account does not send to a recipient (D51). */
  readonly suppressed: (account: Account, recipient: string) => boolean | Promise<boolean>;
}

function invalid(message: string): Refusal {
  return refusal('E_VALIDATION_ERROR', message);
}

function isPlatforms(name: string): boolean {
  const handling = findHeader(name.toLowerCase())?.overSmtp;
  return handling === 'refused' || handling === 'trace';
}

/** The message to submit: as it came; one that came as the fields of a request, as it left without what the platform wrote. */
function messageOf(
  content: JournalContent | undefined,
  { facts }: JournalEntry,
): ReadMessage & { readonly octets?: Buffer } {
  const { receivedHead, receivedBody, sentHead, sentBody } = content ?? {};
  if (facts.via !== 'rest' && receivedHead && receivedBody) {
    const octets = Buffer.concat([receivedHead, receivedBody]);
    return { ...readMessage(octets), octets };
  }
  if (facts.via === 'rest' && sentHead && sentBody) {
    const read = readMessage(Buffer.concat([sentHead, sentBody]));
    return { ...read, fields: read.fields.filter(({ name }) => !isPlatforms(name)) };
  }
  throw invalid('Its body is not kept, so it cannot be sent again');
}

/** All recipients of a message, as far as they are known. @throws Refusal where some are not */
async function recipientsOf({ events }: ResendParts, entry: JournalEntry): Promise<readonly string[]> {
  const { facts, id, account } = entry;
  if (facts.recipients.length === facts.count) return facts.recipients;
  const found = entry.outcome === 'refused' ? undefined : await readHistory(events, { account, message: id });
  const known = found?.history.accepted?.recipients ?? [];
  if (known.length === facts.count) return known;
  throw invalid(`It had ${facts.count} recipients, and not all of them are kept`);
}

/** Whether the client asked for REQUIRETLS (RFC 8689 §2), by the session's line of MAIL, which is always kept. */
function wasTlsRequired({ more }: JournalEntry): boolean {
  return /^C \d+ MAIL .* REQUIRETLS(?: |$)/im.test(more.dialogue ?? '');
}

/** The credential that a message is sent by: its own, or that of the caller where its own is gone. @throws Refusal */
function credentialOf(account: Account, { facts }: JournalEntry, caller: Credential): Credential {
  const credential = account.credentials.get(facts.credential ?? '') ?? caller;
  if (hasScope(credential, 'email:send')) return credential;
  throw refusal('E_FORBIDDEN', `Credential ${credential.name} lacks the scope email:send`);
}

function submissionOf(
  message: ReturnType<typeof messageOf>,
  entry: JournalEntry,
  about: { readonly submitter: Submitter; readonly recipients: readonly string[]; readonly request: FastifyRequest },
): Submission {
  const { submitter, recipients, request } = about;
  const { legacyCharset, trustedHop, observe } = submitter.credential;
  const sender = entry.facts.sender ?? '';
  const { fields, body, tooLarge, octets } = message;
  return {
    via: {
      ...{ kind: 'raw', sessionId: request.id, remoteAddress: request.ip, protocol: 'HTTP' },
      ...{ legacyCharset: legacyCharset ?? 'windows-1252', trustedHop, lineEndings: 'fix' },
    },
    submitter,
    envelope: {
      reversePath: sender,
      recipients,
      smtputf8: [sender, ...recipients].some((one) => /[^\x00-\x7f]/.test(one)),
      requireTls: wasTlsRequired(entry),
    },
    fields,
    ...(tooLarge ? { headerSectionTooLarge: true } : {}),
    body: { kind: 'mime', bytes: body },
    size: (octets ?? body).length,
    ...(octets ? { octets } : {}),
    observe,
  };
}

const resend = endpoint({
  at: 'POST',
  operationId: 'resendMessage',
  summary: 'Send a message once more, as a new one, to the same recipients',
  description: 'It is judged as it would be now, by the credential that it came with.',
  params: entryPath,
  result: Type.Object({ id: Type.String(), message_id: Type.String() }),
  async answer({ account, credential, params, request }, parts: ResendParts) {
    const entry = await entryNamed(parts, params.id, account.name);
    if (entry.isDamaged === true) throw invalid('What the database has of it is damaged');
    // D4f: what came to a shadow listener has been sent already, by the server that it is a copy of.
    if (entry.facts.shadow) throw invalid('It is a copy that came to a shadow listener, and is never sent');
    const message = messageOf(await parts.journal.content(entry.seq), entry);
    const recipients = await recipientsOf(parts, entry);
    if (recipients.length === 0) throw invalid('It had no recipient');
    for (const recipient of recipients) {
      if (!(await parts.suppressed(account, recipient))) continue;
      const text = `${recipient} is on the suppression list of account ${account.name}`;
      throw refusal('E_RECIPIENT_SUPPRESSED', text);
    }
    const own = credentialOf(account, entry, credential);
    const about = { submitter: { account, credential: own }, recipients, request };
    const result = await parts.submit(submissionOf(message, entry, about));
    if (!result.accepted) {
      const faults = result.violations.map(({ code, message }) => ({ token: code, message }));
      throw new Refusal(faults, result.violations[0]?.retryAfterSeconds);
    }
    return { id: result.id, message_id: bareId(result.messageId) };
  },
});

/** The endpoint. */
export function resendEndpoint(parts: ResendParts): V4Plugin {
  const path = '/accounts/:account_id/email/sending/journal/:id/resend';
  return endpointsOf({ path, tag: 'Journal', reads: 'console:read', edits: 'console:edit' }, parts, [resend]);
}
