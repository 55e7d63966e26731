// What stands everywhere: elements by name and class, icons, text of strangers, times, and states as words with a shape and a tone.

import { type Attributes, type ComponentChildren, type ComponentType, Fragment, h, type JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { EventKind } from '../../../../spool/events/mail-event.ts';
import { now } from '../state/clock.ts';
import { writeDistance, writeDue, writeExactTime, writeTime } from '../text/amounts.ts';
import { cutAt, visiblePieces } from '../text/visible-text.ts';

type Tag = keyof JSX.IntrinsicElements;
type TagOf<Name> = Name extends `${infer Bare}.${string}` ? Bare : Name;
type AttributesOf<Name> = JSX.IntrinsicElements[TagOf<Name> & Tag] & { readonly [name: `data-${string}`]: unknown };
type Around = (...children: ComponentChildren[]) => JSX.Element;

/** Begins an element by name and classes (`p.soft`), or a component. @returns what closes it around what it holds; for nothing use `h` */
export function el<Name extends Tag | `${Tag}.${string}`>(name: Name, attributes?: AttributesOf<Name>): Around;
export function el<Props>(component: ComponentType<Props>, props?: Attributes & Props): Around;
export function el(begun: ComponentType | string, attributes: object | null = null): Around {
  if (typeof begun !== 'string') return (...children) => h(begun, attributes, ...children);
  const [tag = '', ...classes] = begun.split('.');
  const all = classes.length === 0 ? attributes : { ...attributes, class: classes.join(' ') };
  return (...children) => h(tag, all, ...children);
}

/** Drawings on a square of 16, as paths. */
const drawings = {
  overview: 'M2.5 13.5v-4M6.2 13.5v-8M9.8 13.5v-6M13.5 13.5v-11',
  messages: 'M2 4h12v8.5H2zM2 4.5l6 4.5 6-4.5',
  refusals: 'M4 4l8 8M8 1.8a6.2 6.2 0 1 1 0 12.4A6.2 6.2 0 0 1 8 1.8z',
  try: 'M6 2h4M7 2v4L3.2 12.4c-.4.8.1 1.6 1 1.6h7.6c.9 0 1.4-.8 1-1.6L9 6V2M5 10h6',
  queue: 'M2 3.5h12M2 8h12M2 12.5h7',
  suppressions: 'M8 2a3 3 0 1 1 0 6 3 3 0 0 1 0-6zM2.5 14c.4-2.7 2.6-4.2 5.5-4.2M10.5 12.5h4',
  tokens: 'M5 11.5a3 3 0 1 1 .01-6 3 3 0 0 1-.01 6zM7.5 7.5L13.5 7.5V10.5M11 7.5V9.5',
  domains:
    'M8 1.8a6.2 6.2 0 1 1 0 12.4A6.2 6.2 0 0 1 8 1.8zM2 8h12M8 1.8c-3.5 3.5-3.5 8.9 0 12.4 3.5-3.5 3.5-8.9 0-12.4',
  webhooks: 'M5.5 6.5a2.5 2.5 0 1 1 4.2.5l2 3.5M8 5l-2.8 5M4.5 9.5a2.3 2.3 0 1 0 2 2.7h5.2M12 10a2.2 2.2 0 1 1-1.5 3.6',
  edge: 'M8 1.5l5.5 2v4.5c0 3.2-2.3 5.3-5.5 6.5C4.8 13.3 2.5 11.2 2.5 8V3.5z',
  proxy: 'M2 5h10M9 2l3 3-3 3M14 11H4M7 8l-3 3 3 3',
  settings: 'M2 4.5h6M12 4.5h2M2 11.5h2M8 11.5h6M10 2.5v4M6 9.5v4',
  menu: 'M2 4h12M2 8h12M2 12h12',
  close: 'M3.5 3.5l9 9M12.5 3.5l-9 9',
  check: 'M3 8.5l3.2 3.2L13 4.8',
  copy: 'M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3',
  out: 'M6 2.5H2.5v11H6M10 5l3 3-3 3M13 8H6',
  right: 'M6 3l5 5-5 5',
  clock: 'M8 1.8a6.2 6.2 0 1 1 0 12.4A6.2 6.2 0 0 1 8 1.8zM8 4.5V8l2.5 1.5',
  warning: 'M8 2l6.5 11.5h-13zM8 6.5v3.5M8 11.8v.4',
  arrow: 'M2.5 8h11M9.5 4l4 4-4 4',
  half: 'M8 1.8a6.2 6.2 0 1 1 0 12.4A6.2 6.2 0 0 1 8 1.8zM8 4v8',
  box: 'M3 3h10v10H3zM6 6l4 4M10 6l-4 4',
  minus: 'M8 1.8a6.2 6.2 0 1 1 0 12.4A6.2 6.2 0 0 1 8 1.8zM5 8h6',
  plus: 'M8 3v10M3 8h10',
  search: 'M7 2.2a4.8 4.8 0 1 1 0 9.6 4.8 4.8 0 0 1 0-9.6zM10.5 10.5l3.5 3.5',
  reload: 'M13.5 3v3.5H10M13.2 6.5a5.6 5.6 0 1 0 .4 3.2',
  pause: 'M5.5 3v10M10.5 3v10',
  play: 'M4.5 2.8l8 5.2-8 5.2z',
  sun: 'M8 5.2a2.8 2.8 0 1 1 0 5.6 2.8 2.8 0 0 1 0-5.6zM8 1.5v1.3M8 13.2v1.3M1.5 8h1.3M13.2 8h1.3M3.4 3.4l.9.9M11.7 11.7l.9.9M12.6 3.4l-.9.9M4.3 11.7l-.9.9',
  moon: 'M13.5 9.7A6 6 0 0 1 6.3 2.5a6 6 0 1 0 7.2 7.2z',
} as const;

/** The name of an icon. */
export type IconName = keyof typeof drawings;

/** An icon. Screen readers pass over it. */
export function Icon({ name }: { readonly name: IconName }): JSX.Element {
  return el('svg.icon', { viewBox: '0 0 16 16', width: 16, height: 16, 'aria-hidden': 'true', focusable: 'false' })(
    h('path', { d: drawings[name] }),
  );
}

const slice = 400;

function pieces(text: string, keep: 'none' | 'lines'): (JSX.Element | string)[] {
  return visiblePieces(text, keep).map((piece, index) =>
    piece.kind === 'text'
      ? piece.text
      : el('span.mark', { key: index, title: `The character ${piece.text}, which shows nothing` })(piece.text),
  );
}

/** A button that shows more of what it stands behind. */
export function moreButton(text: string, onClick: () => void): JSX.Element {
  return el('button.more', { type: 'button', onClick })(text);
}

interface ForeignProps {
  readonly text: string;
  /** Line ends and tabs stay; for text that is shown in lines. */
  readonly lines?: boolean;
  /** Characters that are shown at first; more come by a button. Absent: 400. */
  readonly most?: number | undefined;
  /** Cuts without a button, for places that are links or that lead to the whole text. */
  readonly brief?: boolean;
}

/** Text of a stranger: isolated, with marks for characters that show nothing, and in slices where it is long. */
export function Foreign({ text, lines = false, most = slice, brief = false }: ForeignProps): JSX.Element {
  const [length, setLength] = useState(most);
  const { shown, left } = cutAt(text, length);
  const body = el('bdi.foreign')(pieces(shown, lines ? 'lines' : 'none'), left > 0 ? '…' : null);
  if (left === 0 || brief) return body;
  const more = Math.min(left, Math.max(length * 4, 4000));
  return el(Fragment)(
    body,
    moreButton(left > more ? `Show more (${left.toLocaleString('en')} characters left)` : 'Show all', () =>
      setLength(length + more),
    ),
  );
}

/** Text of a stranger. @param most characters that are shown at first; absent: 400 */
export function foreign(text: string, most?: number): JSX.Element {
  return h(Foreign, { text, most });
}

/** Text of a stranger, of which the first characters are shown without a button that shows more. */
export function brief(text: string, most: number): JSX.Element {
  return h(Foreign, { text, most, brief: true });
}

/** Lines of text in a box, of which so many characters are shown at first. */
export function box(text: string, most = 8000): JSX.Element {
  return el('pre.box', { tabIndex: 0 })(h(Foreign, { text, lines: true, most }));
}

/** A time: of day in the reader's zone, with the exact instant on hover. */
export function Time({
  at,
  style = 'clock',
}: {
  readonly at: string | null | undefined;
  readonly style?: 'clock' | 'ago' | 'due';
}): JSX.Element {
  const time = at === null || at === undefined ? Number.NaN : Date.parse(at);
  if (at === null || at === undefined || Number.isNaN(time)) return el('span.soft')('–');
  const text = { clock: writeTime, ago: writeDistance, due: writeDue }[style](time, now.value);
  return el('time', { dateTime: at, title: writeExactTime(time) })(text);
}

/** A state as a word with its shape. */
export function State({
  state,
  words = stateWords(state),
}: {
  readonly state: string;
  readonly words?: StateWords;
}): JSX.Element {
  return el('span', { class: `state ${words.tone}`, title: words.meaning })(h(Icon, { name: words.icon }), words.word);
}

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
