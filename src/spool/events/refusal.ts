// Every refusal goes through here: whoever refuses hands in the facts, and the event is made and cut to its bounds.

import type { HeaderField } from '../../mail/header/header-reader.ts';
import type { JournalDetails } from '../journal/journal-row.ts';
import { cutText, eventBounds, firstAddresses, reasonWithoutQuotes } from './event-bounds.ts';
import type { EventViolation, RefusedEvent, ShadowedEvent } from './mail-event.ts';

/** Why something was refused: a violation of the policy, or a fault that a door found. */
export interface RefusalReason {
  readonly code: string;
  readonly message: string;
  /** Name of the header. */
  readonly name?: string | undefined;
  /** JSON pointer. */
  readonly pointer?: string | undefined;
}

/** A refusal as its door knows it; the store adds the time. */
export interface RefusalFacts
  extends Omit<RefusedEvent, 'kind' | 'at' | 'violations' | 'violationCount' | 'recipients' | 'recipientCount'> {
  /** Every reason; may be empty where `reason` says why, and is where a copy is in order. */
  readonly violations: readonly RefusalReason[];
  /** It is the verdict on a copy that came to a shadow listener, and refuses nothing (D4f). */
  readonly shadow?: true;
  /** The recipients named by then. */
  readonly recipients?: readonly string[] | undefined;
  /** What the journal keeps beside the event; its id is `journalId`, which the store makes where it is absent. */
  readonly journal?: JournalDetails | undefined;
}

/** A refusal that is to be written. */
export interface WrittenRefusal {
  readonly event: RefusedEvent | ShadowedEvent;
  readonly journal: JournalDetails | undefined;
}

/** Reports a refusal, or the verdict on a copy: to the log and the metrics at once, to the store soon after. It never throws and never waits. */
export type Refuse = (refusal: RefusalFacts) => void;

function violationOf({ code, message, name, pointer }: RefusalReason): EventViolation {
  return {
    code: cutText(code, eventBounds.fieldName),
    message: cutText(message, eventBounds.violationMessage),
    ...(name === undefined ? {} : { field: cutText(name, eventBounds.fieldName) }),
    ...(pointer === undefined ? {} : { pointer: cutText(pointer, eventBounds.pointer) }),
  };
}

/** Makes the event of a refusal, or of the verdict on a copy. @param at milliseconds since 1970 */
export function refusedEvent(refusal: RefusalFacts, at: number): RefusedEvent | ShadowedEvent {
  const { violations, recipients, helo, senderPath, journal, shadow, ...rest } = refusal;
  const first = violations.slice(0, eventBounds.violations);
  const isKept = rest.stage !== 'message' || (journal?.content ?? 'none') !== 'none';
  const reasons = isKept ? first : first.map(reasonWithoutQuotes);
  return {
    ...(shadow ? { kind: 'shadowed', shadow } : { kind: 'refused' }),
    at,
    ...rest,
    helo: helo === undefined ? undefined : cutText(helo, eventBounds.name),
    senderPath: senderPath === undefined ? undefined : cutText(senderPath, eventBounds.name),
    recipients: recipients ? firstAddresses(recipients, eventBounds.refusedRecipients) : [],
    recipientCount: recipients?.length,
    violations: reasons.map(violationOf),
    violationCount: violations.length,
  };
}

/** The longest mark, in octets. */
const MAX_MAILER_OCTETS = 200;

/** Fields in which programs name themselves (lower case), the most informative first, with the spelling to show. */
const namingFields: ReadonlyMap<string, string> = new Map([
  ['user-agent', 'User-Agent'],
  ['x-mailer', 'X-Mailer'],
  ['x-php-originating-script', 'X-PHP-Originating-Script'],
  ['x-cron-env', 'X-Cron-Env'],
]);
const rank = new Map([...namingFields.keys()].map((key, at) => [key, at]));

/** Octets of a value that are examined: blanks and folds beyond the kept text are few. */
const lookedAt = MAX_MAILER_OCTETS * 2;

function printed({ rawBytes }: HeaderField): string {
  const text = rawBytes.toString('latin1', 0, lookedAt).replace(/[\t\r\n ]+/g, ' ');
  return text.trim().replace(/[^\x20-\x7e]/g, '?');
}

/**
 * Gives the mark of a message's program: `User-Agent: s-nail v14.9.24`. Among several such fields User-Agent wins over
 * X-Mailer, and both over what PHP and cron add. Of X-Cron-Env only the name is kept, because its value may be a secret of
 * the environment.
 * @returns printable ASCII of at most 200 octets; undefined where no field names a program
 */
export function mailerOf(fields: readonly HeaderField[]): string | undefined {
  let found: HeaderField | undefined;
  let best = Number.POSITIVE_INFINITY;
  for (const field of fields) {
    const at = rank.get(field.name.toLowerCase()) ?? Number.POSITIVE_INFINITY;
    if (at >= best) continue;
    best = at;
    found = field;
  }
  if (!found) return undefined;
  const key = found.name.toLowerCase();
  const name = namingFields.get(key) ?? key;
  if (key === 'x-cron-env') return name;
  return `${name}: ${printed(found)}`.slice(0, MAX_MAILER_OCTETS).trimEnd();
}
