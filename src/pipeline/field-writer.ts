// Writes long header fields on a thread: 256 KiB take 100 to 200 ms, and the work cannot be cut into slices.

import { Worker } from 'node:worker_threads';
import type { WriteLongField } from './compose/field-text.ts';
import type { FieldAnswer } from './field-worker.ts';

/** The heap limit of that thread in MiB; a field has at most 256 KiB. */
const heapMebibytes = 256;

/** Makes a writer with a thread from the first field on, which keeps no process alive. A message waits for one field at a time. */
export function createFieldWriter(): WriteLongField {
  let worker: Worker | undefined;
  const pending: Pick<PromiseWithResolvers<string>, 'resolve' | 'reject'>[] = [];

  function start(): Worker {
    const started = new Worker(new URL('./field-worker.ts', import.meta.url), {
      resourceLimits: { maxOldGenerationSizeMb: heapMebibytes },
    });
    started.on('message', (answer: FieldAnswer) => {
      const asked = pending.shift();
      if (pending.length === 0) started.unref();
      if ('line' in answer) asked?.resolve(answer.line);
      else asked?.reject(new Error(answer.error));
    });
    let cause: unknown;
    started.on('error', (error) => void (cause = error));
    started.on('exit', () => {
      worker = undefined;
      const error = new Error('The thread that writes long fields has ended', { cause });
      for (const { reject } of pending.splice(0)) reject(error);
    });
    return started;
  }

  return (...field) =>
    new Promise((resolve, reject) => {
      worker ??= start();
      worker.ref();
      pending.push({ resolve, reject });
      worker.postMessage(field, []);
    });
}
