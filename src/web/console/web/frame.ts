// What stands around every page: the list of pages, whose mail is looked at, colours, signing out, and notices.

import { type ComponentChildren, h, type JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { findPage, pages } from './page-list.ts';
import { Button, Field, Select, Switch } from './parts/controls.ts';
import { Dialog, useClose, useDialog } from './parts/dialog.ts';
import { el, Icon, type IconName, Time } from './parts/element.ts';
import { Brand } from './parts/surfaces.ts';
import { silentSince } from './state/api.ts';
import { closeNotice, notices } from './state/notices.ts';
import {
  account,
  goTo,
  isAdmin,
  isEveryAccount,
  linkTo,
  mayEdit,
  place,
  session,
  setFilters,
  signOut,
} from './state/session.ts';
import { chooseTheme, type Theme, theme } from './state/theme.ts';
import { type Found, findPlaces } from './text/find-places.ts';

function linkOf({ pattern, parameters = {}, filters = {} }: Found): string {
  return linkTo(pattern, parameters, filters);
}

function entry(place: Found<IconName>, isChosen: boolean, open: (place: Found) => void): JSX.Element {
  const onClick = (event: MouseEvent): void => {
    event.preventDefault();
    open(place);
  };
  const chosen = isChosen ? ({ class: 'chosen', 'aria-current': 'true' } as const) : {};
  return el('li', { key: place.label })(
    el('a', { href: linkOf(place), ...chosen, onClick })(h(Icon, { name: place.icon }), el('bdi')(place.label)),
  );
}

function FinderDialog(): JSX.Element {
  const close = useClose();
  const [text, setText] = useState('');
  const [chosen, setChosen] = useState(0);
  const found = findPlaces(text, entries());
  const at = Math.min(chosen, found.length - 1);
  const open = (place: Found): void => {
    close();
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
  const onInput = (value: string): void => {
    setText(value);
    setChosen(0);
  };
  const help = found.length === 0 ? 'Nothing is called so.' : 'Arrow keys choose, Enter opens.';
  return el(Dialog, { title: 'Find' })(
    el('div.finder', { onKeyDown })(
      h(Field, {
        label: 'Address, words of a subject, id of a message, or a page',
        ...{ value: text, type: 'search', autofocus: true, onInput },
      }),
      el('ul')(found.map((one, index) => entry(one, index === at, open))),
      el('p.soft', { role: 'status' })(help),
    ),
  );
}

/** The button of the box, which Ctrl K (on a Mac ⌘ K) presses too. */
function Finder(): JSX.Element {
  const { show, dialog } = useDialog();
  const open = (): void => show(h(FinderDialog, {}));
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (event.key.toLowerCase() !== 'k' || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey)
        return;
      // Over another dialog it stays closed: what is open there may have been typed into.
      if (document.querySelector('dialog[open]')) return;
      event.preventDefault();
      open();
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, []);
  return el('div.finder-room')(
    el(Button, { icon: 'search', onPress: open })('Find', el('kbd', { 'aria-hidden': 'true' })('Ctrl K')),
    dialog,
  );
}

/** The path in the list that the page of the URL belongs to: a message belongs to the messages. */
function openEntry(): string | undefined {
  return findPage(place.value.path)?.page.pattern.replace(/\/:id$/, '');
}

function entries() {
  return pages.flatMap(({ pattern, entry, isForAdmin }) =>
    entry && (isForAdmin !== true || isAdmin.value) ? [{ ...entry, pattern }] : [],
  );
}

function Nav(): JSX.Element {
  const open = openEntry();
  return el('nav.nav', { 'aria-label': 'Pages' })(
    entries().map(({ pattern, label, icon, group }) => [
      group === undefined ? null : el('p.nav-group', { key: group })(group),
      el('a', { key: pattern, href: linkTo(pattern), 'aria-current': open === pattern ? 'page' : undefined })(
        h(Icon, { name: icon }),
        label,
      ),
    ]),
  );
}

function AccountChoice(): JSX.Element {
  const who = session.value;
  const accounts = who?.accounts ?? [];
  if (!isAdmin.value || accounts.length < 2) {
    return el('p.whose')(el('span.soft')('Account'), el('bdi')(who?.account.name));
  }
  return h(Select, {
    label: 'Account',
    value: account.value,
    choices: [{ value: '*', label: 'All accounts' }, ...accounts.map(({ name }) => ({ value: name, label: name }))],
    onChoose: (name) => {
      // A message belongs to one account, so that its page makes no sense under another.
      const entry = openEntry() ?? '/';
      const chosen = name === who?.account.name ? undefined : name;
      if (place.value.path === linkTo(entry).split('?')[0]) setFilters({ account: chosen });
      else goTo(linkTo(entry, {}, { account: chosen }));
    },
  });
}

const themes = [
  { key: 'system', label: 'Auto: the colours of the system', text: 'Auto' },
  { key: 'light', label: 'Light colours', text: h(Icon, { name: 'sun' }) },
  { key: 'dark', label: 'Dark colours', text: h(Icon, { name: 'moon' }) },
] as const;

function Side({ isOpen, onClose }: { readonly isOpen: boolean; readonly onClose: () => void }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!isOpen) return undefined;
    box.current?.querySelector('a')?.focus();
    const onKey = (event: KeyboardEvent): void => {
      if (event.key === 'Escape') onClose();
    };
    addEventListener('keydown', onKey);
    // On a wide screen the list stands beside the page.
    const wide = matchMedia('(min-width: 56.01rem)');
    wide.addEventListener('change', onClose);
    return () => {
      removeEventListener('keydown', onKey);
      wide.removeEventListener('change', onClose);
    };
  }, [isOpen]);
  return el('div', { class: isOpen ? 'side open' : 'side', ref: box, id: 'side' })(
    h(Brand, null),
    h(Finder, null),
    h(Nav, null),
    el('div.side-foot')(
      h(AccountChoice, null),
      mayEdit.value ? null : el('p.whose.soft')('This session may look and not change.'),
      el('div.side-actions')(
        h(Switch<Theme>, { label: 'Colours', choices: themes, chosen: theme.value, onChoose: chooseTheme }),
        h(Button, { kind: 'bare', icon: 'out', label: 'Sign out', onPress: signOut }),
      ),
    ),
  );
}

