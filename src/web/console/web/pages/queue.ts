// What waits: by destination and route, and message by message.

import { h, type JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Button, Checkbox } from '../parts/controls.ts';
import { useDialog } from '../parts/dialog.ts';
import { brief, el, foreign, State, Time } from '../parts/element.ts';
import { type Column, column, FilterSelect, filterChips, PagedTable, SearchBox, Table } from '../parts/list.ts';
import { type Action, ActionConfirm, actionWords, choicesFor, queuePath, type Target } from '../parts/queue-action.ts';
import { awaited, ClearFilters, empty, nothingWrong, pageHead, panel } from '../parts/surfaces.ts';
import { useAnswer, useEvery } from '../state/api.ts';
import { usePages } from '../state/paging.ts';
import { accountPath, isEveryAccount, linkTo, mayEdit, place } from '../state/session.ts';
import type { QueuedMessage, QueueGroup, QueueHold } from '../state/shapes.ts';
import { writeCount, writeCounted } from '../text/amounts.ts';
import { changeFilters, readFilters } from '../text/filters.ts';

/** The most messages that one action names; the endpoint takes no more. */
const mostChosen = 500;

const heldBy: Readonly<Record<QueueHold['kind'], string>> = {
  message: 'Held',
  account: 'The whole account is held',
  destination: 'Its destination is held',
  route: 'Its route is held',
  line: 'All for this destination is held',
};

function HoldWords({ hold }: { readonly hold: QueueHold }): JSX.Element {
  const { kind, since, by, why, releasable } = hold;
  return el('span.sub')(
    heldBy[kind],
    ' since ',
    h(Time, { at: since }),
    by === null ? null : [' by ', el('bdi')(by)],
    why ? [': ', foreign(why, 120)] : null,
    releasable ? null : '. It is released by whoever held it, not here.',
  );
}

/** How often it was tried. A next hop that was not reached has not tried it, though its words stand beside. */
function Attempts({ attempts, last_reply: last }: QueuedMessage): JSX.Element {
  if (attempts > 0 || last === null) return el('span')(writeCount(attempts));
  const meaning = 'The next hop has not been reached so far, which does not count as an attempt';
  return el('span.soft', { title: meaning })('not reached');
}

/** The state of the recipients; where they have several, how many have each. */
function States({ state, states }: QueuedMessage): JSX.Element {
  const found = Object.entries(states).filter(([, count]) => count > 0);
  if (found.length < 2) return h(State, { state });
  return el('span.states')(
    found.map(([name, count]) =>
      el('span', { key: name })(h(State, { state: name }), el('span.soft')(writeCount(count))),
    ),
  );
}

const columns: readonly Column<QueuedMessage>[] = [
  column('tight', 'State', States),
  column('wide', 'Recipient', ({ id, recipient, recipient_count: count, sender, last_reply: last, hold }) => [
    el('a', { key: 'to', href: linkTo('/messages/:id', { id }) })(brief(recipient, 120)),
    count > 1 ? el('span.soft')(` and ${writeCount(count - 1)} more`) : null,
    el('span.sub')('from ', sender === '' ? 'nobody' : brief(sender, 120)),
    last ? el('span.sub.mono')(foreign(last, 200)) : null,
    hold ? h(HoldWords, { key: 'hold', hold }) : null,
  ]),
  column('number', 'Attempts', Attempts),
  column('tight', 'Accepted', ({ accepted_at: at }) => h(Time, { at })),
  column('tight', 'Next try', ({ next_at: at }) => h(Time, { at, style: 'due' })),
];

const states = [
  { value: '', label: 'Any state' },
  { value: 'queued', label: 'Waiting' },
  { value: 'deferred', label: 'Deferred' },
  { value: 'held', label: 'Held' },
  { value: 'failed', label: 'Failed' },
];

function bulk(chosen: readonly QueuedMessage[], onAct: (target: Target) => void): JSX.Element {
  return el('div.bulk', { role: 'region', 'aria-label': 'Chosen messages' })(
    el('p')(`${writeCounted(chosen.length, 'message')} chosen`),
    choicesFor(chosen).map(({ action, label, ids, state }) => {
      const target = { action, count: ids.length, noun: 'message', body: { ids, ...state } } as const;
      return el(Button, { key: label, kind: action === 'drop' ? 'danger' : 'plain', onPress: () => onAct(target) })(
        label,
      );
    }),
  );
}

const filterNames = ['destination', 'route', 'state', 'q'] as const;

function nothingWaits(isFiltered: boolean): JSX.Element {
  if (!isFiltered) return empty('No message waits here', 'queue')('Everything that was accepted has been delivered.');
  return empty('No message waits here', 'queue')(
    el('p')('Everything has been delivered, or what waits fits other filters.'),
    h(ClearFilters, { names: filterNames }),
  );
}

/** Keeps which rows are chosen. @returns those, whether one is, and what chooses some or leaves them out */
function useChosen(rows: readonly QueuedMessage[]) {
  const [ids, setIds] = useState<ReadonlySet<string>>(new Set());
  const choose = (changed: readonly string[], isOn: boolean): void =>
    setIds(isOn ? ids.union(new Set(changed)) : ids.difference(new Set(changed)));
  const chosen = rows.filter(({ id }) => ids.has(id)).slice(0, mostChosen);
  return { chosen, isChosen: (id: string) => ids.has(id), choose };
}

function labelOfAll(count: number, loaded: number): string {
  if (count < loaded) return `Choose the first ${writeCount(count)}`;
  return count === 1 ? 'Choose the one that is loaded' : `Choose all ${writeCount(count)} that are loaded`;
}

