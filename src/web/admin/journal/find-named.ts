// Finds rows of the journal by what names one message: its id, the Message-ID that it left with, or the client's own.

import { bareId } from '../../../mail/message-ids.ts';
import type { EventStore } from '../../../spool/events/event-store.ts';
import type { Journal, JournalItem, JournalQuery } from '../../../spool/journal/journal.ts';
import { queueIdOf } from '../events/message-id.ts';

/** What a name is looked up in. */
export interface NamedParts {
  readonly journal: Pick<Journal, 'rows'>;
  readonly events: Pick<EventStore, 'search'>;
}

/** Messages with one Message-ID of the client's that are looked for. */
const mostNamed = 20;

function isId(text: string): boolean {
  return /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/.test(text);
}

/** Whether a row that is known by its id is one of those that a query wants, but for its words. */
function fits({ account, outcome, at, facts }: JournalItem, wanted: JournalQuery): boolean {
  if (wanted.account !== undefined && account !== wanted.account) return false;
  if (wanted.outcome !== undefined && outcome !== wanted.outcome) return false;
  if (wanted.credential !== undefined && facts.credential !== wanted.credential) return false;
  if (wanted.client !== undefined && facts.client !== wanted.client) return false;
  if (wanted.code !== undefined && facts.codes?.includes(wanted.code) !== true) return false;
  const field = wanted.field?.toLowerCase();
  if (field !== undefined && facts.fields?.some((name) => name.toLowerCase() === field) !== true) return false;
  return at >= (wanted.since ?? Number.NEGATIVE_INFINITY) && at < (wanted.until ?? Number.POSITIVE_INFINITY);
}

/**
 * Finds the rows whose message the text of a query names, newest first; none where it names no message.
 * The client's own Message-ID is looked for within an account alone.
 */
export async function findNamed({ journal, events }: NamedParts, query: JournalQuery): Promise<readonly JournalItem[]> {
  const name = bareId(query.text ?? '');
  const own = queueIdOf(name);
  const ids = new Set(isId(own) ? [own] : []);
  if (name.includes('@') && query.account !== undefined) {
    const search = { account: query.account, limit: mostNamed, order: 'newest', kinds: ['accepted'] } as const;
    const page = await events.search({ ...search, clientMessageId: name });
    for (const event of page.events) if (event.kind === 'accepted') ids.add(event.queueId);
  }
  if (ids.size === 0) return [];
  const found = await journal.rows([...ids]);
  return found.filter((item) => fits(item, query)).toSorted((one, other) => other.seq - one.seq);
}
