// Acting on what waits: asks first, says how many, and goes on until all of a selection is done.

import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { ask } from '../state/api.ts';
import { tell } from '../state/notices.ts';
import { accountPath, pathOfAccount } from '../state/session.ts';
import type { QueueDone, QueuedMessage } from '../state/shapes.ts';
import { writeCount, writeCounted } from '../text/amounts.ts';
import { Confirm } from './dialog.ts';
import { el, foreign } from './element.ts';

/** The path of the queue's endpoints. */
export const queuePath = '/email/sending/queue';

/** What can be done with what waits. */
export type Action = 'retry' | 'hold' | 'release' | 'drop';

/** How each is called, told, and explained; and why it may not apply to a message that is there. */
export const actionWords: Readonly<Record<Action, Readonly<Record<'verb' | 'done' | 'means' | 'not', string>>>> = {
  retry: {
    ...{ verb: 'Try', done: 'tried at once' },
    means: 'What waits is tried at once, whenever it was due.',
    not: 'nothing of it waits, or it is held',
  },
  hold: {
    ...{ verb: 'Hold', done: 'held' },
    means: 'Nothing is tried until somebody releases it. A delivery that is under way at this moment is not stopped.',
    not: 'as many are held as may be, or it has other recipients, too',
  },
  release: {
    ...{ verb: 'Release', done: 'released' },
    means: 'What was held is tried again from now on.',
    not: 'it was held by somebody whose holds you cannot lift, or by a rule',
  },
  drop: {
    ...{ verb: 'Drop', done: 'dropped' },
    means: 'Recipients that still wait never get it. It cannot be taken back.',
    not: 'it has other recipients, too',
  },
};

const choices: readonly {
  readonly action: Action;
  readonly label: string;
  readonly of: readonly QueuedMessage['state'][];
  /** Names the state of the recipients that are meant, where it is not clear from the action. */
  readonly state?: { readonly state: 'failed' };
}[] = [
  { action: 'retry', label: 'Try', of: ['queued', 'deferred'] },
  { action: 'retry', label: 'Try failed', of: ['failed'], state: { state: 'failed' } },
  { action: 'hold', label: 'Hold', of: ['queued', 'deferred'] },
  { action: 'release', label: 'Release', of: ['held'] },
  { action: 'drop', label: 'Drop', of: ['queued', 'deferred', 'held', 'failed'] },
];

/** What can be done with some messages, and the ids of those that it can be done to: as many are asked for. */
export function choicesFor(messages: readonly QueuedMessage[]) {
  return choices.flatMap(({ of, ...choice }) => {
    const ids = messages
      .filter(({ hold }) => choice.action !== 'release' || hold?.releasable === true)
      .filter(({ states }) => of.some((each) => states[each] > 0))
      .map(({ id }) => id);
    return ids.length === 0 ? [] : [{ ...choice, ids }];
  });
}

/** What an action is about: chosen messages, or all of a selection. */
export interface Target {
  readonly action: Action;
  readonly count: number;
  /** What `count` counts: messages where they were chosen, recipients where a group was. */
  readonly noun: 'message' | 'recipient';
  /** The group's name, where the action is about all that waits in one. */
  readonly group?: string;
  readonly body: object;
  /** Whose mail it is, where all accounts are looked at; absent: what is looked at. */
  readonly account?: string;
}

/** The most requests that one selection takes: each works for some seconds. */
const mostRequests = 200;

/** How many of what was asked for an answer tells of. */
function countOf({ noun }: Target, { done, recipients }: Pick<QueueDone, 'done' | 'recipients'>): number {
  return noun === 'message' ? done : recipients;
}

type Done = Omit<QueueDone, 'action'>;

/** Acts, as often as a selection takes. @returns what was done in all */
async function act(target: Target, onDone: (count: number) => void): Promise<Done> {
  const { action, body, account } = target;
  const actions = `${queuePath}/actions`;
  const path = account === undefined ? accountPath(actions) : pathOfAccount(account, actions);
  const sum = { done: 0, recipients: 0, skipped: 0, rule: false };
  let after: string | undefined;
  for (let requests = 0; requests < mostRequests; requests += 1) {
    const { result } = await ask<QueueDone>(path, { method: 'POST', body: { action, ...body, after } });
    sum.done += result.done;
    sum.recipients += result.recipients;
    sum.skipped += result.skipped;
    sum.rule ||= result.rule;
    onDone(countOf(target, sum));
    if (result.next === null) return { ...sum, next: null };
    after = result.next;
  }
  return { ...sum, next: after ?? null };
}

function outcome(target: Target, made: Done): readonly [string, 'done' | 'failed'] {
  const { action, noun, count: asked } = target;
  const { done, skipped, next, rule } = made;
  const { done: past, not } = actionWords[action];
  const count = countOf(target, made);
  if (done === 0) return [`No ${noun} was ${past}: ${asked === 1 ? 'it has' : 'they have'} gone, or ${not}.`, 'failed'];
  const later = rule && action === 'hold' ? ' So is what comes for it from now on.' : '';
  const others = skipped > 0 ? ` ${writeCounted(skipped, 'other message')} had gone, or ${not}.` : '';
  // The queue moves while somebody looks at it.
  const why = `the queue has moved meanwhile${action === 'release' ? ', or another hold keeps the others' : ''}`;
  const moved = skipped === 0 && next === null && count !== asked ? ` ${writeCount(asked)} were shown: ${why}.` : '';
  const rest = next === null ? '' : ' There are more; do it once more for them.';
  return [`${writeCounted(count, noun)} ${past}.${later}${others}${moved}${rest}`, 'done'];
}

/** Asks, acts, and tells. */
export function ActionConfirm(props: { readonly target: Target; readonly onDone: () => void }): JSX.Element {
  const { target, onDone } = props;
  const [progress, setProgress] = useState<number>();
  const { verb, means } = actionWords[target.action];
  const action = `${verb} ${writeCounted(target.count, target.noun)}`;
  const confirm = async (): Promise<void> => {
    tell(...outcome(target, await act(target, setProgress)));
    onDone();
  };
  return el(Confirm, { title: `${action}?`, action, danger: target.action === 'drop', onConfirm: confirm })(
    el('p')(means),
    target.group !== undefined &&
      target.action === 'hold' &&
      el('p')('What comes for ', foreign(target.group, 120), ' from now on is held, too, until it is released here.'),
    progress !== undefined && el('p.soft', { role: 'status' })(`${writeCounted(progress, target.noun)} so far`),
  );
}
