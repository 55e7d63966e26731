// Searching and filtering: what is typed goes into the URL a moment after the last key.

import { h, type JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { place, setFilters } from '../state/location.ts';
import { readFilters, spans } from '../text/filters.ts';
import { type Choice, Field, Select } from './controls.ts';
import { el } from './element.ts';
import { Icon } from './icon.ts';
import { Time } from './text.ts';

/** Milliseconds after the last key. */
const pauseMs = 300;

/** A field that searches while one types: its text is a filter of the page. */
export function SearchBox(props: {
  readonly label: string;
  readonly value: string | undefined;
  /** Of the filter; absent: `q`. */
  readonly name?: string;
  readonly placeholder?: string;
  readonly class?: string;
}): JSX.Element {
  const { label, value = '', name = 'q' } = props;
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
      setFilters({ [name]: text.trim() === '' ? undefined : text.trim() });
    }, pauseMs);
    return () => clearTimeout(timer);
  }, [text]);
  return h(
    'div',
    { class: props.class ?? 'search' },
    h(Field, {
      ...{ label, value: text, onInput: setText, type: 'search', placeholder: props.placeholder },
    }),
  );
}

/** The choice of a filter of the page. @param choices one has no value: it takes the filter away */
export function FilterSelect(props: {
  readonly label: string;
  readonly name: string;
  readonly choices: readonly Choice[];
}): JSX.Element {
  const { label, name, choices } = props;
  const value = readFilters(place.value.search, [name])[name] ?? '';
  return h(Select, { label, value, choices, onChoose: (chosen) => setFilters({ [name]: chosen }) });
}

/** How many minutes of figures are shown, as the URL names them. */
export function shownMinutes(): string {
  return readFilters(place.value.search, ['minutes']).minutes ?? '60';
}

/** The choice of the time whose figures are shown. */
export function MinutesSelect(): JSX.Element {
  return h(Select, {
    label: 'Time',
    value: shownMinutes(),
    choices: [spans['1h'], spans['6h'], spans['24h']].map(({ label, minutes }) => ({ value: `${minutes}`, label })),
    onChoose: (chosen) => setFilters({ minutes: chosen === '60' ? undefined : chosen }),
  });
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
