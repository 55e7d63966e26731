// Judges messages by another configuration on a thread of its own: a text of a mebibyte takes seconds to be read, and to name its faults.

import { Worker } from 'node:worker_threads';
import { ConfigurationError } from '../../base/errors.ts';
import { environmentOfThread } from '../../base/load/compiled-code.ts';
import type { KeptMessage } from '../../pipeline/report/would-pass.ts';
import type { OtherConfiguration } from '../../web/admin/journal/would-pass-endpoint.ts';
import type { ConfigSource } from '../config/config.ts';
import type { JudgingAnswer } from './judging-worker.ts';

/** The heap limit of that thread in MiB: a text has at most one, and becomes some hundred times as much. */
const heapMebibytes = 512;

/** The next answer of a thread. @throws ConfigurationError with the faults that it found, or Error where it failed or ended */
function answerOf(worker: Worker): Promise<readonly string[]> {
  return new Promise((resolve, reject) => {
    const answered = (answer: JudgingAnswer): void => {
      settle();
      if ('codes' in answer) resolve(answer.codes);
      else reject('faults' in answer ? new ConfigurationError(answer.faults) : new Error(answer.error));
    };
    const failed = (cause: unknown): void => {
      settle();
      reject(new Error('The thread that judges by another configuration has ended', { cause }));
    };
    const settle = (): void => void worker.off('message', answered).off('error', failed).off('exit', failed);
    worker.once('message', answered).once('error', failed).once('exit', failed);
  });
}

/** Makes what reads the text of another configuration, as it would stand in the place of the file. */
export function otherReader({ file, env, cwd }: ConfigSource): (text: string) => Promise<OtherConfiguration> {
  return async (text) => {
    const worker = new Worker(new URL('./judging-worker.ts', import.meta.url), {
      workerData: { ...(file !== undefined && { file }), cwd, text, env: { ...env } } satisfies ConfigSource,
      resourceLimits: { maxOldGenerationSizeMb: heapMebibytes },
      env: environmentOfThread(),
    });
    // A stop does not wait for it.
    worker.unref();
    const close = async (): Promise<void> => void (await worker.terminate());
    try {
      await answerOf(worker);
    } catch (error) {
      await close();
      throw error;
    }
    const judge = (kept: KeptMessage): Promise<readonly string[]> => {
      worker.postMessage(kept, []);
      return answerOf(worker);
    };
    return { judge, close };
  };
}
