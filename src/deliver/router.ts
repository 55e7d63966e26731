// Which route a recipient takes: the first that matches by account and recipient domain (D96, D99), and the transport
// of the spool that it waits for.

import { createHash } from 'node:crypto';
import { splitMailbox } from '../mail/address/domain.ts';
import type { TransportOf } from '../spool/spool.ts';
import type { Route } from './settings.ts';

function matches({ match }: Route, account: string, domain: string): boolean {
  if (match?.accounts && !match.accounts.includes(account)) return false;
  return !match?.recipientDomains || match.recipientDomains.includes(domain);
}

/**
 * The route of a recipient.
 * @param mail.account name of the account
 * @param mail.recipient mailbox; its domain is an A-label
 * @throws Error when none matches: the configuration sees to it that the last matches all
 */
export function routeFor(
  routes: readonly Route[],
  mail: { readonly account: string; readonly recipient: string },
): Route {
  const domain = splitMailbox(mail.recipient).domain?.toLowerCase() ?? '';
  const route = routes.find((candidate) => matches(candidate, mail.account, domain));
  if (!route) throw new Error(`No route for a message of account "${mail.account}" to domain "${domain}"`);
  return route;
}

/**
 * The spool's transport of each route: `name#digest`. The digest is of what decides who takes the route, the matches
 * down to its own: after a change of these, whoever waits for the transport may belong elsewhere, so the transport is
 * another one and its recipients are given theirs anew. Changing where a route leads leaves its transport as it is.
 */
export function transportNames(routes: readonly Route[]): ReadonlyMap<Route, string> {
  const above = createHash('sha256');
  return new Map(
    routes.map((route) => {
      const { accounts, recipientDomains } = route.match ?? {};
      above.update(`${JSON.stringify([accounts ?? null, recipientDomains ?? null])}\n`);
      return [route, `${route.name}#${above.copy().digest('hex').slice(0, 8)}`];
    }),
  );
}

/** Names the transport of any recipient; see `transportNames`. */
export function transportOf(routes: readonly Route[]): TransportOf {
  const names = transportNames(routes);
  return ({ account, address }) => names.get(routeFor(routes, { account, recipient: address })) ?? '';
}
