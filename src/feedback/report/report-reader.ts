// Reads reports on a thread of their own, one after another, so that submission is never kept waiting by a report, whatever
// stands in it. A report that takes too long or too much memory costs its thread; the next one gets another.

import { Worker } from 'node:worker_threads';
import type { Report } from './report.ts';
import type { ReportAnswer, ReportQuestion } from './report-worker.ts';

/** Reads what came to a bounce address. */
export interface ReportReader {
  /**
   * Reads a message. The octets are the reader's from now on.
   * @returns the reason in words where it cannot be read: it has too many parts, took too long, or too much memory
   */
  read(octets: Buffer, isFromNobody: boolean): Promise<Report | { readonly kind: 'unreadable'; readonly why: string }>;
  /** Ends the thread. What is still to be read is unreadable. */
  close(): Promise<void>;
}

/** How much one report may cost. */
export interface ReaderLimits {
  /** Milliseconds; a report of a megabyte takes some hundred. */
  readonly milliseconds: number;
  /** The heap of the thread in MiB; a report has at most one. */
  readonly heapMebibytes: number;
}

const readerLimits: ReaderLimits = { milliseconds: 10_000, heapMebibytes: 128 };

interface Waiting {
  readonly question: ReportQuestion;
  readonly settle: (answer: ReportAnswer) => void;
}

/** Makes a reader. Its thread starts with the first report, and while idle it does not keep the process alive. */
export function createReportReader(limits: ReaderLimits = readerLimits): ReportReader {
  return new Reader(limits);
}

class Reader implements ReportReader {
  readonly #limits: ReaderLimits;
  /** As many as connections to the bounce listener, since each waits for the answer to its message. */
  readonly #waiting: Waiting[] = [];
  #worker: Worker | undefined;
  #current: Waiting | undefined;
  #patience: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(limits: ReaderLimits) {
    this.#limits = limits;
  }

  async read(octets: Buffer, isFromNobody: boolean): ReturnType<ReportReader['read']> {
    const answer = await new Promise<ReportAnswer>((settle) => {
      this.#waiting.push({ question: { octets, isFromNobody }, settle });
      this.#next();
    });
    return 'report' in answer ? answer.report : { kind: 'unreadable', why: answer.error };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#worker?.terminate();
    this.#answered({ error: 'The gateway is stopping' });
  }

  #next(): void {
    if (this.#current) return;
    const next = this.#waiting.shift();
    if (!next) return;
    this.#current = next;
    if (this.#isClosed) {
      this.#answered({ error: 'The gateway is stopping' });
      return;
    }
    this.#worker ??= this.#start();
    this.#worker.ref();
    this.#patience = setTimeout(() => void this.#worker?.terminate(), this.#limits.milliseconds);
    this.#worker.postMessage(next.question, []);
  }

  #answered(answer: ReportAnswer): void {
    clearTimeout(this.#patience);
    const current = this.#current;
    this.#current = undefined;
    current?.settle(answer);
    this.#next();
    if (!this.#current) this.#worker?.unref();
  }

  #start(): Worker {
    const started = new Worker(new URL('./report-worker.ts', import.meta.url), {
      resourceLimits: { maxOldGenerationSizeMb: this.#limits.heapMebibytes },
    });
    started.on('message', (answer: ReportAnswer) => this.#answered(answer));
    let cause = 'it took too long';
    started.on('error', (error: Error) => void (cause = error.message));
    started.on('exit', () => {
      this.#worker = undefined;
      if (this.#current) this.#answered({ error: `The reading was ended: ${cause}` });
    });
    return started;
  }
}
