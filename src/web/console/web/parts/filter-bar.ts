// Searching and filtering: what is typed goes into the URL a moment after the last key.

import { h, type JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { setFilters } from '../state/location.ts';
import { Field } from './controls.ts';
import { el } from './element.ts';
import { Icon } from './icon.ts';
import { Time } from './text.ts';

/** Milliseconds after the last key. */
const pauseMs = 300;

/** A field that searches while one types. */
export function SearchBox(props: {
  readonly label: string;
  readonly value: string | undefined;
  readonly onSearch: (text: string | undefined) => void;
  readonly placeholder?: string;
  readonly class?: string;
}): JSX.Element {
  const { label, value = '', onSearch } = props;
  const [text, setText] = useState(value);
  const told = useRef(value);
  useEffect(() => {
    // The URL has changed by another way: a link, or the back button.
    if (value === told.current) return;
    told.current = value;
    setText(value);
  }, [value]);
  useEffect(() => {
    if (text.trim() === told.current) return undefined;
    const timer = setTimeout(() => {
      told.current = text.trim();
      onSearch(text.trim() === '' ? undefined : text.trim());
    }, pauseMs);
    return () => clearTimeout(timer);
  }, [text]);
  return h(
    'div',
    { class: props.class ?? 'search' },
    h(Field, {
      ...{ label, value: text, onInput: setText, type: 'search' as const },
      ...(props.placeholder === undefined ? {} : { placeholder: props.placeholder }),
    }),
  );
}

/** The filters in force, each with a button that takes it away. */
export function FilterChips(props: {
  readonly filters: Readonly<Record<string, string | undefined>>;
  /** What each is called. */
  readonly labels: Readonly<Record<string, string>>;
  /** Those whose values are times in RFC 3339. */
  readonly times?: readonly string[];
}): JSX.Element | null {
  const inForce = Object.entries(props.filters).filter(([name, value]) => value !== undefined && name in props.labels);
  if (inForce.length === 0) return null;
  return el(
    'div.chips.in-force',
    inForce.map(([name, value]) =>
      h(
        'span',
        { class: 'filter-chip', key: name },
        el(
          'span',
          `${props.labels[name]}: `,
          props.times?.includes(name) === true ? h(Time, { at: value }) : el('bdi', value),
        ),
        h(
          'button',
          {
            ...{ type: 'button', title: 'Take this filter away', onClick: () => setFilters({ [name]: undefined }) },
            'aria-label': `Take the filter ${props.labels[name]} away`,
          },
          h(Icon, { name: 'close' }),
        ),
      ),
    ),
  );
}
