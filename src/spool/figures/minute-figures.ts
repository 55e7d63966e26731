// Counts what happens by account and minute, in memory and every two seconds in the database: a killed process loses what came since.
// Once a minute it tells how much waits, for each account and for all; every process tells the same, and the last one counts.

import { setInterval } from 'node:timers/promises';
import type { Clock } from '../../base/clock.ts';
import { errorMessage } from '../../base/errors.ts';
import { onceAtATime } from '../../base/load/once-at-a-time.ts';
import type { Logger } from '../../base/log.ts';
import { Part } from '../../base/part.ts';
import {
  type Counted,
  type Figure,
  type FigureQuery,
  type FigureStore,
  momentPrefix,
  waitingNames,
} from './figure-store.ts';

const minuteMs = 60_000;
const writeEveryMs = 2000;
/** Figures that may wait to be written. More are not counted. */
const mostWaiting = 50_000;
/** Names of an account in a minute. What would be another is counted as what it stands for instead. */
const mostNames = 200;
/** How long figures are kept, in minutes. */
export const keptMinutes = 24 * 60;

/** Does work, which must not reject, with a pause before each time. @returns ends that, and waits for what is under way */
function again(pauseMs: number, work: () => Promise<void>): () => Promise<void> {
  const ended = new AbortController();
  const run = async (): Promise<void> => {
    for await (const _ of setInterval(pauseMs, undefined, { signal: ended.signal, ref: false })) await work();
  };
  const running = run().catch(() => undefined);
  return async () => {
    ended.abort();
    await running;
  };
}

/** What counting, and telling what waits, needs. */
interface CountingParts {
  readonly clock: Pick<Clock, 'now'>;
  readonly log: Logger;
}

/** The figures of this process, and of all. */
export class MinuteFigures extends Part<CountingParts & { readonly store: FigureStore }> {
  /** What is counted is added in place. */
  readonly #waiting = new Map<string, Figure & { count: number }>();
  /** The names of each account in its latest minute. There are as many entries as accounts. */
  readonly #names = new Map<string, { readonly minute: number; readonly names: Set<string> }>();
  #stop: () => Promise<void> = () => Promise.resolve();
  #prunedMinute = 0;
  #isFailing = false;

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
    return await this.parts.store.read(query);
  }

  /** Writes what waits. Calls meanwhile share one writing. Never rejects: what could not be written waits for the next time. */
  readonly write = onceAtATime(() => this.#write());

  async #write(): Promise<void> {
    const { store, clock, log } = this.parts;
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
    this.#stop = again(writeEveryMs, this.write);
  }

  /** Writes what waits and ends. */
  async stop(): Promise<void> {
    await this.#stop();
    await this.write();
  }
}

/** How often it is asked whether a new minute has begun, in milliseconds. */
const lookEveryMs = 1000;
/** Accounts that are told of one by one: those with the most that waits. */
const mostAccounts = 1000;

/** The name under which all accounts together are told of. No account has it. */
export const allAccounts = '';

/** What waits for each account in recipients, and when the oldest was accepted, of each and of all (since 1970), if known. */
export interface Queues {
  readonly oldestAt?: number | undefined;
  readonly accounts: readonly (Pick<Queues, 'oldestAt'> & { readonly account: string; readonly recipients: number })[];
}

/** What telling needs. */
interface SampleQueueParts extends CountingParts {
  /** What waits now; undefined where nothing is to be told. */
  readonly queues: () => Promise<Queues | undefined>;
  /** Keeps what is told. @param at milliseconds since 1970 */
  readonly tell: (account: string, at: number, counted: readonly Counted[]) => void;
}

function countedOf(recipients: number, oldestAt: number | undefined, at: number): readonly Counted[] {
  const waiting = { name: waitingNames.recipients, count: recipients };
  if (recipients === 0) return [waiting, { name: waitingNames.oldestSeconds, count: 0 }];
  if (oldestAt === undefined) return [waiting];
  return [waiting, { name: waitingNames.oldestSeconds, count: Math.max(0, Math.round((at - oldestAt) / 1000)) }];
}

/** Tells once what waits. */
export async function sampleQueue({ queues, tell, clock }: SampleQueueParts): Promise<void> {
  const now = await queues();
  if (!now) return;
  const at = clock.now();
  const waiting = now.accounts.filter(({ recipients }) => recipients > 0);
  const most = waiting.toSorted((one, other) => other.recipients - one.recipients).slice(0, mostAccounts);
  for (const { account, recipients, oldestAt } of most) tell(account, at, countedOf(recipients, oldestAt, at));
  const all = waiting.reduce((sum, { recipients }) => sum + recipients, 0);
  tell(allAccounts, at, countedOf(all, now.oldestAt, at));
}

/** Tells in each minute from now on. @returns ends it */
export function sampleQueues(parts: SampleQueueParts): () => Promise<void> {
  let told = -1;
  const look = async (): Promise<void> => {
    const minute = Math.floor(parts.clock.now() / minuteMs);
    if (minute === told) return;
    told = minute;
    await sampleQueue(parts).catch((error: unknown) => {
      parts.log.debug({ reason: errorMessage(error) }, 'what waits could not be told for this minute');
    });
  };
  const first = look();
  const stop = again(lookEveryMs, look);
  return async () => {
    await Promise.all([first, stop()]);
  };
}
