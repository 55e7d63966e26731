// What pages are made of: their head, panels, lists that are empty, faults, progress, definitions, tabs.

import { type ComponentChildren, Fragment, h, type JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Loaded, Problem } from '../state/api.ts';
import { linkTo, place, setFilters } from '../state/session.ts';
import { changeFilters, readFilters } from '../text/filters.ts';
import { Button } from './controls.ts';
import { el, Icon, type IconName, Time } from './element.ts';

/** The name with its mark, a gate, as a link to the first page. */
export function Brand(): JSX.Element {
  return el('a.brand', { href: linkTo('/') })(
    el('svg', { viewBox: '0 0 22 22', 'aria-hidden': 'true', focusable: 'false' })(
      h('path', { fill: 'currentColor', d: 'M3 20V9a8 8 0 0 1 16 0v11h-4.5V9.5a3.5 3.5 0 0 0-7 0V20z' }),
      h('path', { fill: 'currentColor', d: 'M9.5 20v-8h3v8z', opacity: '.55' }),
    ),
    'Postern',
  );
}

/** The path whose title was drawn last. */
let titled: string | undefined;

/** The head of a page: its title, one sentence, and what can be done. */
export function PageHead(props: {
  readonly title: ComponentChildren;
  /** The title as plain text, for the window; absent: `title` is text. */
  readonly name?: string;
  readonly lead?: ComponentChildren;
  readonly children?: ComponentChildren;
  readonly back?: { readonly url: string; readonly label: string };
}): JSX.Element {
  const name = props.name ?? (typeof props.title === 'string' ? props.title : 'Postern');
  useEffect(() => {
    document.title = `${name} · Postern`;
  }, [name]);
  const heading = useRef<HTMLHeadingElement>(null);
  // After a change of the page the focus moves to its title, as a browser moves it to the beginning.
  useEffect(() => {
    const { path } = place.peek();
    if (titled !== undefined && titled !== path) heading.current?.focus({ preventScroll: true });
    titled = path;
  }, []);
  return el('header.page-head')(
    el('div')(
      props.back ? el('a.back', { href: props.back.url })(props.back.label) : null,
      el('h1', { ref: heading, tabIndex: -1 })(props.title),
      props.lead ? el('p.lead')(props.lead) : null,
    ),
    props.children ? el('div.actions')(props.children) : null,
  );
}

/** The head of most pages. @param children what can be done */
export function pageHead(title: string, lead: string, ...children: ComponentChildren[]): JSX.Element {
  return el(PageHead, { title, lead })(...children);
}

/** The button at the head of a page that makes one more of what it lists; nothing for who may not. */
export function makeButton(mayMake: boolean, onPress: () => void, text: string): ComponentChildren {
  return mayMake && el(Button, { kind: 'main', icon: 'plus', onPress })(text);
}

interface PanelHead {
  readonly key?: string;
  readonly title: string;
  readonly actions?: ComponentChildren;
  readonly note?: ComponentChildren;
}

/** A part of a page with a heading. @returns what closes it around what stands below that */
export function panel(head: string | PanelHead) {
  const { key, title, actions, note }: PanelHead = typeof head === 'string' ? { title: head } : head;
  return (...children: ComponentChildren[]): JSX.Element =>
    el('section.panel', { key })(
      el('div.panel-head')(el('h2')(title), actions),
      note ? el('p.note')(note) : null,
      ...children,
    );
}

/** What stands in place of a list that has nothing in it. @returns what closes it around why that is, and what to do next */
export function empty(title: string, icon: IconName) {
  return (...children: ComponentChildren[]): JSX.Element =>
    el('div.empty')(h(Icon, { name: icon }), el('p.empty-title')(title), el('div.empty-text')(...children));
}

/** What stands in place of a list of mail in which all is as it should be: says why, and leads to the messages. */
export function nothingWrong(title: string, why: string): JSX.Element {
  return empty(title, 'check')(el('p')(why), buttonLink('/messages', 'messages', 'Look at the messages'));
}

