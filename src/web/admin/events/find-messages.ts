// Searches messages by what their events say (D53).

import { comparableMailbox } from '../../../mail/address/comparable-mailbox.ts';
import type { EventSearch, EventStore } from '../../../spool/events/event-store.ts';
import type { MailEvent } from '../../../spool/events/mail-event.ts';
import {
  type HistoryState,
  historyOf,
  kindsThatLeadTo,
  type MessageHistory,
} from '../../../spool/events/message-history.ts';

/** Which messages of an account are wanted; all that is named must hold. The newest come first. */
interface MessageQuery
  extends Pick<EventSearch, 'account' | 'limit' | 'cursor' | 'message' | 'recipient' | 'sender' | 'clientMessageId'> {
  /** With a recipient in this state; where a recipient is named too, that one. */
  readonly state?: HistoryState | undefined;
  /** Accepted from this time on, and before that one; milliseconds since 1970. */
  readonly since?: number | undefined;
  readonly until?: number | undefined;
}

/** Events that are read of one message at most. */
const eventsOfMessage = 2000;
/** Events that are read for one page of messages, after which it ends early. */
const eventsOfPage = 10_000;
const readAtOnce = 500;

/**
 * Reads what became of a message.
 * @param account name of the account; another's message is not found
 * @returns undefined where the store knows nothing of it; `isWhole` is false where it has more events than were read
 */
export async function readHistory(
  events: Pick<EventStore, 'read'>,
  { account, message }: { readonly account: string; readonly message: string },
): Promise<{ readonly history: MessageHistory; readonly isWhole: boolean; readonly events: number } | undefined> {
  const found: MailEvent[] = [];
  let isWhole = false;
  for (let after = 0; !isWhole && found.length < eventsOfMessage; ) {
    const page = await events.read({ after, limit: readAtOnce, account, message });
    for (const event of page.events) found.push(event);
    after = page.next;
    isWhole = !page.hasMore || page.events.length === 0;
  }
  const history = historyOf(message, found);
  return history && { history, isWhole, events: found.length };
}

/** Whether a message is one of those wanted; the index has seen to the rest. */
function isWanted(history: MessageHistory, { state, sender, recipient, since, until }: MessageQuery): boolean {
  const { accepted, recipients } = history;
  const at = accepted?.at ?? history.last.at;
  if (at < (since ?? Number.NEGATIVE_INFINITY) || at >= (until ?? Number.POSITIVE_INFINITY)) return false;
  if (sender !== undefined && comparableMailbox(accepted?.senderPath ?? '') !== comparableMailbox(sender)) return false;
  const wanted = recipient === undefined ? undefined : comparableMailbox(recipient);
  const fits = recipients.filter(({ address }) => wanted === undefined || comparableMailbox(address) === wanted);
  return fits.length > 0 && (state === undefined || fits.some((one) => one.state === state));
}

/** The search for the events that lead to the messages, each message by one of them. */
function leading(query: MessageQuery): EventSearch {
  const { account, limit, cursor, message, recipient, sender, clientMessageId, state, since, until } = query;
  const isNamed = [message, recipient, sender, clientMessageId].some((one) => one !== undefined);
  const byOutcome = state !== undefined && state !== 'queued' && !isNamed;
  return {
    ...{ account, limit, cursor, message, order: 'newest', since },
    kinds: byOutcome ? kindsThatLeadTo(state) : ['accepted'],
    // An outcome comes later than the acceptance, which the time is about.
    ...(byOutcome ? {} : { recipient, sender, clientMessageId, until }),
  };
}

/**
 * Finds messages. A page may hold few messages or none while more follow: what it reads is bounded.
 * @returns the messages with the `cursor` of the next page, which the last one has not
 * @param show makes of each message what the page keeps of it, so that its events need not stay in memory
 */
export async function findMessages<T>(
  events: Pick<EventStore, 'read' | 'search'>,
  query: MessageQuery,
  show: (history: MessageHistory) => T,
): Promise<{ readonly messages: readonly T[]; readonly next?: number | undefined }> {
  const search = leading(query);
  const page = await events.search(search);
  const messages: T[] = [];
  let read = 0;
  for (const event of page.events) {
    if (!('queueId' in event)) continue;
    const found = await readHistory(events, { account: query.account, message: event.queueId });
    if (!found) continue;
    read += found.events;
    const leads = found.history.recipients
      .flatMap((one) => one.events)
      .filter(({ kind }) => search.kinds?.includes(kind));
    // Of several events that lead to a message, the newest alone stands for it.
    const isNewest = event.kind === 'accepted' || leads.every(({ id }) => id <= event.id);
    if (isNewest && isWanted(found.history, query)) messages.push(show(found.history));
    if (read >= eventsOfPage && event !== page.events.at(-1)) return { messages, next: event.id };
  }
  return { messages, next: page.hasMore ? page.next : undefined };
}
