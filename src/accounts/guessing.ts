// Slows down the guessing of tokens by SMTP and HTTP: wrong ones are answered later and later, for each client address (D85,
// D92). A valid token always passes: at once, or after a second while too many answers to its address wait already.

import { countedAddress } from '../base/counted-address.ts';
import { Part } from '../base/part.ts';
import type { SharedSlots, SlotWanted } from '../base/process-group.ts';

/** What happens to a wrong token: its answer waits for a time, or is turned away because too many answers wait already. */
export type Penalty =
  | { readonly kind: 'wait' /** Absent where the answer is given at once. */; readonly over?: Promise<void> }
  | { readonly kind: 'turnedAway'; readonly retryAfterSeconds: number };

/** How wrong tokens are slowed down. */
const guessingLimits = {
  /** How many wrong tokens of an address are answered without delay, because people mistype. */
  freeFailures: 5,
  /** How long the answer to the next one waits; each further one waits twice as long. */
  firstDelayMs: 250,
  maxDelayMs: 8000,
  /** After this time without a wrong token, one is forgiven. */
  forgiveMs: 10_000,
  /** How many answers of one address, and of all together, may wait at the same time. They hold connections. */
  waitingPerAddress: 8,
  waiting: 128,
  /** How many addresses are remembered. For a new one, the address that failed longest ago is forgotten. */
  addresses: 10_000,
  /** How long every login, right or wrong, waits while as many answers to its address wait as may. */
  pauseMs: 1000,
};

interface Failures {
  count: number;
  /** When the last failure was, in milliseconds of the monotonic clock. */
  at: number;
  waiting: number;
}

/** How many failures are counted at most. The delay stops growing long before, and more would only be forgiven later. */
const failuresRemembered = 20;

/** What guessing is slowed down with: limits other than the program's, and a monotonic clock in milliseconds. */
interface GuessingParts extends Readonly<Partial<typeof guessingLimits>> {
  readonly now?: () => number;
  /** Called with the counted address of each wrong token. */
  readonly onFailure?: ((address: string) => void) | undefined;
  /** Counts the answers that wait over all processes; absent: there is one. */
  readonly places?: SharedSlots | undefined;
}

/** The count of wrong tokens, shared by SMTP and HTTP. It is kept in memory only. */
export class Guessing extends Part<GuessingParts> {
  readonly #limits = { ...guessingLimits, ...this.parts };
  readonly #now = this.parts.now ?? (() => performance.now());
  /** The wrong tokens of each address that are not forgiven yet; the address that failed longest ago comes first. */
  readonly #table = new Map<string, Failures>();
  /** The waits that are under way, with what ends each. */
  readonly #waits = new Map<NodeJS.Timeout, () => void>();
  #penalties = 0;
  #isClosed = false;

  get waiting(): number {
    return this.#waits.size;
  }

  get addresses(): number {
    return this.#table.size;
  }

  /**
   * Gives what to wait for before a token is looked up; undefined where nothing needs to be waited for. Without this wait, a
   * client that opens a new connection for each guess could guess as fast as it can connect. With it, each guess holds a
   * connection for a while, and the connections of an address are limited.
   */
  pause(address: string): Promise<void> | undefined {
    const key = countedAddress(address);
    const failures = this.#table.get(key);
    if (!failures || this.#isClosed || this.#standing(failures) < this.#limits.freeFailures) return undefined;
    if (!this.#hasRoom(failures)) return this.#wait(this.#limits.pauseMs);
    return this.parts.places && this.#sharedPause(this.parts.places, key);
  }

  /** Counts a wrong token that another process of the server has seen. */
  heard(address: string): void {
    this.#count(address);
  }

  /** Counts a wrong token of an address (IPv6: of its /64) and says how long its answer waits, once other processes were asked. */
  failed(address: string): Penalty | Promise<Penalty> {
    const { freeFailures, maxDelayMs, firstDelayMs } = this.#limits;
    const key = countedAddress(address);
    this.parts.onFailure?.(key);
    const failures = this.#count(key);
    const delayed = failures.count - freeFailures;
    if (delayed <= 0 || this.#isClosed) return { kind: 'wait' };
    const delayMs = Math.min(maxDelayMs, firstDelayMs * 2 ** (delayed - 1));
    const turnedAway = { kind: 'turnedAway', retryAfterSeconds: Math.max(1, Math.ceil(delayMs / 1000)) } as const;
    if (!this.#hasRoom(failures)) return turnedAway;
    const leave = this.#take(failures);
    if (this.parts.places) return this.#sharedPenalty(this.parts.places, key, { leave, delayMs, turnedAway });
    // The wait goes on when the client leaves, so that reconnecting does not free its place.
    return { kind: 'wait', over: this.#wait(delayMs).then(leave) };
  }

  /** Ends every wait and begins no more. */
  close(): void {
    this.#isClosed = true;
    for (const [timer, end] of this.#waits) {
      clearTimeout(timer);
      end();
    }
  }

  /** How many failures are not forgiven by now. */
  #standing({ count, at }: Failures): number {
    return Math.max(0, count - Math.floor((this.#now() - at) / this.#limits.forgiveMs));
  }

  #count(address: string): Failures {
    const failures = this.#table.get(address) ?? { count: 0, at: this.#now(), waiting: 0 };
    failures.count = Math.min(failuresRemembered, this.#standing(failures) + 1);
    failures.at = this.#now();
    this.#table.delete(address);
    if (this.#table.size >= this.#limits.addresses) this.#table.delete(this.#table.keys().next().value ?? '');
    this.#table.set(address, failures);
    return failures;
  }

  #hasRoom({ waiting }: Failures): boolean {
    return waiting < this.#limits.waitingPerAddress && this.#penalties < this.#limits.waiting;
  }

  #placesOf(key: string): readonly SlotWanted[] {
    const { waitingPerAddress, waiting } = this.#limits;
    return [
      { key: `guess ${key}`, most: waitingPerAddress },
      { key: 'guess', most: waiting },
    ];
  }

  #take(failures: Failures): () => void {
    failures.waiting += 1;
    this.#penalties += 1;
    return () => {
      failures.waiting -= 1;
      this.#penalties -= 1;
    };
  }

  #wait(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      const end = (): void => {
        this.#waits.delete(timer);
        resolve();
      };
      const timer = setTimeout(end, delayMs);
      timer.unref();
      this.#waits.set(timer, end);
    });
  }

  /** Waits with an answer where there is a place for it over all processes, too. */
  async #sharedPenalty(
    shared: SharedSlots,
    key: string,
    { leave, delayMs, turnedAway }: { leave: () => void; delayMs: number; turnedAway: Penalty },
  ): Promise<Penalty> {
    const wanted = this.#placesOf(key);
    // Without its supervisor this process is ending, and counts alone.
    const full = await shared.take(wanted).catch(() => undefined);
    if (full !== undefined) {
      leave();
      return turnedAway;
    }
    const leaveAll = (): void => {
      leave();
      shared.giveBack(wanted.map((place) => place.key));
    };
    if (!this.#isClosed) return { kind: 'wait', over: this.#wait(delayMs).then(leaveAll) };
    leaveAll();
    return { kind: 'wait' };
  }

  async #sharedPause(shared: SharedSlots, key: string): Promise<void> {
    const full = await shared.ask(this.#placesOf(key)).catch(() => undefined);
    if (full !== undefined && !this.#isClosed) await this.#wait(this.#limits.pauseMs);
  }
}
