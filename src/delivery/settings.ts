// The part of the configuration that delivery uses (D27, D42a, D96, D98).

import type { HopLimits } from './hop/hop-health.ts';
import type { LocalAddress, MxSettings, ResolverSettings } from './mx/settings.ts';
import type { SmtpClientOptions } from './smtp/smtp-tls.ts';
import type { RecipientRule } from './staging/recipient-rules.ts';

/** The staging safety of a configuration. */
export interface RecipientSafety {
  /** The rules of accounts, by name. They are asked before those of routes. */
  readonly accounts: Readonly<Record<string, RecipientRule>>;
  /** The route that captures what `allowRecipients` keeps back. No message chooses it by its domain or account. */
  readonly withheld: CaptureRoute;
}

interface RouteBase extends RecipientRule {
  readonly name: string;
  /** A message must match every list; absent: all match. Names of accounts; domains as A-labels in lower case. */
  readonly match?: { readonly accounts?: readonly string[]; readonly recipientDomains?: readonly string[] };
  /** Send the platform's own DKIM signature too (D27). */
  readonly platformSignature: boolean;
}

/** A server that takes the mail of a route. */
export interface Smarthost extends Pick<SmtpClientOptions, 'host' | 'port' | 'tls' | 'tlsVerify' | 'caFile' | 'auth'> {
  /** Those with the lowest number are used while one of them works; absent: 0. */
  readonly priority?: number;
}

/** Hands mail to one next hop: a server, or those that stand in for it. */
export interface SmarthostRoute extends RouteBase, Smarthost {
  readonly type: 'smarthost';
  readonly standby?: readonly Smarthost[];
  /** Addresses that its mail leaves from: one for IPv4, one for IPv6 at the most. */
  readonly localAddress?: readonly LocalAddress[];
  readonly connections: number;
  /** Further limits of a next hop; absent: `defaultHopLimits`. */
  readonly limits?: Partial<HopLimits>;
}

/** Hands mail to the mail exchangers of the recipient's domain (RFC 5321 §5.1). */
export interface MxRoute extends RouteBase, MxSettings {
  readonly type: 'mx';
  /** How many connections to one set of mail exchangers may be open at once. */
  readonly connections: number;
  /** Further limits of a next hop; absent: `defaultHopLimits`. */
  readonly limits?: Partial<HopLimits>;
}

/** Writes mail into a Maildir: final delivery (D98). */
export interface CaptureRoute extends RouteBase {
  readonly type: 'capture';
  /** Absolute path of the Maildir. */
  readonly folder: string;
}

/** A way for mail; a recipient takes the first route that matches. */
export type Route = SmarthostRoute | MxRoute | CaptureRoute;

/** The limits of a next hop for which nothing is configured. */
const defaultHopLimits = { messagesPerConnection: 1000, backoffSeconds: 60 } as const;

/** Connections to all next hops together where nothing is configured. */
export const defaultConnections = 500;

/** Limits for the next hops of some recipient domains, whatever the route. */
export interface DestinationSettings {
  /** A-labels in lower case; each stands for itself alone. */
  readonly domains: readonly string[];
  readonly limits: Partial<HopLimits>;
}

/** When a deferred message is tried again (D42a). */
export type RetrySettings = Readonly<typeof defaultRetry>;

/** What holds where the configuration says nothing (D42a); the random share is no setting. */
export const defaultRetry = {
  firstDelaySeconds: 60,
  maxDelaySeconds: 14_400,
  /** The random share of a delay: with 0.2 it is between 80 % and 120 %. */
  jitter: 0.2,
  expireAfterSeconds: 432_000,
};

/** The settings of delivery. */
export interface DeliverySettings {
  /** Our own name in EHLO. */
  readonly hostname: string;
  /** In order; the last has no `match`. */
  readonly routes: readonly Route[];
  readonly retry: RetrySettings;
  /** Absent where no account and no route has a rule. */
  readonly safety?: RecipientSafety;
  /** Absent: the machine's own name servers, without DANE. */
  readonly resolver?: ResolverSettings;
  /** Connections to all next hops together; absent: `defaultConnections`. */
  readonly connections?: number;
  /** The first entry with the domain counts. */
  readonly destinations?: readonly DestinationSettings[];
}

/** The limits of a route's next hops for whose domains nothing is said. */
export function routeLimits({
  connections,
  limits,
}: Pick<SmarthostRoute | MxRoute, 'connections' | 'limits'>): HopLimits {
  return { ...defaultHopLimits, connections, ...limits };
}

/** The limits that the configuration names for a recipient domain, over those of the route; undefined where it names none. */
export function domainLimits(
  { destinations = [] }: Pick<DeliverySettings, 'destinations'>,
  route: Pick<SmarthostRoute | MxRoute, 'type' | 'connections' | 'limits'>,
  domain: string,
): HopLimits | undefined {
  // All mail of a smarthost route shares one next hop, so that no domain can have limits of its own there.
  if (route.type === 'smarthost') return undefined;
  const own = destinations.find(({ domains }) => domains.includes(domain));
  return own && { ...routeLimits(route), ...own.limits };
}
