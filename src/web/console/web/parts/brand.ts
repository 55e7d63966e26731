// The mark and the name.

import { h, type JSX } from 'preact';
import { linkTo } from '../state/location.ts';

/** The name with its mark, a gate, as a link to the first page. */
export function Brand(): JSX.Element {
  return h(
    'a',
    { class: 'brand', href: linkTo('/') },
    h(
      'svg',
      { viewBox: '0 0 22 22', 'aria-hidden': 'true', focusable: 'false' },
      h('path', { fill: 'currentColor', d: 'M3 20V9a8 8 0 0 1 16 0v11h-4.5V9.5a3.5 3.5 0 0 0-7 0V20z' }),
      h('path', { fill: 'currentColor', d: 'M9.5 20v-8h3v8z', opacity: '.55' }),
    ),
    'Postern',
  );
}
