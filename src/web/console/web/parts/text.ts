// Text in all its forms: of strangers, times, states, amounts.

import { Fragment, h, type JSX } from 'preact';
import { useState } from 'preact/hooks';
import { now } from '../state/clock.ts';
import { writeDistance, writeDue, writeExactTime, writeTime } from '../text/amounts.ts';
import { cutAt, visiblePieces } from '../text/visible-text.ts';
import { el } from './element.ts';
import { Icon } from './icon.ts';
import { type StateWords, stateWords } from './words.ts';

/** Characters of one slice of a long text. */
const slice = 400;

function pieces(text: string, keep: 'none' | 'lines'): (JSX.Element | string)[] {
  return visiblePieces(text, keep).map((piece, index) =>
    piece.kind === 'text'
      ? piece.text
      : h('span', { class: 'mark', key: index, title: `The character ${piece.text}, which shows nothing` }, piece.text),
  );
}

/** A button that shows more of what it stands behind. */
export function moreButton(text: string, onClick: () => void): JSX.Element {
  return h('button', { type: 'button', class: 'more', onClick }, text);
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

/**
 * Text that a stranger chose: isolated, so that its direction changes nothing around it, with marks for characters that show
 * nothing, and in slices where it is long.
 */
export function Foreign({ text, lines = false, most = slice, brief = false }: ForeignProps): JSX.Element {
  const [length, setLength] = useState(most);
  const { shown, left } = cutAt(text, length);
  const body = el('bdi.foreign', pieces(shown, lines ? 'lines' : 'none'), left > 0 ? '…' : null);
  if (left === 0 || brief) return body;
  const more = Math.min(left, Math.max(length * 4, 4000));
  return h(
    Fragment,
    null,
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
  return h('pre', { class: 'box', tabIndex: 0 }, h(Foreign, { text, lines: true, most }));
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
  if (at === null || at === undefined || Number.isNaN(time)) return el('span.soft', '–');
  const text = { clock: writeTime, ago: writeDistance, due: writeDue }[style](time, now.value);
  return h('time', { dateTime: at, title: writeExactTime(time) }, text);
}

/** A state as a word with its shape. */
export function State({
  state,
  words = stateWords(state),
}: {
  readonly state: string;
  readonly words?: StateWords;
}): JSX.Element {
  return h('span', { class: `state ${words.tone}`, title: words.meaning }, h(Icon, { name: words.icon }), words.word);
}
