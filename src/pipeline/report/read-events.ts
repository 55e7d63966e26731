// Makes the report of what the gateway judged. It reads the stored events by cursor, a page at a time.

import type { EventStore } from '../../spool/events/event-store.ts';
import { type AcceptedEvent, type EventViolation, type MailEvent, wouldPass } from '../../spool/events/mail-event.ts';
import type { RejectionCode } from '../policy/rejections.ts';
import { Findings } from './findings.ts';

/** Which events are read, and the configuration that the report needs beside them. */
export interface EventsQuery {
  /** Milliseconds since 1970. */
  readonly since: number;
  /** Name of an account; undefined: of all. */
  readonly account?: string | undefined;
  readonly credential?: string | undefined;
  /** Whether only copies that came to shadow listeners are read, or only what did not; absent: both, the copies with a mark. */
  readonly shadow?: boolean | undefined;
  /** The sending domains of an account, A-labels, the one to complete addresses with first. */
  readonly sendingDomains: (account: string, credential: string) => readonly string[];
  /** How many events are read at most: the newest; absent: all. */
  readonly most?: number | undefined;
  /** Until when the messages of each reason are counted in parts of the time, milliseconds since 1970; absent: they are not. */
  readonly countUntil?: number;
  /** Called after each page with the number of events read and the number of all. */
  readonly onProgress?: (done: number, all: number) => void;
}

const pageEvents = 1000;
/** How much older than the events before it an event may be, in milliseconds, because events share commits. */
const disorderMs = 600_000;

/** An id before which there is no event since the time. A binary search finds it, because ids grow with time. */
async function startOf(events: Pick<EventStore, 'read'>, since: number, newest: number): Promise<number> {
  let [low, high] = [0, newest];
  while (high - low > pageEvents) {
    const middle = Math.floor((low + high) / 2);
    const { events: found } = await events.read({ after: middle, limit: 1 });
    const event = found[0];
    if (event && event.at < since - disorderMs) low = middle;
    else high = middle;
  }
  return low;
}

const verdictKinds = ['accepted', 'refused', 'shadowed'] as const;

type VerdictEvent = Extract<MailEvent, { readonly kind: (typeof verdictKinds)[number] }>;

function isVerdict(event: MailEvent): event is VerdictEvent {
  return verdictKinds.some((kind) => kind === event.kind);
}

/** How reports name the program of a message: by its mark, else by its HELO, else by the door that it came to. */
export function mailerName({
  helo,
  via,
  mailer,
}: Pick<VerdictEvent, 'helo' | 'mailer'> & { readonly via?: string | undefined }): string {
  return mailer ?? (helo === undefined ? `without a mark, by ${via ?? 'smtp'}` : `HELO ${helo}`);
}

/** Codes about all headers together: those removed for one of them share one reason. */
const overallCodes: ReadonlySet<string> = new Set<RejectionCode>(['E_HEADERS_TOO_MANY', 'E_HEADERS_TOO_LARGE']);

/** The removed headers as the reasons for which they would have been refused, one for each name and code. */
function observedReasons({ observed = [] }: AcceptedEvent): readonly EventViolation[] {
  const reasons = observed.map(({ field, code, message: words }): [string, EventViolation] => {
    const message = words ?? `${field} was removed while the policy is observed`;
    if (words !== undefined && overallCodes.has(code)) return [code, { code, message }];
    return [`${code} ${field.toLowerCase()}`, { code, field, message }];
  });
  return [...new Map(reasons).values()];
}

function reasonsOf(event: VerdictEvent): readonly EventViolation[] {
  if (event.kind === 'accepted') return observedReasons(event);
  const { violations, reason, reply } = event;
  if (violations.length > 0 || reason === undefined) return violations;
  return [{ code: String(reply?.code ?? ''), message: reason }];
}

/** Reads what was judged since a time, up to the event that is the newest now, a page at a time. Rejects where the store fails. */
export async function findingsOfEvents(events: Pick<EventStore, 'read' | 'newest'>, query: EventsQuery) {
  const { since, account, shadow, countUntil: to, sendingDomains, onProgress } = query;
  const kinds = verdictKinds.filter((kind) => shadow === undefined || (kind === 'shadowed') === shadow);
  const findings = new Findings(to === undefined ? undefined : { from: since, to });
  const newest = await events.newest();
  const start = Math.max(await startOf(events, since, newest), newest - (query.most ?? newest));
  for (let after = start; after < newest; ) {
    const page = await events.read({ after, limit: pageEvents, kinds, account });
    for (const event of page.events) {
      const credential = event.credential ?? '';
      if (event.at < since || !isVerdict(event)) continue;
      if (query.credential !== undefined && credential !== query.credential) continue;
      const mailer = mailerName(event);
      findings.add({
        account: event.account,
        credential,
        mailer: event.kind === 'shadowed' ? `${mailer} (shadow)` : mailer,
        at: event.at,
        id: event.kind === 'accepted' ? event.queueId : event.journalId,
        accepted: event.kind === 'accepted' || (event.kind === 'shadowed' && wouldPass(event)),
        isRecipient: event.kind !== 'accepted' && event.stage === 'recipient',
        reasons: reasonsOf(event),
        facts: { mailer, senderPath: event.senderPath, sendingDomains: sendingDomains(event.account, credential) },
      });
    }
    onProgress?.(Math.min(page.next, newest) - start, newest - start);
    if (!page.hasMore) break;
    after = page.next;
  }
  return findings;
}
