// What would cure a refusal: lines of the configuration, or a change in the program.

import { h, type JSX } from 'preact';
import type { Cure } from '../state/shapes.ts';
import { CopyButton } from './controls.ts';
import { Foreign } from './text.ts';

/** A cure with its lines and a button that copies them. */
export function CureBox({ cure }: { readonly cure: Cure }): JSX.Element {
  const { kind, text, yaml } = cure;
  return h(
    'div',
    { class: 'cure' },
    h(
      'div',
      { class: 'box-head' },
      h('span', { class: 'cure-word' }, kind === 'config' ? 'Cure: in the configuration' : 'Cure: in the program'),
      h(CopyButton, { text: yaml ?? text, label: yaml ? 'Copy the lines' : 'Copy' }),
    ),
    h('p', null, h(Foreign, { text })),
    yaml ? h('pre', { class: 'box', tabIndex: 0 }, h(Foreign, { text: yaml, lines: true, most: 4000 })) : null,
  );
}
