// Elements as most of them are: a name, perhaps classes, and what is in them.

import { type ComponentChildren, h, type JSX } from 'preact';

type Tag = keyof JSX.IntrinsicElements;

/** Makes an element by its name with its classes behind dots, such as `p.soft`. One with other attributes is made by `h`. */
export function el(name: Tag | `${Tag}.${string}`, ...children: ComponentChildren[]): JSX.Element {
  const [tag = '', ...classes] = name.split('.');
  return h(tag, classes.length === 0 ? null : { class: classes.join(' ') }, ...children);
}
