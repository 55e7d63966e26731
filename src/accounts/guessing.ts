// Slows down the guessing of tokens by SMTP and HTTP: wrong ones are answered later and later, for each client address (D85,
// D92). A valid token always passes: at once, or after a second while too many answers to its address wait already.

import { countedAddress } from '../base/counted-address.ts';
import type { SharedSlots, SlotWanted } from '../base/process-group.ts';

/** What happens to a wrong token: its answer waits for a time, or is turned away because too many answers wait already. */
export type Penalty =
  | { readonly kind: 'wait' /** Absent where the answer is given at once. */; readonly over?: Promise<void> }
  | { readonly kind: 'turnedAway'; readonly retryAfterSeconds: number };

/** The count of wrong tokens, shared by SMTP and HTTP. */
export interface Guessing {
  /**
   * Gives what to wait for before a token is looked up; undefined where nothing needs to be waited for. Without this wait, a
   * client that opens a new connection for each guess could guess as fast as it can connect. With it, each guess holds a
   * connection for a while, and the connections of an address are limited.
   */
  pause(address: string): Promise<void> | undefined;
  /**
   * Counts a wrong token of an address (IPv6: of its /64) and says how long its answer waits: at once, or, where it is to wait
   * and other processes count with this one, once they have been asked.
   */
  failed(address: string): Penalty | Promise<Penalty>;
  /** Counts a wrong token that another process of the server has seen. */
  heard(address: string): void;
  /** How many logins and answers wait now. */
  readonly waiting: number;
  /** How many addresses are remembered now. */
  readonly addresses: number;
  /** Ends every wait and begins no more. */
  close(): void;
}

/** How wrong tokens are slowed down. */
export interface GuessingLimits {
  /** How many wrong tokens of an address are answered without delay, because people mistype. */
  readonly freeFailures: number;
  /** How long the answer to the next one waits; each further one waits twice as long. */
  readonly firstDelayMs: number;
  readonly maxDelayMs: number;
  /** After this time without a wrong token, one is forgiven. */
  readonly forgiveMs: number;
  /** How many answers of one address, and of all together, may wait at the same time. They hold connections. */
  readonly waitingPerAddress: number;
  readonly waiting: number;
  /** How many addresses are remembered. For a new one, the address that failed longest ago is forgotten. */
  readonly addresses: number;
  /** How long every login, right or wrong, waits while as many answers to its address wait as may. */
  readonly pauseMs: number;
}

/** The limits of the running program. */
const guessingLimits: GuessingLimits = {
  freeFailures: 5,
  firstDelayMs: 250,
  maxDelayMs: 8000,
  forgiveMs: 10_000,
  waitingPerAddress: 8,
  waiting: 128,
  addresses: 10_000,
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

/** The wrong tokens of each address that are not forgiven yet; the address that failed longest ago comes first. */
class FailureTable extends Map<string, Failures> {
  readonly #limits: GuessingLimits;
  readonly #now: () => number;

  constructor(limits: GuessingLimits, now: () => number) {
    super();
    this.#limits = limits;
    this.#now = now;
  }

  /** How many failures are not forgiven by now. */
  standing({ count, at }: Failures): number {
    return Math.max(0, count - Math.floor((this.#now() - at) / this.#limits.forgiveMs));
  }

  /** Counts one more failure. */
  count(address: string): Failures {
    const failures = this.get(address) ?? { count: 0, at: this.#now(), waiting: 0 };
    failures.count = Math.min(failuresRemembered, this.standing(failures) + 1);
    failures.at = this.#now();
    this.delete(address);
    if (this.size >= this.#limits.addresses) this.delete(this.keys().next().value ?? '');
    this.set(address, failures);
    return failures;
  }
}

/** Waits that can all be ended together. */
class Waits {
  readonly #waits = new Map<NodeJS.Timeout, () => void>();

  get size(): number {
    return this.#waits.size;
  }

  wait(delayMs: number): Promise<void> {
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

  endAll(): void {
    for (const [timer, end] of this.#waits) {
      clearTimeout(timer);
      end();
    }
  }
}

/**
 * Makes the count of wrong tokens, which is kept in memory only.
 * @param options limits other than the program's, and a monotonic clock in milliseconds
 */
export function createGuessing(
  options: Partial<GuessingLimits> & {
    readonly now?: () => number;
    /** Called with the counted address of each wrong token. */
    readonly onFailure?: ((address: string) => void) | undefined;
    /** Counts the answers that wait over all processes; absent: there is one. */
    readonly places?: SharedSlots | undefined;
  } = {},
): Guessing {
  const { now = () => performance.now(), onFailure, places, ...given } = options;
  const limits = { ...guessingLimits, ...given };
  const table = new FailureTable(limits, now);
  const waits = new Waits();
  let penalties = 0;
  let closed = false;

  function hasRoom({ waiting }: Failures): boolean {
    return waiting < limits.waitingPerAddress && penalties < limits.waiting;
  }

  const placesOf = (key: string): readonly SlotWanted[] => [
    { key: `guess ${key}`, most: limits.waitingPerAddress },
    { key: 'guess', most: limits.waiting },
  ];

  /** Takes a place for an answer that waits. @returns what gives it back */
  function take(failures: Failures): () => void {
    failures.waiting += 1;
    penalties += 1;
    return () => {
      failures.waiting -= 1;
      penalties -= 1;
    };
  }

  /** Waits with an answer where there is a place for it over all processes, too. */
  async function sharedPenalty(
    shared: SharedSlots,
    key: string,
    { leave, delayMs, turnedAway }: { leave: () => void; delayMs: number; turnedAway: Penalty },
  ): Promise<Penalty> {
    const wanted = placesOf(key);
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
    if (closed) {
      leaveAll();
      return { kind: 'wait' };
    }
    return { kind: 'wait', over: waits.wait(delayMs).then(leaveAll) };
  }

  async function sharedPause(shared: SharedSlots, key: string): Promise<void> {
    const full = await shared.ask(placesOf(key)).catch(() => undefined);
    if (full !== undefined && !closed) await waits.wait(limits.pauseMs);
  }

  return {
    pause(address) {
      const key = countedAddress(address);
      const failures = table.get(key);
      if (!failures || closed || table.standing(failures) < limits.freeFailures) return undefined;
      if (!hasRoom(failures)) return waits.wait(limits.pauseMs);
      return places && sharedPause(places, key);
    },
    heard(address) {
      table.count(address);
    },
    failed(address) {
      const key = countedAddress(address);
      onFailure?.(key);
      const failures = table.count(key);
      const delayed = failures.count - limits.freeFailures;
      if (delayed <= 0 || closed) return { kind: 'wait' };
      const delayMs = Math.min(limits.maxDelayMs, limits.firstDelayMs * 2 ** (delayed - 1));
      const turnedAway = { kind: 'turnedAway', retryAfterSeconds: Math.max(1, Math.ceil(delayMs / 1000)) } as const;
      if (!hasRoom(failures)) return turnedAway;
      const leave = take(failures);
      if (places) return sharedPenalty(places, key, { leave, delayMs, turnedAway });
      // The wait goes on when the client leaves, so that reconnecting does not free its place.
      return { kind: 'wait', over: waits.wait(delayMs).then(leave) };
    },
    get waiting() {
      return waits.size;
    },
    get addresses() {
      return table.size;
    },
    close() {
      closed = true;
      waits.endAll();
    },
  };
}
