// Has work on what strangers write done in a process of its own, one piece after another, so that nothing else is kept waiting by
// it, whatever stands in it. Those who wait have their turns by who asked, so that who asks for costly work keeps mostly itself
// waiting. Work that takes too long or too much memory costs its process; the next one gets another. A thread would not do: V8
// ends the whole process where a thread's heap grows over its limit faster than the thread can be stopped.

import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { errorMessage, Unavailable } from './errors.ts';

/** How much one piece of work may cost. */
export interface WorkLimits {
  readonly milliseconds: number;
  readonly heapMebibytes: number;
}

/** What the process answers where the work cannot be done. */
export interface WorkFailure {
  readonly error: string;
  /** It took too long, for which a busy machine may be the reason. */
  readonly isLate?: true;
}

/** When askers shall come again where nothing can be done now, in seconds. */
const retrySeconds = 60;

interface Waiting<Question, Answer> {
  readonly question: Question;
  readonly settle: (answer: Answer | WorkFailure | Unavailable) => void;
}

function refusal(why: string): Unavailable {
  return new Unavailable(why, { reason: 'store', retryAfterSeconds: retrySeconds });
}

/** A process that answers questions, each by a message. It starts with the first question, and while idle it does not keep this process alive. */
export class AskedProcess<Question extends object, Answer extends object> {
  readonly #program: URL;
  readonly #limits: WorkLimits;
  readonly #environment: () => NodeJS.ProcessEnv;
  /** By who asked. Askers bound how many there are. */
  readonly #waiting = new Map<string, Waiting<Question, Answer>[]>();
  #process: ChildProcess | undefined;
  #current: Waiting<Question, Answer> | undefined;
  #patience: NodeJS.Timeout | undefined;
  #isTooLate = false;
  #isClosed = false;

  /** @param program answers each message of its process by one @param environment of it: what reads strangers' texts gets no secrets */
  constructor(program: URL, limits: WorkLimits, environment: () => NodeJS.ProcessEnv = () => ({})) {
    this.#environment = environment;
    this.#program = program;
    this.#limits = limits;
  }

  /**
   * Asks a question.
   * @param from who asks: the questions of one wait for each other
   * @returns the answer, or why there is none: the work took too long, or too much memory
   * @throws Unavailable where nothing can be asked now: the process cannot be started, or the gateway is stopping
   */
  async ask(question: Question, from: string): Promise<Answer | WorkFailure> {
    const answer = await new Promise<Answer | WorkFailure | Unavailable>((settle) => {
      const waiting = this.#waiting.get(from) ?? [];
      waiting.push({ question, settle });
      this.#waiting.set(from, waiting);
      this.#next();
    });
    if (answer instanceof Unavailable) throw answer;
    return answer;
  }

  /** Ends the process. What is still to be answered is refused for now. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const running = this.#process;
    if (running) {
      const ended = new Promise<void>((resolve) => running.once('exit', () => resolve()));
      // An idle one does not keep this process alive, and its end is waited for.
      running.ref();
      running.kill('SIGKILL');
      await ended;
    }
    this.#answered(refusal('The gateway is stopping'));
  }

  #next(): void {
    if (this.#current) return;
    const next = this.#takeTurn();
    if (!next) return;
    this.#current = next;
    if (this.#isClosed) return this.#answered(refusal('The gateway is stopping'));
    try {
      this.#process ??= this.#start();
      const reading = this.#process;
      reading.ref();
      reading.channel?.ref();
      this.#isTooLate = false;
      this.#patience = setTimeout(() => {
        this.#isTooLate = true;
        reading.kill('SIGKILL');
      }, this.#limits.milliseconds);
      // Where it cannot be sent, the process has ended, and its end is told.
      reading.send(next.question, () => undefined);
    } catch (error) {
      // Most errors of a start come by an event; Node throws others, and gives no channel where descriptors are used up.
      this.#process?.kill('SIGKILL');
      this.#process = undefined;
      queueMicrotask(() => this.#answered(refusal(`The process cannot be started: ${errorMessage(error)}`)));
    }
  }

  /** Takes the first question of whose turn it is; behind it that one is the last. */
  #takeTurn(): Waiting<Question, Answer> | undefined {
    for (const [from, waiting] of this.#waiting) {
      this.#waiting.delete(from);
      const next = waiting.shift();
      if (waiting.length > 0) this.#waiting.set(from, waiting);
      return next;
    }
    return undefined;
  }

  #answered(answer: Answer | WorkFailure | Unavailable): void {
    clearTimeout(this.#patience);
    const current = this.#current;
    this.#current = undefined;
    current?.settle(answer);
    this.#next();
    if (this.#current) return;
    this.#process?.unref();
    this.#process?.channel?.unref();
  }

  #start(): ChildProcess {
    const started = fork(fileURLToPath(this.#program), [], {
      serialization: 'advanced',
      // Without it young objects take as much as the whole limit, and V8 collects all garbage at every question.
      execArgv: ['--max-semi-space-size=4', `--max-old-space-size=${this.#limits.heapMebibytes}`],
      env: this.#environment(),
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    started.on('message', (answer) => {
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- only the program sends
      if (started === this.#process) this.#answered(answer as Answer);
    });
    const end = (answer: Answer | WorkFailure | Unavailable): void => {
      if (started !== this.#process) return;
      this.#process = undefined;
      if (this.#current) this.#answered(answer);
    };
    started.on('error', ({ message }) => end(refusal(`The process cannot be started: ${message}`)));
    started.on('exit', (code, signal) => {
      if (this.#isTooLate) end({ error: 'The reading was ended: it took too long', isLate: true });
      // V8 ends a process that has no more memory by one of these.
      else if (signal === 'SIGABRT' || signal === 'SIGTRAP' || signal === 'SIGILL')
        end({ error: 'The reading was ended: it took too much memory' });
      else end(refusal(`The process has ended with ${signal ?? code ?? 'nothing'}`));
    });
    return started;
  }
}

/** Has this process answer questions. @param answer what it throws becomes a WorkFailure @throws Error where nobody asks it */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- it names what the other process sends, as AskedProcess does
export function answerQuestions<Question>(answer: (question: Question) => Promise<object>): void {
  if (!process.send) throw new Error('This file runs only as a process that is asked');
  const answered = async (question: Question): Promise<void> => {
    const given = await answer(question).catch((error: unknown): WorkFailure => ({ error: errorMessage(error) }));
    process.send?.(given);
  };
  process.on('message', (question: Question) => void answered(question));
  // The gateway ends this process when it has no more to ask, and a signal to the whole group must not do so before.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGUSR1', 'SIGUSR2'] as const)
    process.on(signal, () => undefined);
  process.on('disconnect', () => process.exit());
}
