// Reads reports. Those of the plainest form are read at once, by a reader whose cost has a bound (strict-report.ts). All others
// are read in a process of their own, one after another, so that submission is never kept waiting by a report, whatever stands
// in it. Those who wait have their turns by address, so that who sends costly ones keeps mostly itself waiting. A report that
// takes too long or too much memory costs its process; the next one gets another. A thread would not do: V8 ends the whole
// process where a thread's heap grows over its limit faster than the thread can be stopped.

import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { Unavailable } from '../../base/errors.ts';
import type { Report } from './report.ts';
import type { ReportAnswer, ReportQuestion } from './report-process.ts';
import { readStrictReport } from './strict-report.ts';

/** Reads what came to a bounce address. */
export interface ReportReader {
  /**
   * Reads a message.
   * @param from who sent it: the messages of one address wait for each other
   * @returns the reason in words where it cannot be read: it has too many parts, took too long, or too much memory
   * @throws Unavailable where nothing can be read now: the process cannot be started, or the gateway is stopping
   */
  read(
    octets: Buffer,
    about: { readonly isFromNobody: boolean; readonly from: string },
  ): Promise<Report | { readonly kind: 'unreadable'; readonly why: string }>;
  /** Ends the process. What is still to be read is refused for now. */
  close(): Promise<void>;
}

/** How much one report may cost. */
export interface ReaderLimits {
  /** Milliseconds; a report of a megabyte takes some hundred. */
  readonly milliseconds: number;
  /** The heap of the process in MiB; a report has at most one. */
  readonly heapMebibytes: number;
}

const readerLimits: ReaderLimits = { milliseconds: 10_000, heapMebibytes: 128 };
/** When senders shall come again with a report that was not read, in seconds. */
const retrySeconds = 60;

interface Waiting {
  readonly question: ReportQuestion;
  readonly settle: (answer: ReportAnswer | Unavailable) => void;
}

/** Makes a reader. Its process starts with the first report that needs it, and while idle it does not keep this process alive. */
export function createReportReader(limits: ReaderLimits = readerLimits): ReportReader {
  return new Reader(limits);
}

function refusal(why: string): Unavailable {
  return new Unavailable(why, { reason: 'store', retryAfterSeconds: retrySeconds });
}

class Reader implements ReportReader {
  readonly #limits: ReaderLimits;
  /** By address. As many as connections to the bounce listener, since each waits for the answer to its message. */
  readonly #waiting = new Map<string, Waiting[]>();
  #process: ChildProcess | undefined;
  #current: Waiting | undefined;
  #patience: NodeJS.Timeout | undefined;
  #isTooLate = false;
  #isClosed = false;

  constructor(limits: ReaderLimits) {
    this.#limits = limits;
  }

  async read(
    octets: Buffer,
    { isFromNobody, from }: { readonly isFromNobody: boolean; readonly from: string },
  ): ReturnType<ReportReader['read']> {
    const strict = readStrictReport(octets);
    if (strict) return strict;
    const answer = await new Promise<ReportAnswer | Unavailable>((settle) => {
      const waiting = this.#waiting.get(from) ?? [];
      waiting.push({ question: { octets, isFromNobody }, settle });
      this.#waiting.set(from, waiting);
      this.#next();
    });
    if (answer instanceof Unavailable) throw answer;
    return 'report' in answer ? answer.report : { kind: 'unreadable', why: answer.error };
  }

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
    if (this.#isClosed) {
      this.#answered(refusal('The gateway is stopping'));
      return;
    }
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
  }

  /** Takes the first message of the address whose turn it is; behind it the address is the last one. */
  #takeTurn(): Waiting | undefined {
    for (const [from, waiting] of this.#waiting) {
      this.#waiting.delete(from);
      const next = waiting.shift();
      if (waiting.length > 0) this.#waiting.set(from, waiting);
      return next;
    }
    return undefined;
  }

  #answered(answer: ReportAnswer | Unavailable): void {
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
    const started = fork(fileURLToPath(new URL('./report-process.ts', import.meta.url)), [], {
      serialization: 'advanced',
      // Without a bound on young objects they come to take as much as the whole limit, and V8 then collects all garbage at
      // every report.
      execArgv: ['--max-semi-space-size=4', `--max-old-space-size=${this.#limits.heapMebibytes}`],
      // It reads what strangers write, and needs none of the secrets that may stand there.
      env: {},
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    started.on('message', (answer) => {
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- only report-process.ts sends
      if (started === this.#process) this.#answered(answer as ReportAnswer);
    });
    const end = (answer: ReportAnswer | Unavailable): void => {
      if (started !== this.#process) return;
      this.#process = undefined;
      if (this.#current) this.#answered(answer);
    };
    started.on('error', ({ message }) => end(refusal(`Reports cannot be read: ${message}`)));
    started.on('exit', (code, signal) => {
      if (this.#isTooLate) end({ error: 'The reading was ended: it took too long' });
      // V8 ends a process that has no more memory by one of these.
      else if (signal === 'SIGABRT' || signal === 'SIGTRAP' || signal === 'SIGILL')
        end({ error: 'The reading was ended: it took too much memory' });
      else end(refusal(`The process that reads reports has ended with ${signal ?? code ?? 'nothing'}`));
    });
    return started;
  }
}
