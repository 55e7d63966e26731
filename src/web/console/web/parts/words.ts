// What states are called, with the shape and the tone that go with the word. The word alone says everything; colour is added.

import type { EventKind } from '../../../../spool/events/mail-event.ts';
import type { IconName } from './icon.ts';

/** How a state is coloured. */
type Tone = 'good' | 'busy' | 'warn' | 'bad' | 'quiet';

/** A state for the reader. */
export interface StateWords {
  readonly word: string;
  readonly tone: Tone;
  readonly icon: IconName;
  /** A sentence that says what it means. */
  readonly meaning?: string | undefined;
}

function says(word: string, tone: Tone, icon: IconName, meaning?: string): StateWords {
  return { word, tone, icon, meaning };
}

/** What happened to mail, by the kind of the event, in the order in which a webhook's kinds are chosen. */
const kinds: Readonly<Record<EventKind, StateWords>> = {
  accepted: says('Accepted', 'busy', 'arrow', 'Safe on disk, on its way to the next hop'),
  refused: says('Refused', 'bad', 'box', 'It was not taken; nothing of it was sent'),
  shadowed: says('Judged', 'quiet', 'minus', 'A copy was judged; nothing was sent'),
  delivered: says('Delivered', 'good', 'check', 'The next hop has taken it'),
  deferred: says('Deferred', 'warn', 'clock', 'The next hop put it off; it is tried again'),
  failed: says('Failed', 'bad', 'warning', 'It could not be delivered and is not tried again'),
  bounced: says('Bounced', 'bad', 'warning', 'A later server sent it back'),
  complained: says('Complaint', 'bad', 'warning', 'The recipient called it unwanted'),
  suppressed: says('Suppressed', 'quiet', 'minus', 'The recipient is on the suppression list'),
  requeued: says('Tried again', 'busy', 'reload', 'Somebody had it tried at once'),
  dropped: says('Dropped', 'quiet', 'minus', 'Somebody took it out of the queue'),
  webhook_disabled: says('Webhook disabled', 'quiet', 'minus'),
};

/** The kinds of events that the form of a webhook offers. */
export const offeredKinds: readonly string[] = Object.keys(kinds).filter(
  (kind) => kind !== 'webhook_disabled' && kind !== 'shadowed',
);

const others: Readonly<Record<string, StateWords>> = {
  queued: says('Waiting', 'busy', 'arrow', 'Safe on disk, on its way to the next hop'),
  shadow_passed: says('Shadow: passes', 'good', 'check', 'A copy; it would be accepted'),
  shadow_refused: says('Shadow: refused', 'bad', 'box', 'A copy; it would be refused'),
  held: says('Held', 'quiet', 'pause', 'It waits until somebody releases it'),
  ok: says('In place', 'good', 'check'),
  missing: says('Missing', 'bad', 'box'),
  different: says('Different', 'warn', 'warning'),
  error: says('Not known', 'warn', 'warning'),
  active: says('Active', 'good', 'check'),
  enabled: says('On', 'good', 'check'),
  disabled: says('Off', 'quiet', 'minus'),
  pending: says('Pending', 'busy', 'clock'),
  expired: says('Expired', 'quiet', 'minus'),
  revoked: says('Revoked', 'quiet', 'minus'),
  up: says('Up', 'good', 'check'),
  idle: says('Idle', 'quiet', 'minus'),
  served: says('Served', 'good', 'check'),
  throttling: says('Slowed', 'warn', 'clock', 'The next hop asks for less mail at a time'),
  deferring: says('Putting off', 'warn', 'clock', 'The next hop puts off what it gets'),
  down: says('Down', 'bad', 'warning', 'The next hop cannot be reached'),
  pace: says('Paced', 'quiet', 'clock', 'It gets as many messages a second as the settings allow'),
  room: says('No room', 'warn', 'clock', 'The connections to all next hops together are used up'),
  share: says('Elsewhere', 'quiet', 'clock', 'Other processes have the connections to the next hop'),
  memory: says('Loading', 'quiet', 'clock', 'The messages are read from the spool, as far as there is memory for them'),
  unrecorded: says('Stopped', 'bad', 'warning', 'The spool cannot record what becomes of messages'),
  pass: says('Valid', 'good', 'check'),
  fail: says('Not valid', 'bad', 'box'),
  none: says('None', 'quiet', 'minus'),
  neutral: says('Not verified', 'warn', 'warning'),
  policy: says('Not accepted', 'warn', 'warning'),
  temperror: says('Not known now', 'warn', 'clock'),
  permerror: says('Faulty', 'bad', 'warning'),
  delivery: says('Done', 'good', 'check'),
};

const verdicts: Readonly<Record<string, StateWords>> = {
  kept: says('Kept', 'good', 'check', 'It leaves as it came'),
  lifted: says('Lifted', 'good', 'arrow', 'It becomes a field of the message itself'),
  read: says('Read', 'good', 'arrow', 'It describes the body and stays as it is'),
  replaced: says('Replaced', 'busy', 'reload', 'Postern writes its own'),
  stripped: says('Removed', 'warn', 'minus', 'The configuration takes it out'),
  added: says('Added', 'busy', 'plus', 'Postern adds it'),
  refused: says('Refused', 'bad', 'box', 'The whole message is refused for it'),
};

function lookUp(table: Readonly<Record<string, StateWords>>, key: string): StateWords | undefined {
  return Object.hasOwn(table, key) ? table[key] : undefined;
}

/** What a state is called. One that is not known is told by its own word. */
export function stateWords(state: string): StateWords {
  const known = lookUp(kinds, state) ?? lookUp(others, state);
  const word = state === '' ? 'unknown' : state.replaceAll('_', ' ');
  return known ?? { word: `${word[0]?.toUpperCase()}${word.slice(1)}`, tone: 'quiet', icon: 'minus' };
}

/** What the verdict about a header field is called. */
export function verdictWords(verdict: string): StateWords {
  return lookUp(verdicts, verdict) ?? stateWords(verdict);
}

/** What became of a message, or would have become of a copy that came to a shadow listener. */
export function outcomeOf({ outcome, shadow }: { readonly outcome: string; readonly shadow?: boolean }): string {
  if (!shadow) return outcome;
  return outcome === 'refused' ? 'shadow_refused' : 'shadow_passed';
}

/** The outcomes that messages can be filtered by, in the order of the choice. */
export const outcomeChoices = ['refused', 'accepted', 'delivered', 'deferred', 'failed', 'dropped'] as const;
