// What a next hop may be given by this process now: what its answers allow, at the pace of the configuration, within this process's part
// of the limits. Answers allow all while it serves, half after one that asks for less, nothing for a while when it cannot be reached or
// defers everything. What it gets back comes slowly, and later each time that this was too much.

import type { MonotonicClock } from '../../base/clock.ts';
import { Counts } from '../../base/counts.ts';
import type { SmtpReply } from '../../mail/smtp-reply.ts';
import { type HopEvent, type HopLimits, type HopTrouble, isThrottling } from './hop-health.ts';
import type { HopShare, HopShares, ShareUser } from './hop-share.ts';

/** Counts messages against a rate; after a pause a second's worth may begin at once. @param rate messages a second; undefined: any */
export function createPace(rate: () => number | undefined, clock: MonotonicClock) {
  /** When the last message that was begun would have begun, had they come evenly. */
  let at = Number.NEGATIVE_INFINITY;
  return {
    /** Milliseconds until a message may begin. */
    waitMs(): number {
      const perSecond = rate();
      return perSecond === undefined ? 0 : Math.max(0, at + 1000 / perSecond - clock.monotonic());
    },
    begin(): void {
      const step = 1000 / (rate() ?? Number.POSITIVE_INFINITY);
      at = Math.max(at + step, clock.monotonic() - 1000 + step);
    },
  };
}

/** Makes an alarm that rings once, at the earliest of the times that it was set for. It keeps no process alive. */
export function createAlarm(clock: MonotonicClock, ring: () => void) {
  let timer: NodeJS.Timeout | undefined;
  let at = Number.POSITIVE_INFINITY;
  const stop = (): void => {
    clearTimeout(timer);
    at = Number.POSITIVE_INFINITY;
  };
  return {
    /** Rings after so many milliseconds, unless it is set to ring before; 0 or less sets nothing. */
    ringIn(ms: number): void {
      const then = clock.monotonic() + ms;
      if (ms <= 0 || then >= at) return;
      stop();
      at = then;
      timer = setTimeout(() => {
        at = Number.POSITIVE_INFINITY;
        ring();
      }, Math.ceil(ms)).unref();
    },
    stop,
  };
}

/** A next hop counts as shared for so long after messages of two accounts followed one another, in milliseconds. */
const sharedMs = 600_000;

/** Notes which accounts have messages under way at a next hop. */
export function createFairTurns(clock: MonotonicClock) {
  const active = new Counts();
  let last: string | undefined;
  let sharedUntil = Number.NEGATIVE_INFINITY;
  return {
    /** More than one account has used the next hop lately. */
    isShared: (): boolean => clock.monotonic() < sharedUntil,
    isActive: (account: string): boolean => active.has(account),
    begin(account: string): void {
      active.add(account);
      if (last !== undefined && last !== account) sharedUntil = clock.monotonic() + sharedMs;
      last = account;
    },
    end: (account: string): void => active.add(account, -1),
  };
}

/** The first back-off, in milliseconds; each further one is twice as long, up to the longest. */
const firstBackoff = 1000;
/** Answers within this time, in milliseconds, count as one: they answer what was sent before the first of them was read. */
const oneCutMs = 1000;
/** A next hop that served within this time, in milliseconds, and asks for less is not down. */
const servedMs = 60_000;
/** How long messages must have been delivered until one more connection is allowed, in milliseconds; doubled up to the longest. */
const recovery = { first: 10_000, longest: 300_000 } as const;
/** So many messages in a row that were deferred for all their recipients make a back-off. */
const mostDeferrals = 20;
/** A next hop counts as refusing after this many connections in a row that ended before they served a message. */
const barrenConnections = 3;

const never = Number.NEGATIVE_INFINITY;

type Refused = Omit<Extract<HopEvent, { readonly kind: 'refused' }>, 'kind'>;
type Ended = Omit<Extract<HopEvent, { readonly kind: 'ended' }>, 'kind'>;
type Change = 'less' | 'more' | 'same';

