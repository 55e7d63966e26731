// What waits: by destination and route, and message by message.

import { h, type JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Button } from '../../parts/controls.ts';
import { useDialog } from '../../parts/dialog.ts';
import { el } from '../../parts/element.ts';
import { type Column, doing, numbers, Table, tight, wide } from '../../parts/list.ts';
import { type Action, ActionConfirm, actionWords, queuePath, type Target } from '../../parts/queue-action.ts';
import { awaited, buttonLink, empty, pageHead, panel } from '../../parts/surfaces.ts';
import { brief, foreign, State, Time } from '../../parts/text.ts';
import { useAnswer, useEvery } from '../../state/loading.ts';
import { linkTo } from '../../state/location.ts';
import { accountPath, isEveryAccount, mayEdit } from '../../state/session.ts';
import type { QueueGroup } from '../../state/shapes.ts';
import { writeCount, writeCounted } from '../../text/amounts.ts';
import { HoldWords, WaitingMessages } from './waiting-messages.ts';

function filterOf({ destination, route }: QueueGroup): Readonly<Record<string, string>> {
  return { ...(destination === null ? {} : { destination }), ...(route === null ? {} : { route }) };
}

function nameOf({ destination, route }: QueueGroup): string {
  return destination ?? (route === null ? 'Set aside' : `Route ${route}`);
}

const columns: readonly Column<QueueGroup>[] = [
  wide('Destination', (group) => [
    h(
      'a',
      { key: 'to', href: linkTo('/queue', {}, group.route === null ? { state: 'held' } : filterOf(group)) },
      el('strong', brief(nameOf(group), 120)),
    ),
    el(
      'span.sub',
      isEveryAccount.value ? `${group.account}, ` : null,
      group.route === null
        ? 'by a hold'
        : group.destination === null
          ? 'all its domains'
          : ['by route ', el('bdi', group.route)],
    ),
    group.hold ? h(HoldWords, { key: 'hold', hold: group.hold }) : null,
    group.last_reply ? el('span.sub.mono', foreign(group.last_reply, 200)) : null,
  ]),
  tight('Next hop', ({ state }) => (state === null ? null : h(State, { state }))),
  numbers('Waiting', ({ depth }) => writeCount(depth)),
  numbers('Held', ({ held }) => writeCount(held)),
  tight('Oldest', ({ oldest_at: at }) => (at === null ? null : h(Time, { at, style: 'ago' }))),
  tight('Next try', ({ next_at: at }) => (at === null ? null : h(Time, { at, style: 'due' }))),
];

function actionColumn(onAct: (target: Target) => void): Column<QueueGroup> {
  const button = (action: Action, group: QueueGroup, count: number): JSX.Element => {
    const { verb } = actionWords[action];
    const name = nameOf(group);
    const target = { action, count, noun: 'recipient', account: group.account, group: name } as const;
    const onPress = (): void => onAct({ ...target, body: { filter: filterOf(group) } });
    return h(Button, { key: action, label: `${verb} all: ${name}`, onPress }, verb);
  };
  // What was set aside has no place by which it could be chosen; it is chosen message by message.
  return doing('Actions', (group) =>
    group.route === null
      ? null
      : el(
          'div.row-actions',
          group.held < group.depth ? button('retry', group, group.depth - group.held) : null,
          group.held < group.depth ? button('hold', group, group.depth - group.held) : null,
          group.hold?.releasable === true ? button('release', group, group.held) : null,
        ),
  );
}

function destinations(rows: readonly QueueGroup[], onAct: (target: Target) => void): JSX.Element {
  const depth = rows.reduce((sum, group) => sum + group.depth, 0);
  return panel(
    `${writeCounted(depth, 'recipient')} for ${writeCounted(rows.length, 'destination')}`,
    h(Table<QueueGroup>, {
      ...{ label: 'Destinations', rows },
      columns: mayEdit.value ? [...columns, actionColumn(onAct)] : columns,
      keyOf: ({ account, destination, route }) => `${account} ${destination} ${route}`,
    }),
  );
}

function nothingWaits(): JSX.Element {
  return empty(
    'The queue is empty',
    'check',
    el('p', 'Everything that was accepted has been handed on.'),
    buttonLink('/messages', 'messages', 'Look at the messages'),
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
  const onAct = (target: Target): void => show((onClose) => h(ActionConfirm, { target, onClose, onDone }));
  return el(
    'div',
    pageHead('Queue', 'What was accepted and waits for its next hop, by destination.'),
    awaited(loaded, 'Loading the queue', (rows) => [
      rows.length === 0 ? nothingWaits() : destinations(rows, onAct),
      h(WaitingMessages, { onAct, turn }),
    ]),
    dialog,
  );
}
