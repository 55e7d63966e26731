// Where mail goes next: a next hop is one server, or a set of servers that stand in for one another.

import type { MessageTls } from './mx/tls-demand.ts';
import type { HopRefusal, RecipientResult, SmtpConnection } from './smtp/smtp-client.ts';

/** One next hop: a smarthost route has one, a route by MX has one for each set of MX hosts. */
export interface NextHop {
  /** Names it: messages for hops of the same key share connections and budgets. */
  readonly key: string;
  /** For people: what the queue commands and metrics show, such as `default (mail.example:587)` or `mx (mx1.example, mx2.example)`. */
  readonly label: string;
  /** Opens a connection to the best host that takes one; resolves to the refusal if none does. Never rejects for a fault of the other side. */
  connect(request: { readonly domain: string; readonly signal: AbortSignal }): Promise<SmtpConnection | HopRefusal>;
}

/** Finds next hops; each route at work has one. */
export interface NextHops {
  /**
   * The next hop of a recipient domain (A-label), or the outcome where there is none: null MX, no such domain, DNS out of order.
   * A message that says something of TLS has another next hop than the others to the same domain, where that matters.
   * @param account whose mail it is: what it costs to find next hops is shared between accounts
   */
  find(domain: string, tls: MessageTls | undefined, account: string): Promise<NextHop | RecipientResult>;
}
