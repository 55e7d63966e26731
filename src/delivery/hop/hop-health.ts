// How much a next hop is given, as a value that follows from its answers: all that its limits allow while it serves, half after
// an answer that asks for less, nothing for a while when it cannot be reached or defers everything. What it gets back comes
// slowly, and each time that this was too much the next try comes later. It holds no connection, no clock and no timer.

import type { SmtpReply } from '../../mail/smtp-reply.ts';

/** Greylisting defers one message, however little is sent. */
const greylisting = /gr[ea]y-?\s?list/i;
const tooMuch =
  /too many|too much mail|rate.?limit|throttl|too fast|too quickly|exceed\w* .*\b(?:rate|connections?|messages)\b|slow(?:ing)? down/i;

/**
 * Whether a next hop asks for less: 421 (RFC 5321 §3.8, it is closing the channel), a temporary reply about policy (X.7.x of
 * RFC 3463 §3.8, which servers use for rates), the system not accepting now (4.3.2) or congestion (4.4.5), or its words.
 */
export function isThrottling({ code, enhanced = '', text }: SmtpReply): boolean {
  if (code < 400 || code > 499 || greylisting.test(text)) return false;
  if (code === 421 || tooMuch.test(text)) return true;
  const isOfServer = code === 450 || code === 451 || code === 452;
  return isOfServer && (enhanced.startsWith('4.7.') || enhanced === '4.3.2' || enhanced === '4.4.5');
}