/** What one next hop may be given. Times are milliseconds of the monotonic clock. */
export class HopAllowance {
  readonly share: HopShare;
  readonly #clock: MonotonicClock;
  readonly #pace;
  limits: HopLimits;
  /** It could not be reached at the last try: it gets one connection, until that one has served a message. */
  isDown = false;
  lastWords: SmtpReply | undefined;
  /** Connections that its answers allow. */
  #allowed: number;
  /** Connections refused in a row; those refused at about the same time count as one. */
  #refusals = 0;
  /** Connections in a row that ended before they served a message. */
  #barren = 0;
  /** Messages in a row that were deferred for all their recipients. */
  #deferrals = 0;
  /** Back-offs in a row in which it got no message. */
  #pauses = 0;
  /** Answers in a row that asked for less, and the number of connections that was too many for the last of them. */
  #cuts = 0;
  #tooMany = 0;
  #opensAt = never;
  #beginsAt = never;
  /** When it asked for less, when `#allowed` changed, and when it last served a message. */
  #cutAt = never;
  #changedAt = never;
  #servedAt = never;
  #trouble: HopTrouble | undefined;

  /** @param options.hop names the next hop, and is the same in every process */
  constructor(
    parts: { readonly limits: HopLimits; readonly clock: MonotonicClock; readonly shares: HopShares },
    { hop, ...user }: Omit<ShareUser, 'most'> & { readonly hop: string },
  ) {
    const { limits, clock, shares } = parts;
    this.#clock = clock;
    this.limits = limits;
    this.#allowed = limits.connections;
    this.share = shares.share(hop, { ...user, most: () => this.limits.connections });
    // Without a share nothing is begun, whatever the pace.
    this.#pace = createPace(() => {
      const { messagesPerSecond: rate } = this.limits;
      return rate && rate * (this.share.part || 1);
    }, clock);
  }

  /** Why it gets less than its limits allow; undefined where it does not, or something has shown that it may have more. */
  get trouble(): HopTrouble | undefined {
    const isTroubled = this.isDown || this.#refusals > 0 || this.#pauses > 0 || this.#allowed < this.limits.connections;
    return isTroubled ? this.#trouble : undefined;
  }

  get connections(): number {
    return Math.min(this.share.connections, this.isDown ? 1 : this.#allowed);
  }

  /** Milliseconds until a connection may be opened. */
  get opensIn(): number {
    return Math.max(this.pausedFor, this.#until(this.#opensAt));
  }

  /** Milliseconds until its answers allow a message to be begun on a connection that is open. */
  get pausedFor(): number {
    return this.#until(this.#beginsAt);
  }

  /** Milliseconds until a message may be begun on a connection that is open. */
  get beginsIn(): number {
    return Math.max(this.pausedFor, this.#pace.waitMs());
  }

  /** Whether a connection may be opened; after a refusal one at a time. @param kept connections that are not to be opened now */
  mayOpen(open: number, opening: number, kept = 0): boolean {
    if (this.opensIn > 0 || (this.#refusals > 0 && opening > 0)) return false;
    return open + opening < this.connections - kept;
  }

  begin(): void {
    this.#pace.begin();
  }

  /** Takes what happened. @returns whether the next hop is given less from now on, or more */
  tell(event: HopEvent): Change {
    const at = this.#clock.monotonic();
    if (event.kind === 'limited') return this.#limit(event.limits);
    if (event.kind === 'refused') return this.#refused(event, at);
    if (event.kind === 'closed') return this.#closed(event, at);
    return event.kind === 'ended' ? this.#ended(event, at) : this.#opened();
  }

  #limit(limits: HopLimits): Change {
    const before = this.#allowed;
    // What it was given less stays so; what it was not, it has by the new limits.
    const isLimited = before < this.limits.connections;
    this.limits = limits;
    this.#allowed = isLimited ? Math.min(before, limits.connections) : limits.connections;
    return this.#allowed > before ? 'more' : 'same';
  }

  #opened(): Change {
    const isMore = this.isDown ? this.#opensAt !== never : this.#refusals > 0;
    // One that takes connections and drops them is still down: it shows by a message.
    if (this.isDown) this.#opensAt = never;
    else this.#refusals = 0;
    return isMore ? 'more' : 'same';
  }

  #refused({ reply, asksForLess, open, opening }: Refused, at: number): Change {
    const isServing = open > 0 || (asksForLess && (opening > 0 || at - this.#servedAt < servedMs));
    const isOneOfSeveral = at < this.#opensAt;
    this.lastWords = reply;
    if (isOneOfSeveral && (isServing || this.isDown)) return 'same';
    if (!isOneOfSeveral) this.#refusals += 1;
    this.#opensAt = at + this.#backoff(this.#refusals);
    // Those that are open it has allowed itself.
    if (isServing && asksForLess) this.#cut({ least: open, tooMany: open + 1 }, at);
    else this.#trouble = isServing ? 'throttling' : 'down';
    this.isDown ||= !isServing;
    return 'less';
  }

  #closed({ served, by, ...others }: Extract<HopEvent, { readonly kind: 'closed' }>, at: number): Change {
    this.#barren = served === 0 && by ? this.#barren + 1 : 0;
    if (!by || this.#barren < (this.isDown ? 1 : barrenConnections)) return 'same';
    return this.#refused({ ...others, reply: by, asksForLess: isThrottling(by) }, at);
  }

  #ended({ results, served, ...others }: Ended, at: number): Change {
    const isBack = served > 0 && this.isDown;
    if (isBack) {
      this.isDown = false;
      this.#barren = 0;
      this.#refusals = 0;
      this.#opensAt = never;
    }
    const throttled = results.find(({ kind, reply }) => kind === 'deferred' && isThrottling(reply));
    const change = throttled
      ? this.#throttled({ ...others, reply: throttled.reply, asksForLess: true }, at)
      : this.#judged(results, served > 0, at);
    return isBack && change === 'same' ? 'more' : change;
  }

  /** It answered a message so that it asks for less. */
  #throttled(answer: Refused, at: number): Change {
    const { reply, open, opening } = answer;
    if (open + opening === 0 && at - this.#servedAt >= servedMs) return this.#refused(answer, at);
    this.lastWords = reply;
    if (this.#allowed > 1) return this.#cut({ least: 1, tooMany: open + 1 }, at);
    if (at - this.#cutAt < oneCutMs) return 'same';
    this.#cutAt = at;
    return this.#pause('throttling', reply, at);
  }

  /** It answered a message, and asks for nothing. */
  #judged(results: Ended['results'], isServed: boolean, at: number): Change {
    if (isServed) this.#servedAt = at;
    if (results.some(({ kind }) => kind === 'delivered')) return this.#delivered(at);
    const [first] = results;
    this.#deferrals = results.some(({ kind }) => kind !== 'deferred') ? 0 : this.#deferrals + 1;
    if (!first || this.#deferrals < mostDeferrals) return 'same';
    this.#deferrals = mostDeferrals / 2;
    return this.#pause('deferring', first.reply, at);
  }

  /** Halves what it is given. @param bounds.least it gets so many all the same */
  #cut(bounds: { readonly least: number; readonly tooMany: number }, at: number): Change {
    if (at - this.#cutAt < oneCutMs) return 'same';
    this.#tooMany = Math.min(this.#allowed, bounds.tooMany);
    this.#allowed = Math.min(this.#allowed, Math.max(1, bounds.least, Math.floor(this.#allowed / 2)));
    this.#cuts += 1;
    this.#cutAt = at;
    this.#changedAt = at;
    this.#trouble = 'throttling';
    return 'less';
  }

  #pause(trouble: HopTrouble, reply: SmtpReply, at: number): Change {
    this.#trouble = trouble;
    this.lastWords = reply;
    this.#pauses += 1;
    this.#changedAt = at;
    this.#beginsAt = at + this.#backoff(this.#pauses);
    return 'less';
  }

  /** Allows one connection more, where messages have been delivered for long enough. */
  #delivered(at: number): Change {
    this.#deferrals = 0;
    this.#pauses = 0;
    const wait = Math.min(recovery.first * 2 ** Math.max(0, this.#cuts - 1), recovery.longest);
    if (this.#allowed >= this.limits.connections || at - this.#changedAt < wait) return 'same';
    // It has served for so long what was too many once.
    if (this.#allowed >= this.#tooMany) this.#cuts = 0;
    this.#allowed += 1;
    this.#changedAt = at;
    return 'more';
  }

  #backoff(count: number): number {
    return Math.min(firstBackoff * 2 ** (count - 1), this.limits.backoffSeconds * 1000);
  }

  #until(at: number): number {
    // Mostly nothing is to be waited for, and the clock is not read in vain.
    return at === never ? 0 : Math.max(0, at - this.#clock.monotonic());
  }
}
