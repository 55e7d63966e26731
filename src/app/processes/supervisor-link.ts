// A process's end of the channel to its supervisor: what it asks, what it is told, and the group of processes that it is of.

import { ConfigurationError } from '../../base/errors.ts';
import { within } from '../../base/load/maybe-promise.ts';
import { onceAndAgain } from '../../base/load/once-at-a-time.ts';
import type {
  CarrierAnswer,
  CarrierQuestion,
  CountedDoor,
  MetricValues,
  ProcessGroup,
  SharedConnections,
  SharedWindows,
} from '../../base/process-group.ts';
import { RecentMap } from '../../base/recent-map.ts';
import type { ReloadOutcome } from '../wiring/reload.ts';
import type { AskedWindow, FromProcess, Inquiries, Questions, StartOrder, ToProcess } from './messages.ts';

/** Full windows that are remembered. The one that was found full first is forgotten for a new one, and asked about again. */
const mostFull = 50_000;

/** A process's end of the supervisor's windows: full ones are refused here, and cost it nothing. @param ask rejects where it is gone */
function askedWindows(ask: (asked: AskedWindow) => Promise<number>): SharedWindows {
  /** Until when windows are full for certain, in milliseconds of the monotonic clock: they end within a second after that. */
  const full = new RecentMap<string, number>(mostFull);
  return {
    async take(name, limit, address) {
      // The limit is part of the key: a reload may have given more.
      const key = `${name} ${limit.requests} ${limit.perSeconds} ${address}`;
      const leftMs = (full.get(key) ?? 0) - performance.now();
      // Whoever waits so long is served.
      if (leftMs > 0) return Math.ceil((leftMs + 1000) / 1000);
      const seconds = await ask({ name, limit, address });
      // The supervisor rounds up to whole seconds.
      if (seconds > 0) full.set(key, performance.now() + (seconds - 1) * 1000);
      else full.delete(key);
      return seconds;
    },
  };
}

/** How long the supervisor has for an answer, in milliseconds. */
const answerMs = 2500;

/** Asks whether the server is ready; who comes meanwhile asks anew, since this answer may be older. @param ask rejects: it drains then */
export function askedReadiness(ask: () => Promise<boolean>): () => Promise<boolean> {
  return onceAndAgain(async () => (await within(answerMs, ask()).catch(() => false)) ?? false);
}

/** The channel, as Node gives it to a process that was started with one. */
export interface Channel {
  send(message: FromProcess, done?: () => void): void;
  on(event: 'message', listener: (message: ToProcess) => void): void;
}

/** What a process does when the supervisor says so: it reloads, and tells of itself. */
export type Orders = { readonly reload: (text: string) => Promise<ReloadOutcome> } & {
  readonly [About in Exclude<keyof Inquiries, 'alive' | 'reload' | 'decide'>]: (
    asked: Inquiries[About]['asked'],
  ) => Promise<Inquiries[About]['answer']>;
};