/** Tells whether a recipient was too many for one transaction, so that it can go in another (RFC 5321 §4.5.3.1.10). */
export function isTooMany({ kind, reply }: { readonly kind: string; readonly reply: SmtpReply }): boolean {
  const codes = reply.code === 452 || reply.code === 552;
  return kind === 'deferred' && codes && (reply.enhanced === undefined || reply.enhanced.endsWith('.5.3'));
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

/** The limits of one next hop, as the configuration gives them. */
export interface HopLimits {
  readonly connections: number;
  /** Messages over one connection; then it is closed and another is opened. */
  readonly messagesPerConnection: number;
  /** Messages begun in a second, over all connections; absent: as many as it takes. */
  readonly messagesPerSecond?: number;
  /** The longest time for which a next hop that is down is left alone, in seconds. */
  readonly backoffSeconds: number;
}

/** Of each limit the lower one. */
export function strictest(one: HopLimits, other: HopLimits): HopLimits {
  const { messagesPerSecond: rate = Number.POSITIVE_INFINITY } = one;
  const slower = Math.min(rate, other.messagesPerSecond ?? Number.POSITIVE_INFINITY);
  return {
    connections: Math.min(one.connections, other.connections),
    messagesPerConnection: Math.min(one.messagesPerConnection, other.messagesPerConnection),
    ...(slower === Number.POSITIVE_INFINITY ? {} : { messagesPerSecond: slower }),
    backoffSeconds: Math.min(one.backoffSeconds, other.backoffSeconds),
  };
}

/** Why a next hop gets less than its limits allow. */
export type HopTrouble = 'down' | 'throttling' | 'deferring';

/** What a next hop is given. Times are milliseconds of the monotonic clock. */
export interface HopHealth {
  readonly limits: HopLimits;
  /** Connections that its answers allow. */
  readonly allowed: number;
  /** It could not be reached at the last try: it gets one connection, until that one has served a message. */
  readonly isDown: boolean;
  /** Connections refused in a row; those refused at about the same time count as one. */
  readonly refusals: number;
  /** Connections in a row that ended before they served a message. */
  readonly barren: number;
  /** Messages in a row that were deferred for all their recipients. */
  readonly deferrals: number;
  /** Back-offs in a row in which it got no message. */
  readonly pauses: number;
  /** Answers in a row that asked for less, and the number of connections that was too many for the last of them. */
  readonly cuts: number;
  readonly tooMany: number;
  readonly opensAt: number;
  readonly beginsAt: number;
  /** When it asked for less, when `allowed` changed, and when it last served a message. */
  readonly cutAt: number;
  readonly changedAt: number;
  readonly servedAt: number;
  readonly trouble: HopTrouble | undefined;
  readonly lastWords: SmtpReply | undefined;
}

/** The other connections to the next hop at the moment of an event. */
interface Others {
  readonly open: number;
  readonly opening: number;
}

/** What happened at a next hop. */
export type HopEvent =
  | { readonly kind: 'limited'; readonly limits: HopLimits }
  /** A connection is ready. */
  | { readonly kind: 'opened' }
  /** A connection could not be made. `asksForLess`: the next hop itself said so. */
  | ({ readonly kind: 'refused'; readonly reply: SmtpReply; readonly asksForLess: boolean } & Others)
  /** A connection has ended. `by`: why the next hop, or the network, ended it. */
  | ({ readonly kind: 'closed'; readonly served: number; readonly by: SmtpReply | undefined } & Others)
  /** A message has ended with these results for its recipients. `served`: messages that its connection has served by now. */
  | ({
      readonly kind: 'ended';
      readonly results: readonly { readonly kind: string; readonly reply: SmtpReply }[];
      readonly served: number;
    } & Others);

const never = Number.NEGATIVE_INFINITY;

/** A next hop of which nothing is known yet. */
export function newHealth(limits: HopLimits): HopHealth {
  return {
    ...{ limits, allowed: limits.connections, isDown: false, refusals: 0, barren: 0, deferrals: 0, pauses: 0, cuts: 0 },
    ...{ tooMany: 0, opensAt: never, beginsAt: never, cutAt: never, changedAt: never, servedAt: never },
    ...{ trouble: undefined, lastWords: undefined },
  };
}

/** It has been given less than its limits allow, and nothing has shown yet that it may have more. */
export function isTroubled({ isDown, refusals, pauses, allowed, limits }: HopHealth): boolean {
  return isDown || refusals > 0 || pauses > 0 || allowed < limits.connections;
}

/** What follows from an event. @param at when it happened */
export function healthAfter(health: HopHealth, event: HopEvent, at: number): HopHealth {
  switch (event.kind) {
    case 'limited':
      return limited(health, event.limits);
    case 'opened':
      return opened(health);
    case 'refused':
      return refused(health, event, at);
    case 'closed':
      return closed(health, event, at);
    case 'ended':
      return ended(health, event, at);
  }
  return health;
}

function limited(health: HopHealth, limits: HopLimits): HopHealth {
  const { allowed, limits: before } = health;
  // What it was given less stays so; what it was not, it has by the new limits.
  const isLess = allowed < before.connections;
  return { ...health, limits, allowed: isLess ? Math.min(allowed, limits.connections) : limits.connections };
}

function opened(health: HopHealth): HopHealth {
  // One that takes connections and drops them is still down: it shows by a message.
  return health.isDown ? { ...health, opensAt: never } : { ...health, refusals: 0 };
}

function refused(
  health: HopHealth,
  { reply, asksForLess, open, opening }: { readonly reply: SmtpReply; readonly asksForLess: boolean } & Others,
  at: number,
): HopHealth {
  const isServing = open > 0 || (asksForLess && (opening > 0 || at - health.servedAt < servedMs));
  const isOneOfSeveral = at < health.opensAt;
  if (isOneOfSeveral && (isServing || health.isDown)) return { ...health, lastWords: reply };
  const refusals = isOneOfSeveral ? health.refusals : health.refusals + 1;
  const after = { ...health, lastWords: reply, refusals, opensAt: at + backoff(health, refusals) };
  if (!isServing) return { ...after, isDown: true, trouble: 'down' };
  // Those that are open it has allowed itself.
  return asksForLess ? cut(after, { least: open, tooMany: open + 1 }, at) : { ...after, trouble: 'throttling' };
}

function closed(
  health: HopHealth,
  { served, by, ...others }: { readonly served: number; readonly by: SmtpReply | undefined } & Others,
  at: number,
): HopHealth {
  const barren = served === 0 && by ? health.barren + 1 : 0;
  const after = { ...health, barren };
  if (!by || barren < (health.isDown ? 1 : barrenConnections)) return after;
  return refused(after, { ...others, reply: by, asksForLess: isThrottling(by) }, at);
}

function ended(
  before: HopHealth,
  { results, served, ...others }: Omit<Extract<HopEvent, { readonly kind: 'ended' }>, 'kind'>,
  at: number,
): HopHealth {
  const health = served > 0 ? recovered(before) : before;
  const throttled = results.find(({ kind, reply }) => kind === 'deferred' && isThrottling(reply));
  if (throttled) return throttledBy(health, { ...others, reply: throttled.reply }, at);
  const servedAt = served > 0 ? at : health.servedAt;
  if (results.some(({ kind }) => kind === 'delivered'))
    return grown({ ...health, servedAt, deferrals: 0, pauses: 0 }, at);
  const after = { ...health, servedAt };
  if (results.some(({ kind }) => kind !== 'deferred')) return { ...after, deferrals: 0 };
  const [first] = results;
  const deferrals = health.deferrals + 1;
  if (!first || deferrals < mostDeferrals) return { ...after, deferrals };
  return paused({ ...after, deferrals: mostDeferrals / 2 }, 'deferring', first.reply, at);
}

/** It serves messages: it is not down, and connections may be opened. */
function recovered(health: HopHealth): HopHealth {
  return health.isDown ? { ...health, isDown: false, barren: 0, refusals: 0, opensAt: never } : health;
}

/** It answered a message so that it asks for less. */
function throttledBy(health: HopHealth, { reply, open, opening }: { readonly reply: SmtpReply } & Others, at: number) {
  if (open + opening === 0 && at - health.servedAt >= servedMs)
    return refused(health, { reply, asksForLess: true, open, opening }, at);
  const after = { ...health, lastWords: reply };
  if (health.allowed > 1) return cut(after, { least: 1, tooMany: open + 1 }, at);
  return at - health.cutAt < oneCutMs ? after : paused({ ...after, cutAt: at }, 'throttling', reply, at);
}

/** Halves what it is given. @param bounds.least it gets so many all the same */
function cut(health: HopHealth, bounds: { readonly least: number; readonly tooMany: number }, at: number): HopHealth {
  if (at - health.cutAt < oneCutMs) return health;
  const { allowed, cuts } = health;
  return {
    ...health,
    allowed: Math.min(allowed, Math.max(1, bounds.least, Math.floor(allowed / 2))),
    ...{ cuts: cuts + 1, tooMany: Math.min(allowed, bounds.tooMany), cutAt: at, changedAt: at, trouble: 'throttling' },
  };
}

function paused(health: HopHealth, trouble: HopTrouble, reply: SmtpReply, at: number): HopHealth {
  const pauses = health.pauses + 1;
  return { ...health, trouble, lastWords: reply, pauses, changedAt: at, beginsAt: at + backoff(health, pauses) };
}

/** One connection more, where messages have been delivered for long enough. */
function grown(health: HopHealth, at: number): HopHealth {
  const { allowed, limits, cuts, tooMany, changedAt } = health;
  const wait = Math.min(recovery.first * 2 ** Math.max(0, cuts - 1), recovery.longest);
  if (allowed >= limits.connections || at - changedAt < wait) return health;
  // It has served for so long what was too many once.
  return { ...health, allowed: allowed + 1, changedAt: at, cuts: allowed >= tooMany ? 0 : cuts };
}

function backoff({ limits }: HopHealth, count: number): number {
  return Math.min(firstBackoff * 2 ** (count - 1), limits.backoffSeconds * 1000);
}
