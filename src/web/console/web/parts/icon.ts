// The icons: small drawings of lines, which always stand beside a word or have one for screen readers.

import { h, type JSX } from 'preact';

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
  return h(
    'svg',
    { class: 'icon', viewBox: '0 0 16 16', width: 16, height: 16, 'aria-hidden': 'true', focusable: 'false' },
    h('path', { d: drawings[name] }),
  );
}
