// Work with a large configuration on a thread of its own: to read a text of a mebibyte takes seconds, for which nobody else would be
// served.

import { parentPort, Worker, workerData } from 'node:worker_threads';
import { ConfigurationError, errorMessage } from '../../base/errors.ts';
import { environmentOfThread } from '../../base/load/compiled-code.ts';
import type { ConfigSource } from './config.ts';

/**
 * The heap limit of such a thread in MiB. V8 ends the whole process where a thread reaches its own: whoever sends a text bounds its entries, of
 * which 100,000 take less than half of this.
 */
const heapMebibytes = 1536;

/** A thread that answers questions about a configuration. */
export interface ConfigThread<Question, Answer> {
  /** Asks; the next question may be asked once this one is answered. @throws Error where the thread fails or has ended */
  readonly ask: (question: Question) => Promise<Answer>;
  /** Ends it. */
  readonly close: () => Promise<void>;
}

/** Faults of the configuration have a line each. */
type Told<Answer> = { readonly answer: Answer } | { readonly faults: string } | { readonly error: string };

/**
 * Starts a thread and waits until it has read a text as it would stand in the place of the file.
 * @param program a file that calls `answerOnThread`
 * @throws ConfigurationError with a line for each fault, or Error where the thread fails
 */
export async function openConfigThread<Question, Answer>(
  program: URL,
  { file, env, cwd }: ConfigSource,
  text: string,
): Promise<ConfigThread<Question, Answer>> {
  const worker = new Worker(program, {
    workerData: { ...(file !== undefined && { file }), cwd, text, env: { ...env } } satisfies ConfigSource,
    resourceLimits: { maxOldGenerationSizeMb: heapMebibytes },
    env: environmentOfThread(),
  });
  // A stop does not wait for it.
  worker.unref();
  let ended: Error | undefined;
  let asked: PromiseWithResolvers<unknown> | undefined;
  const over = (cause: unknown): void => {
    ended ??= new Error('The thread that works with a configuration has ended', { cause });
    asked?.reject(ended);
  };
  worker.on('error', over).on('exit', over);
  worker.on('message', (told: Told<unknown>) => {
    if ('answer' in told) asked?.resolve(told.answer);
    else asked?.reject('faults' in told ? new ConfigurationError(told.faults) : new Error(told.error));
  });
  const next = async (): Promise<unknown> => {
    if (ended) throw ended;
    asked = Promise.withResolvers();
    return await asked.promise;
  };
  const close = async (): Promise<void> => void (await worker.terminate());
  try {
    await next();
  } catch (error) {
    await close();
    throw error;
  }
  const ask = async (question: Question): Promise<Answer> => {
    if (!ended) worker.postMessage(question, []);
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what its program answers
    return (await next()) as Answer;
  };
  return { ask, close };
}

/** Answers on such a thread. @param open reads the configuration and gives what answers */
export async function answerOnThread(
  // oxlint-disable-next-line typescript/no-explicit-any -- what its only asker sends
  open: (place: ConfigSource) => Promise<(question: any) => Promise<unknown>>,
): Promise<void> {
  const port = parentPort;
  if (!port) throw new Error('This file runs as a thread that works with a configuration only');
  const tell = (told: Told<unknown>): void => port.postMessage(told, []);
  const failed = (error: unknown): void =>
    tell(error instanceof ConfigurationError ? { faults: error.message } : { error: errorMessage(error) });
  try {
    const answerTo = await open(workerData);
    port.on('message', (question) => void answerTo(question).then((answer) => tell({ answer }), failed));
    tell({ answer: undefined });
  } catch (error) {
    failed(error);
  }
}
