// The messages that wait, to be chosen one by one or together.

import { h, type JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Button, Checkbox, Select } from '../../parts/controls.ts';
import { el } from '../../parts/element.ts';
import { FilterChips, SearchBox } from '../../parts/filter-bar.ts';
import { type Column, doing, ListEnd, numbers, Table, tight, wide } from '../../parts/list.ts';
import { choicesFor, queuePath, type Target } from '../../parts/queue-action.ts';
import { ClearFilters, empty, panel } from '../../parts/surfaces.ts';
import { brief, foreign, State, Time } from '../../parts/text.ts';
import { linkTo, place, setFilters } from '../../state/location.ts';
import { usePages } from '../../state/paging.ts';
import { accountPath, mayEdit } from '../../state/session.ts';
import type { QueuedMessage, QueueHold } from '../../state/shapes.ts';
import { writeCount, writeCounted } from '../../text/amounts.ts';
import { readFilters } from '../../text/filters.ts';

/** The most messages that one action names; the endpoint takes no more. */
const mostChosen = 500;

const heldBy: Readonly<Record<QueueHold['kind'], string>> = {
  message: 'Held',
  account: 'The whole account is held',
  destination: 'Its destination is held',
  route: 'Its route is held',
  line: 'All for this destination is held',
};

/** Why a message is held, as far as the reader may know. */
export function HoldWords({ hold }: { readonly hold: QueueHold }): JSX.Element {
  const { kind, since, by, why, releasable } = hold;
  return el(
    'span.sub',
    heldBy[kind],
    ' since ',
    h(Time, { at: since }),
    by === null ? null : [' by ', el('bdi', by)],
    why ? [': ', foreign(why, 120)] : null,
    releasable ? null : '. It is released by whoever held it, not here.',
  );
}

/** How often it was tried. A next hop that was not reached has not tried it, though its words stand beside. */
function Attempts({ attempts, last_reply: last }: QueuedMessage): JSX.Element {
  if (attempts > 0 || last === null) return el('span', writeCount(attempts));
  const meaning = 'The next hop has not been reached so far, which does not count as an attempt';
  return h('span', { class: 'soft', title: meaning }, 'not reached');
}

/** The state of the recipients; where they have several, how many have each. */
function States({ state, states }: QueuedMessage): JSX.Element {
  const found = Object.entries(states).filter(([, count]) => count > 0);
  if (found.length < 2) return h(State, { state });
  return el(
    'span.states',
    found.map(([name, count]) =>
      h('span', { key: name }, h(State, { state: name }), el('span.soft', writeCount(count))),
    ),
  );
}

const columns: readonly Column<QueuedMessage>[] = [
  tight('state', 'State', States),
  wide('recipient', 'Recipient', ({ id, recipient, recipient_count: count, sender, last_reply: last, hold }) => [
    h('a', { key: 'to', href: linkTo('/messages/:id', { id }) }, brief(recipient, 120)),
    count > 1 ? el('span.soft', ` and ${writeCount(count - 1)} more`) : null,
    el('span.sub', 'from ', sender === '' ? 'nobody' : brief(sender, 120)),
    last ? el('span.sub.mono', foreign(last, 200)) : null,
    hold ? h(HoldWords, { key: 'hold', hold }) : null,
  ]),
  numbers('attempts', 'Attempts', Attempts),
  tight('accepted', 'Accepted', ({ accepted_at: at }) => h(Time, { at })),
  tight('next', 'Next try', ({ next_at: at }) => h(Time, { at, style: 'due' })),
];

const states = [
  { value: '', label: 'Any state' },
  { value: 'queued', label: 'Waiting' },
  { value: 'deferred', label: 'Deferred' },
  { value: 'held', label: 'Held' },
  { value: 'failed', label: 'Failed' },
];

function bulk(chosen: readonly QueuedMessage[], onAct: (target: Target) => void): JSX.Element {
  return h(
    'div',
    { class: 'bulk', role: 'region', 'aria-label': 'Chosen messages' },
    el('p', `${writeCounted(chosen.length, 'message')} chosen`),
    choicesFor(chosen).map(({ action, label, ids, state }) =>
      h(
        Button,
        {
          key: label,
          kind: action === 'drop' ? 'danger' : 'plain',
          onPress: () => onAct({ action, count: ids.length, noun: 'message', body: { ids, ...state } }),
        },
        label,
      ),
    ),
  );
}

/** The list. @param turn another one loads the list anew */
export function WaitingMessages({
  onAct,
  turn,
}: {
  readonly onAct: (target: Target) => void;
  readonly turn: number;
}): JSX.Element {
  const filters = readFilters(place.value.search, ['destination', 'route', 'state', 'q']);
  const { q, ...selected } = filters;
  const search = q === undefined ? {} : { search: q };
  const query = new URLSearchParams({ ...selected, ...search, per_page: '100' }).toString();
  const pages = usePages<QueuedMessage>(accountPath(`${queuePath}/messages?${query}`), turn);
  const [ids, setIds] = useState<ReadonlySet<string>>(new Set());
  const chosen = pages.rows.filter(({ id }) => ids.has(id)).slice(0, mostChosen);
  const toggle = (changed: readonly string[], isOn: boolean): void => {
    const next = new Set(ids);
    for (const id of changed) {
      if (isOn) next.add(id);
      else next.delete(id);
    }
    setIds(next);
  };
  const all = pages.rows.slice(0, mostChosen).map(({ id }) => id);
  const choose = doing<QueuedMessage>('Choose', ({ id, recipient }) =>
    h(Checkbox, {
      ...{ label: `Choose the message to ${recipient}`, hidden: true, checked: ids.has(id) },
      onChange: (isOn) => toggle([id], isOn),
    }),
  );
  const isEmpty = pages.rows.length === 0 && !pages.isLoading && !pages.problem && !pages.hasMore;
  return panel(
    'Messages',
    el(
      'div.filters',
      h(SearchBox, { label: 'Search', value: filters.q, placeholder: 'Part of an address' }),
      h(Select, {
        label: 'State',
        value: filters.state ?? '',
        choices: states,
        onChoose: (state) => setFilters({ state }),
      }),
    ),
    h(FilterChips, { filters, labels: { destination: 'Destination', route: 'Route' } }),
    isEmpty
      ? empty(
          'No message waits here',
          'queue',
          Object.keys(filters).length === 0
            ? 'Everything that was accepted has been delivered.'
            : [
                el('p', 'Everything has been delivered, or what waits fits other filters.'),
                h(ClearFilters, { key: 'clear', names: ['destination', 'route', 'state', 'q'] }),
              ],
        )
      : null,
    pages.rows.length > 0 && mayEdit.value
      ? h(Checkbox, {
          label:
            all.length < pages.rows.length
              ? `Choose the first ${writeCount(all.length)}`
              : all.length === 1
                ? 'Choose the one that is loaded'
                : `Choose all ${writeCount(all.length)} that are loaded`,
          checked: chosen.length === all.length,
          mixed: chosen.length > 0 && chosen.length < all.length,
          onChange: (isOn) => toggle(all, isOn),
        })
      : null,
    pages.rows.length > 0
      ? h(Table<QueuedMessage>, {
          ...{ label: 'Messages that wait', rows: pages.rows, columns: mayEdit.value ? [choose, ...columns] : columns },
          keyOf: ({ id }) => id,
        })
      : null,
    h(ListEnd, { pages, what: 'messages' }),
    chosen.length > 0 ? bulk(chosen, onAct) : null,
  );
}
