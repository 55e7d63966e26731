// Counts what happens by account and minute: in memory, and every two seconds into the database. What was counted since then is lost
// when the process is killed; a stop writes everything.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../../base/clock.ts';
import { errorMessage } from '../../base/errors.ts';
import { onceAtATime } from '../../base/load/once-at-a-time.ts';
import type { Logger } from '../../base/log.ts';
import { type Counted, type Figure, type FigureQuery, type FigureStore, momentPrefix } from './figure-store.ts';

const minuteMs = 60_000;
const writeEveryMs = 2000;
/** Figures that may wait to be written. More are not counted. */
const mostWaiting = 50_000;
/** Names of an account in a minute. What would be another is counted as what it stands for instead. */
const mostNames = 200;
/** How long figures are kept, in minutes. */
export const keptMinutes = 24 * 60;

/** What counting needs. */
export interface MinuteFiguresParts {
  readonly store: FigureStore;
  readonly clock: Pick<Clock, 'now'>;
  readonly log: Logger;
}

/** The figures of this process, and of all. */
export class MinuteFigures {
  readonly #parts: MinuteFiguresParts;
  /** What is counted is added in place. */
  readonly #waiting = new Map<string, Figure & { count: number }>();
  /** The names of each account in its latest minute. There are as many entries as accounts. */
  readonly #names = new Map<string, { readonly minute: number; readonly names: Set<string> }>();
  readonly #ended = new AbortController();
  #running: Promise<void> | undefined;
  #prunedMinute = 0;
  #isFailing = false;

  constructor(parts: MinuteFiguresParts) {
    this.#parts = parts;
  }

  /** Counts. @param at when it happened, milliseconds since 1970 */
  count(account: string, at: number, counted: readonly Counted[]): void {
    const minute = Math.floor(at / minuteMs);
    for (const { name, instead = name, count } of counted) {
      this.#add(account, minute, this.#admits(account, minute, name) ? name : instead, count);
    }
  }

  #admits(account: string, minute: number, name: string): boolean {
    let known = this.#names.get(account);
    if (known?.minute !== minute) {
      known = { minute, names: new Set() };
      this.#names.set(account, known);
    }
    if (known.names.has(name)) return true;
    if (known.names.size >= mostNames) return false;
    known.names.add(name);
    return true;
  }

  #add(account: string, minute: number, name: string, count: number): void {
    const key = `${account} ${minute} ${name}`;
    const before = this.#waiting.get(key);
    if (before) before.count = name.startsWith(momentPrefix) ? count : before.count + count;
    else if (this.#waiting.size < mostWaiting) this.#waiting.set(key, { account, minute, name, count });
  }

  /** Reads figures, those that this process has just counted among them. */
  async read(query: FigureQuery): Promise<readonly Omit<Figure, 'account'>[]> {
    await this.write();
    return await this.#parts.store.read(query);
  }

  /** Writes what waits. Calls meanwhile share one writing. Never rejects: what could not be written waits for the next time. */
  readonly write = onceAtATime(() => this.#write());

  async #write(): Promise<void> {
    const { store, clock, log } = this.#parts;
    const figures = [...this.#waiting.values()];
    this.#waiting.clear();
    try {
      if (figures.length > 0) await store.add(figures);
      const oldest = Math.floor(clock.now() / minuteMs) - keptMinutes;
      if (oldest > this.#prunedMinute) await store.prune(oldest);
      this.#prunedMinute = oldest;
      this.#isFailing = false;
    } catch (error) {
      for (const { account, minute, name, count } of figures) this.#add(account, minute, name, count);
      if (!this.#isFailing) log.warn({ reason: errorMessage(error) }, 'figures by minute could not be written');
      this.#isFailing = true;
    }
  }

  /** Writes every two seconds from now on. */
  start(): void {
    this.#running = this.#run();
  }

  async #run(): Promise<void> {
    while (!this.#ended.signal.aborted) {
      await sleep(writeEveryMs, undefined, { signal: this.#ended.signal, ref: false }).catch(() => undefined);
      await this.write();
    }
  }

  /** Writes what waits and ends. */
  async stop(): Promise<void> {
    this.#ended.abort();
    await this.#running;
    await this.write();
  }
}