/** The list. @param turn another one loads the list anew */
function WaitingMessages(props: { readonly onAct: (target: Target) => void; readonly turn: number }): JSX.Element {
  const filters = readFilters(place.value.search, filterNames);
  const { q, ...selected } = filters;
  const query = changeFilters('', { ...selected, search: q, per_page: '100' });
  const pages = usePages<QueuedMessage>(accountPath(`${queuePath}/messages${query}`), props.turn);
  const { rows } = pages;
  const { chosen, isChosen, choose } = useChosen(rows);
  const all = rows.slice(0, mostChosen).map(({ id }) => id);
  const choice = column<QueuedMessage>('tight doing', 'Choose', ({ id, recipient }) =>
    h(Checkbox, {
      ...{ label: `Choose the message to ${recipient}`, hidden: true, checked: isChosen(id) },
      onChange: (isOn) => choose([id], isOn),
    }),
  );
  return panel('Messages')(
    el('div.filters')(
      h(SearchBox, { label: 'Search', value: q, placeholder: 'Part of an address' }),
      h(FilterSelect, { label: 'State', name: 'state', choices: states }),
    ),
    filterChips(filters, { destination: 'Destination', route: 'Route' }),
    rows.length > 0 &&
      mayEdit.value &&
      h(Checkbox, {
        ...{ label: labelOfAll(all.length, rows.length), checked: chosen.length === all.length },
        mixed: chosen.length > 0 && chosen.length < all.length,
        onChange: (isOn) => choose(all, isOn),
      }),
    h(PagedTable<QueuedMessage>, {
      ...{ pages, what: 'messages', label: 'Messages that wait' },
      columns: mayEdit.value ? [choice, ...columns] : columns,
      none: nothingWaits(Object.keys(filters).length > 0),
    }),
    chosen.length > 0 && bulk(chosen, props.onAct),
  );
}

function filterOf({ destination, route }: QueueGroup): Readonly<Record<string, string>> {
  return { ...(destination === null ? {} : { destination }), ...(route === null ? {} : { route }) };
}

function nameOf({ destination, route }: QueueGroup): string {
  return destination ?? (route === null ? 'Set aside' : `Route ${route}`);
}

const groupColumns: readonly Column<QueueGroup>[] = [
  column('wide', 'Destination', (group) => [
    el('a', { key: 'to', href: linkTo('/queue', {}, group.route === null ? { state: 'held' } : filterOf(group)) })(
      el('strong')(brief(nameOf(group), 120)),
    ),
    el('span.sub')(
      isEveryAccount.value ? `${group.account}, ` : null,
      group.route === null
        ? 'by a hold'
        : group.destination === null
          ? 'all its domains'
          : ['by route ', el('bdi')(group.route)],
    ),
    group.hold ? h(HoldWords, { key: 'hold', hold: group.hold }) : null,
    group.last_reply ? el('span.sub.mono')(foreign(group.last_reply, 200)) : null,
  ]),
  column('tight', 'Next hop', ({ state }) => (state === null ? null : h(State, { state }))),
  column('number', 'Waiting', ({ depth }) => writeCount(depth)),
  column('number', 'Held', ({ held }) => writeCount(held)),
  column('tight', 'Oldest', ({ oldest_at: at }) => (at === null ? null : h(Time, { at, style: 'ago' }))),
  column('tight', 'Next try', ({ next_at: at }) => (at === null ? null : h(Time, { at, style: 'due' }))),
];

function actionColumn(onAct: (target: Target) => void): Column<QueueGroup> {
  const button = (action: Action, group: QueueGroup, count: number): JSX.Element => {
    const { verb } = actionWords[action];
    const name = nameOf(group);
    const target = { action, count, noun: 'recipient', account: group.account, group: name } as const;
    const onPress = (): void => onAct({ ...target, body: { filter: filterOf(group) } });
    return el(Button, { key: action, label: `${verb} all: ${name}`, onPress })(verb);
  };
  // What was set aside has no place by which it could be chosen; it is chosen message by message.
  return column('tight doing', 'Actions', (group) =>
    group.route === null
      ? null
      : el('div.row-actions')(
          group.held < group.depth ? button('retry', group, group.depth - group.held) : null,
          group.held < group.depth ? button('hold', group, group.depth - group.held) : null,
          group.hold?.releasable === true ? button('release', group, group.held) : null,
        ),
  );
}

function destinations(rows: readonly QueueGroup[], onAct: (target: Target) => void): JSX.Element {
  const depth = rows.reduce((sum, group) => sum + group.depth, 0);
  return panel(`${writeCounted(depth, 'recipient')} for ${writeCounted(rows.length, 'destination')}`)(
    h(Table<QueueGroup>, {
      ...{ label: 'Destinations', rows },
      columns: mayEdit.value ? [...groupColumns, actionColumn(onAct)] : groupColumns,
      keyOf: ({ account, destination, route }) => `${account} ${destination} ${route}`,
    }),
  );
}

/** The page. */
export function Page(): JSX.Element {
  const loaded = useAnswer<readonly QueueGroup[]>(accountPath(queuePath));
  const { show, dialog } = useDialog();
  const [turn, setTurn] = useState(0);
  useEvery(5000, loaded.refresh);
  const onDone = (): void => {
    setTurn(turn + 1);
    loaded.reload();
  };
  const onAct = (target: Target): void => show(h(ActionConfirm, { target, onDone }));
  return el('div')(
    pageHead('Queue', 'What was accepted and waits for its next hop, by destination.'),
    awaited(loaded, 'Loading the queue', (rows) => [
      rows.length === 0
        ? nothingWrong('The queue is empty', 'Everything that was accepted has been handed on.')
        : destinations(rows, onAct),
      h(WaitingMessages, { onAct, turn }),
    ]),
    dialog,
  );
}
