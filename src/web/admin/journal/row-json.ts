// A row of the journal as the API shows it.

import { bareId } from '../../../mail/message-ids.ts';
import type { JournalItem } from '../../../spool/journal/journal.ts';
import { isoTime } from '../schemas.ts';

/** Shows a row. */
export function rowJson({ id, at, account, outcome, facts, isDamaged = false }: JournalItem) {
  return {
    id,
    at: isoTime(at),
    account,
    credential: facts.credential ?? null,
    outcome,
    via: facts.via ?? null,
    client: facts.client ?? null,
    helo: facts.helo ?? null,
    mailer: facts.mailer ?? null,
    sender: facts.sender ?? null,
    recipients: facts.recipients,
    recipient_count: facts.count,
    subject: facts.subject ?? null,
    size: facts.size ?? null,
    codes: facts.codes ?? [],
    fields: facts.fields ?? [],
    shadow: facts.shadow === true,
    damaged: isDamaged,
    message_id: facts.messageId === undefined ? null : bareId(facts.messageId),
  };
}
