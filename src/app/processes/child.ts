// The supervisor's end of the channel to one process, and what is known of it.

import type { Worker } from 'node:cluster';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Listening } from '../wiring/addresses.ts';
import type { FromProcess, Inquiries, StartOrder, ToProcess } from './messages.ts';

/** How a process ended. */
export interface ProcessEnd {
  readonly code: number | null;
  readonly signal: string | null;
  readonly failed?: { readonly exitCode: number; readonly reason: string };
}

/** How a process that is stuck is found. */
export interface StuckWatch {
  /** How often it is asked whether it is alive, in milliseconds. */
  readonly everyMs: number;
  /** How often in a row it may give no answer. */
  readonly most: number;
  /** How often in a row it may be found stopped meanwhile: nothing that it does ends that. */
  readonly mostStopped: number;
}

/** Whether somebody has stopped a process (`T` in /proc/PID/stat, proc_pid_stat(5)), which keeps its locks; false where not known. */
function isStopped(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The name before the state is in brackets and may have brackets in it.
    return stat.slice(stat.lastIndexOf(')') + 2).startsWith('T');
  } catch {
    return false;
  }
}

/** A process that the supervisor has started. */
export class Child {
  readonly number: number;
  /** The configuration that it has, by the supervisor's count. */
  version: number;
  readonly pid: number;
  readonly ended: Promise<ProcessEnd>;
  readonly #serving = Promise.withResolvers<readonly Listening[]>();
  /** Resolves when it takes connections; never where it ends before. */
  readonly serving = this.#serving.promise;
  readonly #worker: Worker;
  readonly #inquiries = new Map<number, (answer: unknown) => void>();
  #inquired = 0;
  isDraining = false;
  /** It has said that it hears what it is told. */
  #hears = false;
  #failed: ProcessEnd['failed'];
  readonly #end = new AbortController();
  /** Undefined while it takes no connections. */
  servingSince: number | undefined;
  hasEnded = false;

  constructor(worker: Worker, order: StartOrder, hear: (message: FromProcess) => void) {
    this.#worker = worker;
    this.number = order.number;
    this.version = order.version;
    this.pid = worker.process.pid ?? 0;
    this.ended = new Promise((resolve) => {
      const end = (code: number | null, signal: string | null): void => {
        this.hasEnded = true;
        this.#end.abort();
        for (const answer of this.#inquiries.values()) answer(undefined);
        resolve({ code, signal, ...(this.#failed ? { failed: this.#failed } : {}) });
      };
      worker.process.once('exit', end);
      worker.process.on('error', (error) => {
        // A message to a process that has just ended fails, too; its end is told by `exit`.
        if (worker.process.pid !== undefined) return;
        this.#failed ??= { exitCode: 1, reason: `process ${this.number} could not be started: ${error.message}` };
        end(null, null);
      });
    });
    // What fails is told to the process's own listener above.
    worker.on('error', () => undefined);
    worker.on('message', (message: FromProcess) => {
      if (message.kind === 'hello') this.#greet(order);
      else this.#hear(message, hear);
    });
  }

  /** Watches the process while it starts. @returns for how many milliseconds it was found stopped; undefined once it hears or has ended */
  async untilHeard({ everyMs, mostStopped }: StuckWatch): Promise<number | undefined> {
    let stopped = 0;
    while (!this.#hears && !this.hasEnded) {
      if (stopped >= mostStopped) return stopped * everyMs;
      await this.#rest(everyMs);
      stopped = isStopped(this.pid) ? stopped + 1 : 0;
    }
    return undefined;
  }

  /** Watches the process from when it hears. @returns for how many milliseconds it has been silent; undefined where it has ended */
  async untilStuck({ everyMs, most, mostStopped }: StuckWatch): Promise<number | undefined> {
    let [missed, stopped] = [0, 0];
    while (missed < most && stopped < mostStopped && !this.hasEnded) {
      const askedAt = performance.now();
      missed = (await this.inquire('alive', null, everyMs)) === true ? 0 : missed + 1;
      stopped = missed > 0 && isStopped(this.pid) ? stopped + 1 : 0;
      const restMs = askedAt + everyMs - performance.now();
      if (restMs > 0) await this.#rest(restMs);
    }
    return this.hasEnded ? undefined : missed * everyMs;
  }

  /** Waits for a time, or until the process ends. Promise.race with `ended` would leave something behind for each question. */
  async #rest(restMs: number): Promise<void> {
    await sleep(restMs, undefined, { ref: false, signal: this.#end.signal }).catch(() => undefined);
  }

  #greet(order: StartOrder): void {
    this.#hears = true;
    this.tell({ kind: 'start', ...order });
    if (this.isDraining) this.tell({ kind: 'drain' });
  }

  drain(): void {
    this.isDraining = true;
    this.tell({ kind: 'drain' });
  }

  /** Tells the process something; nothing happens where it has ended. */
  tell(message: ToProcess): void {
    if (!this.#worker.isConnected()) return;
    this.#worker.send(message, () => undefined);
  }

  kill(signal: NodeJS.Signals): void {
    this.#worker.process.kill(signal);
  }

  /** Asks the process; undefined where it has ended or gives no answer within so many milliseconds. */
  async inquire<About extends keyof Inquiries>(
    about: About,
    asked: Inquiries[About]['asked'],
    withinMs: number,
  ): Promise<Inquiries[About]['answer'] | undefined> {
    if (this.hasEnded) return undefined;
    this.#inquired += 1;
    const id = this.#inquired;
    const answer = await new Promise<unknown>((resolve) => {
      const patience = setTimeout(() => resolve(undefined), withinMs);
      this.#inquiries.set(id, (given) => {
        clearTimeout(patience);
        resolve(given);
      });
      this.tell({ kind: 'inquire', id, about, asked });
    });
    this.#inquiries.delete(id);
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the process answers each inquiry with its own kind
    return answer as Inquiries[About]['answer'] | undefined;
  }

  #hear(message: Exclude<FromProcess, { kind: 'hello' }>, hear: (message: FromProcess) => void): void {
    switch (message.kind) {
      case 'told':
        return this.#inquiries.get(message.id)?.(message.answer);
      case 'failed':
        this.#failed = message;
        return;
      case 'serving':
        this.servingSince = performance.now();
        return this.#serving.resolve(message.listening);
      case 'draining':
      case 'ask':
      case 'placesBack':
      case 'minuteBack':
      case 'failure':
        return hear(message);
      default:
        message satisfies never;
    }
  }
}
