// Work with a large configuration in a process of its own: it takes seconds, and memory for which V8 could end the gateway.

import { AskedProcess, answerQuestions, type WorkLimits } from '../../base/asked-process.ts';
import { ConfigurationError, errorMessage } from '../../base/errors.ts';
import { environmentOfProcess } from '../../base/load/compiled-code.ts';
import type { ConfigSource } from './config.ts';

/** Ten times what the most entries that are read take on a machine of today. */
const limits: WorkLimits = { milliseconds: 30_000, heapMebibytes: 1536 };

type Asked<Question> = { readonly open: ConfigSource } | { readonly question: Question };
/** Faults of the configuration have a line each. */
type Told<Answer> = { readonly answer: Answer } | { readonly faults: string };

/** A process that answers questions about a configuration. */
export interface ConfigProcess<Question, Answer> {
  /** Asks. @throws Error where the process fails, or has ended since it read the configuration */
  readonly ask: (question: Question) => Promise<Answer>;
  readonly close: () => Promise<void>;
}

/** Starts a process that reads a text in place of the file. @throws ConfigurationError with its faults, or Error where it fails */
export async function openConfigProcess<Question, Answer>(
  program: URL,
  { file, env, cwd }: ConfigSource,
  text: string,
): Promise<ConfigProcess<Question, Answer>> {
  const started = new AskedProcess<Asked<Question>, Told<Answer>>(program, limits, environmentOfProcess);
  const told = async (asked: Asked<Question>): Promise<Answer> => {
    const given = await started.ask(asked, '').catch((error: unknown) => ({ error: errorMessage(error) }));
    if ('answer' in given) return given.answer;
    throw 'faults' in given ? new ConfigurationError(given.faults) : new Error(given.error);
  };
  const close = (): Promise<void> => started.close();
  try {
    await told({ open: { ...(file !== undefined && { file }), cwd, text, env: { ...env } } });
  } catch (error) {
    await close();
    throw error;
  }
  return { ask: (question) => told({ question }), close };
}

/** Answers in such a process. @param open reads the configuration and gives what answers */
export function answerAboutConfig(
  // oxlint-disable-next-line typescript/no-explicit-any -- what its only asker sends
  open: (place: ConfigSource) => Promise<(question: any) => Promise<unknown>>,
): void {
  let answerTo: ((question: unknown) => Promise<unknown>) | undefined;
  answerQuestions(async (asked: Asked<unknown>): Promise<Told<unknown>> => {
    try {
      if ('open' in asked) {
        answerTo = await open(asked.open);
        return { answer: undefined };
      }
      if (!answerTo) throw new Error('The process that had read the configuration has ended');
      return { answer: await answerTo(asked.question) };
    } catch (error) {
      if (error instanceof ConfigurationError) return { faults: error.message };
      throw error;
    }
  });
}
