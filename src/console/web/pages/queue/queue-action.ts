// Acting on what waits: asks first, says how many, and goes on until all of a selection is done.

import { h, type JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Confirm } from '../../parts/dialog.ts';
import { ask } from '../../state/api.ts';
import { tell } from '../../state/notices.ts';
import { accountPath } from '../../state/session.ts';
import type { QueueDone } from '../../state/shapes.ts';
import { writeCounted } from '../../text/amounts.ts';

/** The path of the queue's endpoints. */
export const queuePath = '/email/sending/queue';

/** What can be done with what waits. */
export type Action = 'retry' | 'hold' | 'release' | 'drop';

/** How each is called, told, and explained. */
export const actionWords: Readonly<
  Record<Action, { readonly verb: string; readonly done: string; readonly text: string }>
> = {
  retry: { verb: 'Try', done: 'tried at once', text: 'They are tried at once, whenever they were due.' },
  hold: { verb: 'Hold', done: 'held', text: 'They are not tried until somebody releases them.' },
  release: { verb: 'Release', done: 'released', text: 'They are tried again from now on.' },
  drop: {
    verb: 'Drop',
    done: 'dropped',
    text: 'Recipients that still wait never get these messages. It cannot be taken back.',
  },
};

/** What an action is about: chosen messages, or all of a selection. */
export interface Target {
  readonly action: Action;
  readonly count: number;
  /** What `count` counts: messages where they were chosen, recipients where a group was. */
  readonly noun: 'message' | 'recipient';
  readonly body: object;
}

/** The most requests that one selection takes: each works for some seconds. */
const mostRequests = 200;

/** Acts, as often as a selection takes. @returns how many messages, and how many were left as they were */
async function act({ action, body }: Target, onDone: (done: number) => void): Promise<QueueDone> {
  const path = accountPath(`${queuePath}/actions`);
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

/** Asks, acts, and tells. */
export function ActionConfirm(props: {
  readonly target: Target;
  readonly onClose: () => void;
  readonly onDone: () => void;
}): JSX.Element {
  const { target, onClose, onDone } = props;
  const [progress, setProgress] = useState<number>();
  const { verb, done: past, text } = actionWords[target.action];
  const action = `${verb} ${writeCounted(target.count, target.noun)}`;
  const confirm = async (): Promise<void> => {
    const { done, skipped } = await act(target, setProgress);
    const others = skipped > 0 ? ` ${writeCounted(skipped, 'other')} had gone or could not be.` : '';
    tell(`${writeCounted(done, 'message')} ${past}.${others}`);
    onDone();
  };
  return h(
    Confirm,
    { title: `${action}?`, action, danger: target.action === 'drop', onConfirm: confirm, onClose },
    h('p', null, text),
    progress === undefined
      ? null
      : h('p', { class: 'soft', role: 'status' }, `${writeCounted(progress, 'message')} so far`),
  );
}