/** What the gateway says beside an answer, such as that the journal is off; nothing where it says nothing. */
export function Notes({ notes }: { readonly notes: readonly string[] }): JSX.Element {
  return el(Fragment)(notes.map((note) => el('p.soft', { key: note, role: 'note' })(el('bdi')(note))));
}

/** A request that failed: what it said, and trying again. */
export function fault(problem: Problem, retry?: () => void, note?: ComponentChildren): JSX.Element {
  const codes = problem.errors.map(({ code }) => code).join(', ');
  return el('div.problem', { role: 'alert' })(
    h(Icon, { name: 'warning' }),
    el('div')(
      el('p')(el('bdi')(problem.message)),
      note ? el('p')(note) : null,
      codes === '' ? null : el('p.soft')(`Error ${codes}, HTTP ${problem.status}`),
    ),
    retry ? el(Button, { icon: 'reload', onPress: retry })('Try again') : null,
  );
}

/** Why an answer did not come, and that an older one is shown; that the gateway is silent is said at the head of every page. */
function LoadFault({ loaded }: { readonly loaded: Loaded<unknown> }): JSX.Element | null {
  const { problem, value, at, reload } = loaded;
  if (!problem) return null;
  if (value === undefined || at === undefined) return fault(problem, reload);
  if (problem.status === 0) return null;
  const note = el('span')('What stands here is as it was at ', h(Time, { at: new Date(at).toISOString() }), '.');
  return fault(problem, reload, note);
}

/** Shows that something is under way, once it has taken a moment. */
export function Progress({ what }: { readonly what: string }): JSX.Element | null {
  const [isLate, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), 250);
    return () => clearTimeout(timer);
  }, []);
  if (!isLate) return el('div.progress-room')();
  return el('div.progress', { role: 'status' })(h('span', { class: 'spinner', 'aria-hidden': 'true' }), what);
}

/** What stands for an answer: why it did not come, that it is under way, or what `show` draws. @param what such as `Loading zones` */
export function awaited<Value>(
  loaded: Loaded<Value>,
  what: string,
  show: (value: Value) => ComponentChildren,
): JSX.Element {
  const { value, isLoading } = loaded;
  return el(Fragment)(h(LoadFault, { loaded }), value === undefined ? isLoading && h(Progress, { what }) : show(value));
}

/** Names and values in two columns. Values that are absent are left out. */
export function facts(items: readonly (readonly [string, ComponentChildren])[]): JSX.Element {
  return el('dl.facts')(
    items
      .filter(([, value]) => value !== null && value !== undefined && value !== '')
      .map(([name, value]) => el(Fragment, { key: name })(el('dt')(name), el('dd')(value))),
  );
}

interface Tab {
  readonly key: string;
  readonly label: ComponentChildren;
}

/** The tab that the URL names, or the first. */
export function openTab(tabs: readonly Tab[]): string {
  const { tab } = readFilters(place.value.search, ['tab']);
  return tabs.find(({ key }) => key === tab)?.key ?? tabs[0]?.key ?? '';
}

/** Links between parts of a page, of which one is shown. They are links, so that each has a URL of its own. */
export function Tabs({ tabs, label }: { readonly tabs: readonly Tab[]; readonly label: string }): JSX.Element {
  const open = openTab(tabs);
  const urlOf = (key: string): string =>
    place.value.path + changeFilters(place.value.search, { tab: key === tabs[0]?.key ? undefined : key });
  return el('nav.tabs', { 'aria-label': label })(
    tabs.map((tab) =>
      el('a', {
        key: tab.key,
        href: urlOf(tab.key),
        'aria-current': tab.key === open ? 'true' : undefined,
        'data-stay': '',
      })(tab.label),
    ),
  );
}

/** A link that takes all filters away. */
export function ClearFilters({ names }: { readonly names: readonly string[] }): JSX.Element {
  const clear = (): void => setFilters(Object.fromEntries(names.map((name) => [name, undefined])));
  return el(Button, { onPress: clear })('Clear the filters');
}

/** A link to another page as a button. */
export function buttonLink(to: string, icon: IconName, text: string): JSX.Element {
  return el('a.button.plain', { href: linkTo(to) })(h(Icon, { name: icon }), text);
}
