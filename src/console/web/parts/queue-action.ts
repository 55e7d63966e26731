// Acting on what waits: asks first, says how many, and goes on until all of a selection is done.

import { h, type JSX } from 'preact';
import { useState } from 'preact/hooks';
import { ask } from '../state/api.ts';
import { tell } from '../state/notices.ts';
import { accountPath, pathOfAccount } from '../state/session.ts';
import type { QueueDone } from '../state/shapes.ts';
import { writeCounted } from '../text/amounts.ts';
import { Confirm } from './dialog.ts';

/** The path of the queue's endpoints. */
export const queuePath = '/email/sending/queue';

/** What can be done with what waits. */
export type Action = 'retry' | 'hold' | 'release' | 'drop';

/** How each is called, told, and explained: of one, and of several. */
export const actionWords: Readonly<
  Record<Action, { readonly verb: string; readonly done: string; readonly one: string; readonly many: string }>
> = {
  retry: {
    ...{ verb: 'Try', done: 'tried at once' },
    one: 'It is tried at once, whenever it was due.',
    many: 'They are tried at once, whenever they were due.',
  },
  hold: {
    ...{ verb: 'Hold', done: 'held' },
    one: 'It is not tried until somebody releases it. A delivery that is under way at this moment is not stopped.',
    many: 'They are not tried until somebody releases them. Deliveries that are under way at this moment are not stopped.',
  },
  release: {
    ...{ verb: 'Release', done: 'released' },
    one: 'It is tried again from now on.',
    many: 'They are tried again from now on.',
  },
  drop: {
    ...{ verb: 'Drop', done: 'dropped' },
    one: 'Recipients that still wait never get it. It cannot be taken back.',
    many: 'Recipients that still wait never get these messages. It cannot be taken back.',
  },
};

/** Why an action may not apply to a message that is there. */
const whyNot: Readonly<Record<Action, string>> = {
  retry: 'nothing of it waits',
  hold: 'as many are held as may be',
  release: 'it was held by somebody whose holds you cannot lift, or by a rule',
  drop: 'it also waits for other recipients',
};

/** What an action is about: chosen messages, or all of a selection. */
export interface Target {
  readonly action: Action;
  readonly count: number;
  /** What `count` counts: messages where they were chosen, recipients where a group was. */
  readonly noun: 'message' | 'recipient';
  readonly body: object;
  /** Whose mail it is, where all accounts are looked at; absent: what is looked at. */
  readonly account?: string;
}

/** The most requests that one selection takes: each works for some seconds. */
const mostRequests = 200;

/** Acts, as often as a selection takes. @returns how many messages, and how many were left as they were */
async function act({ action, body, account }: Target, onDone: (done: number) => void): Promise<QueueDone> {
  const actions = `${queuePath}/actions`;
  const path = account === undefined ? accountPath(actions) : pathOfAccount(account, actions);
  let [done, skipped, after] = [0, 0, undefined as string | undefined];
  for (let requests = 0; requests < mostRequests; requests += 1) {
    const asked = { action, ...body, ...(after === undefined ? {} : { after }) };
    const { result } = await ask<QueueDone>(path, { method: 'POST', body: asked });
    done += result.done;
    skipped += result.skipped;
    onDone(done);
    if (result.next === null) return { done, skipped, next: null };
    after = result.next;
  }
  return { done, skipped, next: after ?? null };
}

/** Says what was done, and whether that was what was wanted. */
function outcome({ action }: Target, { done, skipped, next }: QueueDone): readonly [string, 'done' | 'failed'] {
  const { done: past } = actionWords[action];
  if (done === 0)
    return [`No message was ${past}: ${skipped === 1 ? 'it has' : 'they have'} gone, or ${whyNot[action]}.`, 'failed'];
  const others = skipped > 0 ? ` ${writeCounted(skipped, 'other')} had gone, or ${whyNot[action]}.` : '';
  const rest = next === null ? '' : ' There are more; do it once more for them.';
  return [`${writeCounted(done, 'message')} ${past}.${others}${rest}`, 'done'];
}

/** Asks, acts, and tells. */
export function ActionConfirm(props: {
  readonly target: Target;
  readonly onClose: () => void;
  readonly onDone: () => void;
}): JSX.Element {
  const { target, onClose, onDone } = props;
  const [progress, setProgress] = useState<number>();
  const { verb, one, many } = actionWords[target.action];
  const action = `${verb} ${writeCounted(target.count, target.noun)}`;
  const confirm = async (): Promise<void> => {
    const { done, skipped, next } = await act(target, setProgress);
    tell(...outcome(target, { done, skipped, next }));
    onDone();
  };
  return h(
    Confirm,
    { title: `${action}?`, action, danger: target.action === 'drop', onConfirm: confirm, onClose },
    h('p', null, target.count === 1 && target.noun === 'message' ? one : many),
    progress === undefined
      ? null
      : h('p', { class: 'soft', role: 'status' }, `${writeCounted(progress, 'message')} so far`),
  );
}