interface Asked {
  readonly resolve: (answer: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** The link of one process to its supervisor. */
export class SupervisorLink implements ProcessGroup {
  readonly count: number;
  readonly minutes: ProcessGroup['minutes'];
  readonly places: ProcessGroup['places'];
  readonly windows: ProcessGroup['windows'];
  readonly #drain = Promise.withResolvers<'drain' | 'gone'>();
  readonly #gone = Promise.withResolvers<void>();
  /** Resolves when the process is to drain: it was told to, or the supervisor is gone. */
  readonly drained = this.#drain.promise;
  readonly isGone = this.#gone.promise;
  readonly #channel: Channel;
  readonly isReady = askedReadiness(() => this.#ask('ready', null));
  readonly #asked = new Map<number, Asked>();
  #asks = 0;
  #isOnDuty = false;
  readonly #duties: (() => void)[] = [];
  #heard: (address: string) => void = () => undefined;
  #orders: Orders | undefined;
  /** Tells the supervisor that this process is ready for the reload under way. */
  #prepared: ((answer: 'prepared') => void) | undefined;
  #decide: Asked | undefined;
  #outcome: Promise<ReloadOutcome> | undefined;
  #hasGone = false;

  /** @param order what the supervisor has sent first */
  constructor(channel: Channel, order: StartOrder) {
    this.#channel = channel;
    this.count = order.count;
    this.minutes = {
      take: (account, limit) => this.#ask('takeMinute', { account, limit }),
      ask: (account, limit) => this.#ask('askMinute', { account, limit }),
      giveBack: (account) => this.tell({ kind: 'minuteBack', account }),
    };
    this.places = {
      take: async (wanted) => (await this.#ask('takePlaces', wanted)) ?? undefined,
      ask: async (wanted) => (await this.#ask('askPlaces', wanted)) ?? undefined,
      giveBack: (keys) => this.tell({ kind: 'placesBack', keys }),
    };
    this.windows = askedWindows((asked) => this.#ask('takeWindow', asked));
    channel.on('message', (message) => this.#receive(message));
  }

  /** From now on the process does what the supervisor says. */
  obey(orders: Orders): void {
    this.#orders = orders;
  }

  connections(door: CountedDoor): SharedConnections {
    return {
      take: async (address, { connections, connectionsPerAddress = Number.MAX_SAFE_INTEGER }) => {
        const ofAddress = { key: `${door} ${address}`, most: connectionsPerAddress };
        const full = await this.places.take([ofAddress, { key: door, most: connections }]);
        return full === undefined ? undefined : full === 0 ? 'address' : 'all';
      },
      closed: (address) => this.places.giveBack([`${door} ${address}`, door]),
    };
  }

  tellFailure(address: string): void {
    this.tell({ kind: 'failure', address });
  }

  hearFailures(heard: (address: string) => void): void {
    this.#heard = heard;
  }

  sumMetrics(own: MetricValues): Promise<string> {
    return this.#ask('metrics', own);
  }

  onDuty(begin: () => void): void {
    if (this.#isOnDuty) begin();
    else this.#duties.push(begin);
  }

  askCarrier(question: CarrierQuestion): Promise<CarrierAnswer | undefined> {
    return this.#ask('applications', question);
  }

  agree(): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#hasGone) throw supervisorGone();
      this.#decide = { resolve: () => resolve(), reject };
      this.#prepared?.('prepared');
    });
  }

  /** Tells the supervisor something; nothing happens where it is gone. @param done called in either case */
  tell(message: FromProcess, done?: () => void): void {
    if (this.#hasGone) done?.();
    else this.#channel.send(message, done);
  }

  /** The channel has closed: nothing more is asked, told or awaited. */
  gone(): void {
    this.#hasGone = true;
    const waiting = [...this.#asked.values(), ...(this.#decide ? [this.#decide] : [])];
    this.#asked.clear();
    this.#decide = undefined;
    for (const { reject } of waiting) reject(supervisorGone());
    this.#drain.resolve('gone');
    this.#gone.resolve();
  }

  #ask<About extends keyof Questions>(
    about: About,
    asked: Questions[About]['asked'],
  ): Promise<Questions[About]['answer']> {
    return new Promise((resolve, reject) => {
      if (this.#hasGone) throw supervisorGone();
      this.#asks += 1;
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the supervisor answers each question with its own kind
      this.#asked.set(this.#asks, { resolve: (answer) => resolve(answer as Questions[About]['answer']), reject });
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what is asked belongs to the question
      this.tell({ kind: 'ask', id: this.#asks, about, asked } as FromProcess);
    });
  }

  #receive(message: ToProcess): void {
    switch (message.kind) {
      case 'start':
        return;
      case 'answer':
        this.#asked.get(message.id)?.resolve(message.answer);
        this.#asked.delete(message.id);
        return;
      case 'inquire':
        void this.#tellOf(message);
        return;
      case 'duty':
        this.#isOnDuty = true;
        for (const begin of this.#duties.splice(0)) begin();
        return;
      case 'failure':
        return this.#heard(message.address);
      case 'drain':
        return this.#drain.resolve('drain');
      default:
        message satisfies never;
    }
  }

  async #tellOf({ id, about, asked }: Extract<ToProcess, { readonly kind: 'inquire' }>): Promise<void> {
    const answers: Readonly<Partial<Record<keyof Inquiries, (asked: never) => unknown>>> = {
      ...this.#orders,
      alive: () => true,
      reload: (text: string) => this.#reload(text),
      decide: (faults: readonly string[]) => this.#end(faults),
    };
    let answer: unknown;
    try {
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the supervisor asks what belongs to each kind
      answer = await answers[about]?.(asked as never);
    } catch {
      answer = undefined;
    }
    this.tell({ kind: 'told', id, answer });
  }

  #reload(text: string): Promise<Inquiries['reload']['answer']> {
    if (!this.#orders) return Promise.resolve({ ok: false, faults: ['a process is still starting'] });
    const prepared = new Promise<'prepared'>((resolve) => (this.#prepared = resolve));
    this.#outcome = this.#orders.reload(text);
    return Promise.race([prepared, this.#outcome]);
  }

  /** Ends the reload that has been prepared, as the supervisor has decided. */
  #end(faults: readonly string[]): Promise<ReloadOutcome> | undefined {
    const decide = this.#decide;
    this.#decide = undefined;
    if (faults.length === 0) decide?.resolve(undefined);
    else decide?.reject(new ConfigurationError(faults.join('\n')));
    return this.#outcome;
  }
}

function supervisorGone(): Error {
  return new Error('The supervisor of this process is gone');
}