function Notices(): JSX.Element {
  return el('div.notices', { 'aria-live': 'polite' })(
    notices.value.map(({ id, kind, text }) =>
      el('div', { class: `notice ${kind}`, key: id })(
        h(Icon, { name: kind === 'done' ? 'check' : 'warning' }),
        el('p')(el('bdi')(text)),
        h(Button, { kind: 'bare', icon: 'close', label: 'Close this notice', onPress: () => closeNotice(id) }),
      ),
    ),
  );
}

/** Says that what the page shows is old, while the gateway does not answer. */
function Silence(): JSX.Element {
  const since = silentSince.value;
  return el('div', { role: 'status' })(
    since === undefined
      ? null
      : el('p.silence')(
          h(Icon, { name: 'warning' }),
          el('span')(
            'The gateway does not answer. This page is as it was at ',
            h(Time, { at: new Date(since).toISOString() }),
            '.',
          ),
        ),
  );
}

/** Says whose things a page shows that is of one account, while all accounts are looked at. */
function Whose(): JSX.Element | null {
  const isOfOne = pages.find(({ pattern }) => pattern === openEntry())?.isOfOneAccount === true;
  if (!isEveryAccount.value || !isOfOne) return null;
  const name = session.value?.account.name ?? '';
  return el('p.one-account')(
    'This page is of one account at a time, here of ',
    el('strong')(el('bdi')(name)),
    '. Choose another in the list of accounts.',
  );
}

/** The frame around a page. */
export function Frame({ children }: { readonly children?: ComponentChildren }): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const opener = useRef<HTMLDivElement>(null);
  const close = (): void => {
    setOpen(false);
    opener.current?.querySelector('button')?.focus();
  };
  useEffect(() => setOpen(false), [place.value.path]);
  const entry = pages.find(({ pattern }) => pattern === openEntry())?.entry;
  return el('div.frame')(
    el('a.skip', { href: '#main' })('Skip the list of pages'),
    el('div.top', { ref: opener })(
      el('button', {
        ...{ type: 'button', class: 'button bare', title: 'Pages', onClick: () => setOpen(!isOpen) },
        'aria-label': 'Pages',
        'aria-expanded': isOpen,
        'aria-controls': 'side',
      })(h(Icon, { name: 'menu' })),
      h(Brand, null),
      el('span.where')(entry?.label),
    ),
    isOpen ? h('div', { class: 'side-veil', onClick: close }) : null,
    h(Side, { isOpen, onClose: close }),
    el('main', { id: 'main', tabIndex: -1, inert: isOpen })(el('div.page')(h(Silence, null), h(Whose, null), children)),
    h(Notices, null),
  );
}
