// What states are called, with the shape and the tone that go with the word. The word alone says everything; colour is added.

import type { EventKind } from '../../../../spool/events/mail-event.ts';
import type { IconName } from './icon.ts';

/** How a state is coloured. */
export type Tone = 'good' | 'busy' | 'warn' | 'bad' | 'quiet';

/** A state for the reader. */
export interface StateWords {
  readonly word: string;
  readonly tone: Tone;
  readonly icon: IconName;
  /** A sentence that says what it means. */
  readonly meaning?: string;
}

/** What happened to mail, by the kind of the event, in the order in which a webhook's kinds are chosen. */
const kinds: Readonly<Record<EventKind, StateWords>> = {
  accepted: { word: 'Accepted', tone: 'busy', icon: 'arrow', meaning: 'Safe on disk, on its way to the next hop' },
  refused: { word: 'Refused', tone: 'bad', icon: 'box', meaning: 'It was not taken; nothing of it was sent' },
  shadowed: { word: 'Judged', tone: 'quiet', icon: 'minus', meaning: 'A copy was judged; nothing was sent' },
  delivered: { word: 'Delivered', tone: 'good', icon: 'check', meaning: 'The next hop has taken it' },
  deferred: { word: 'Deferred', tone: 'warn', icon: 'clock', meaning: 'The next hop put it off; it is tried again' },
  failed: { word: 'Failed', tone: 'bad', icon: 'warning', meaning: 'It could not be delivered and is not tried again' },
  bounced: { word: 'Bounced', tone: 'bad', icon: 'warning', meaning: 'A later server sent it back' },
  complained: { word: 'Complaint', tone: 'bad', icon: 'warning', meaning: 'The recipient called it unwanted' },
  suppressed: { word: 'Suppressed', tone: 'quiet', icon: 'minus', meaning: 'The recipient is on the suppression list' },
  requeued: { word: 'Tried again', tone: 'busy', icon: 'reload', meaning: 'Somebody had it tried at once' },
  dropped: { word: 'Dropped', tone: 'quiet', icon: 'minus', meaning: 'Somebody took it out of the queue' },
  webhook_disabled: { word: 'Webhook disabled', tone: 'quiet', icon: 'minus' },
};

/** The kinds of events that the form of a webhook offers. */
export const offeredKinds: readonly string[] = Object.keys(kinds).filter(
  (kind) => kind !== 'webhook_disabled' && kind !== 'shadowed',
);

const others: Readonly<Record<string, StateWords>> = {
  queued: { word: 'Waiting', tone: 'busy', icon: 'arrow', meaning: 'Safe on disk, on its way to the next hop' },
  shadow_passed: { word: 'Shadow: passes', tone: 'good', icon: 'check', meaning: 'A copy; it would be accepted' },
  shadow_refused: { word: 'Shadow: refused', tone: 'bad', icon: 'box', meaning: 'A copy; it would be refused' },
  held: { word: 'Held', tone: 'quiet', icon: 'pause', meaning: 'It waits until somebody releases it' },
  ok: { word: 'In place', tone: 'good', icon: 'check' },
  missing: { word: 'Missing', tone: 'bad', icon: 'box' },
  different: { word: 'Different', tone: 'warn', icon: 'warning' },
  error: { word: 'Not known', tone: 'warn', icon: 'warning' },
  active: { word: 'Active', tone: 'good', icon: 'check' },
  enabled: { word: 'On', tone: 'good', icon: 'check' },
  disabled: { word: 'Off', tone: 'quiet', icon: 'minus' },
  pending: { word: 'Pending', tone: 'busy', icon: 'clock' },
  expired: { word: 'Expired', tone: 'quiet', icon: 'minus' },
  revoked: { word: 'Revoked', tone: 'quiet', icon: 'minus' },
  up: { word: 'Up', tone: 'good', icon: 'check' },
  idle: { word: 'Idle', tone: 'quiet', icon: 'minus' },
  served: { word: 'Served', tone: 'good', icon: 'check' },
  throttling: { word: 'Slowed', tone: 'warn', icon: 'clock', meaning: 'The next hop asks for less mail at a time' },
  deferring: { word: 'Putting off', tone: 'warn', icon: 'clock', meaning: 'The next hop puts off what it gets' },
  down: { word: 'Down', tone: 'bad', icon: 'warning', meaning: 'The next hop cannot be reached' },
  pace: {
    word: 'Paced',
    tone: 'quiet',
    icon: 'clock',
    meaning: 'It gets as many messages a second as the settings allow',
  },
  room: {
    word: 'No room',
    tone: 'warn',
    icon: 'clock',
    meaning: 'The connections to all next hops together are used up',
  },
  share: {
    word: 'Elsewhere',
    tone: 'quiet',
    icon: 'clock',
    meaning: 'Other processes have the connections to the next hop',
  },
  memory: {
    word: 'Loading',
    tone: 'quiet',
    icon: 'clock',
    meaning: 'The messages are read from the spool, as far as there is memory for them',
  },
  unrecorded: {
    word: 'Stopped',
    tone: 'bad',
    icon: 'warning',
    meaning: 'The spool cannot record what becomes of messages',
  },
  pass: { word: 'Valid', tone: 'good', icon: 'check' },
  fail: { word: 'Not valid', tone: 'bad', icon: 'box' },
  none: { word: 'None', tone: 'quiet', icon: 'minus' },
  neutral: { word: 'Not verified', tone: 'warn', icon: 'warning' },
  policy: { word: 'Not accepted', tone: 'warn', icon: 'warning' },
  temperror: { word: 'Not known now', tone: 'warn', icon: 'clock' },
  permerror: { word: 'Faulty', tone: 'bad', icon: 'warning' },
  delivery: { word: 'Done', tone: 'good', icon: 'check' },
};

const verdicts: Readonly<Record<string, StateWords>> = {
  kept: { word: 'Kept', tone: 'good', icon: 'check', meaning: 'It leaves as it came' },
  lifted: { word: 'Lifted', tone: 'good', icon: 'arrow', meaning: 'It becomes a field of the message itself' },
  read: { word: 'Read', tone: 'good', icon: 'arrow', meaning: 'It describes the body and stays as it is' },
  replaced: { word: 'Replaced', tone: 'busy', icon: 'reload', meaning: 'Postern writes its own' },
  stripped: { word: 'Removed', tone: 'warn', icon: 'minus', meaning: 'The configuration takes it out' },
  added: { word: 'Added', tone: 'busy', icon: 'plus', meaning: 'Postern adds it' },
  refused: { word: 'Refused', tone: 'bad', icon: 'box', meaning: 'The whole message is refused for it' },
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
