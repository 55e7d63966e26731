// What would cure a refusal: lines of the configuration, or a change in the program.

import { h, type JSX } from 'preact';
import type { Cure, FileChange } from '../state/shapes.ts';
import { CopyButton } from './controls.ts';
import { el } from './element.ts';
import { box, foreign } from './text.ts';

function ChangeBox({ change: { file, line, diff } }: { readonly change: FileChange }): JSX.Element {
  return el(
    'div',
    el(
      'div.box-head',
      el(
        'span',
        'Or replace these lines of ',
        el('bdi', file),
        `, line ${line}; the configuration is valid with them:`,
      ),
      h(CopyButton, { text: diff, label: 'Copy the change' }),
    ),
    box(diff, 20_000),
  );
}

/**
 * A cure with its lines and a button that copies them.
 * @param change where the lines go in the configuration file
 * @param isRepeated the reason before it is cured by the same lines, so they are not shown again
 */
export function CureBox({
  cure,
  change,
  isRepeated = false,
}: {
  readonly cure: Cure;
  readonly change?: FileChange | undefined;
  readonly isRepeated?: boolean;
}): JSX.Element {
  const { kind, text, yaml } = cure;
  if (isRepeated) return el('div.cure', el('span.cure-word', 'Cure: the same lines as above cure this too'));
  return el(
    'div.cure',
    el(
      'div.box-head',
      el('span.cure-word', kind === 'config' ? 'Cure: in the configuration' : 'Cure: in the program'),
      h(CopyButton, { text: yaml ?? text, label: yaml ? 'Copy the lines' : 'Copy' }),
    ),
    el('p', foreign(text)),
    yaml ? box(yaml, 4000) : null,
    change ? h(ChangeBox, { change }) : null,
  );
}
