// One box for whatever one looks for, opened by Ctrl K or its button: pages by their names, messages by words, address or id.

import { h, type JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { goTo, linkTo } from '../state/location.ts';
import { type Found, findPlaces } from '../text/find-places.ts';
import { Button, Field } from './controls.ts';
import { Dialog } from './dialog.ts';
import { el } from './element.ts';
import { Icon, type IconName } from './icon.ts';

function linkOf({ pattern, parameters = {}, filters = {} }: Found): string {
  return linkTo(pattern, parameters, filters);
}

function FinderDialog(props: {
  readonly pages: readonly Found<IconName>[];
  readonly onClose: () => void;
}): JSX.Element {
  const [text, setText] = useState('');
  const [chosen, setChosen] = useState(0);
  const found = findPlaces(text, props.pages);
  const at = Math.min(chosen, found.length - 1);
  const open = (place: Found): void => {
    props.onClose();
    goTo(linkOf(place));
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const wanted = found[at];
    if (step !== undefined) setChosen(Math.max(0, Math.min(found.length - 1, at + step)));
    else if (event.key === 'Enter' && wanted) open(wanted);
    else return;
    event.preventDefault();
  };
  return h(
    Dialog,
    { title: 'Find', onClose: props.onClose },
    h(
      'div',
      { class: 'finder', onKeyDown },
      h(Field, {
        label: 'Address, words of a subject, id of a message, or a page',
        ...{ value: text, type: 'search', autofocus: true },
        onInput: (value) => {
          setText(value);
          setChosen(0);
        },
      }),
      el(
        'ul',
        found.map((one, index) =>
          h(
            'li',
            { key: one.label },
            h(
              'a',
              {
                href: linkOf(one),
                ...(index === at ? { class: 'chosen', 'aria-current': 'true' } : {}),
                onClick: (event: MouseEvent) => {
                  event.preventDefault();
                  open(one);
                },
              },
              h(Icon, { name: one.icon }),
              el('bdi', one.label),
            ),
          ),
        ),
      ),
      h(
        'p',
        { class: 'soft', role: 'status' },
        found.length === 0 ? 'Nothing is called so.' : 'Arrow keys choose, Enter opens.',
      ),
    ),
  );
}

/** The button of the box, which Ctrl K (on a Mac ⌘ K) presses too. @param pages those of the list at the side */
export function Finder({ pages }: { readonly pages: readonly Found<IconName>[] }): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (event.key.toLowerCase() !== 'k' || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey)
        return;
      // Over another dialog it stays closed: what is open there may have been typed into.
      if (document.querySelector('dialog[open]')) return;
      event.preventDefault();
      setOpen(true);
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, []);
  return el(
    'div.finder-room',
    h(Button, { icon: 'search', onPress: () => setOpen(true) }, 'Find', h('kbd', { 'aria-hidden': 'true' }, 'Ctrl K')),
    isOpen ? h(FinderDialog, { pages, onClose: () => setOpen(false) }) : null,
  );
}
