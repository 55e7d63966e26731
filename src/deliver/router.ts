// Chooses the route of a recipient, the first that matches by account and recipient domain (D96, D99), and the transport
// that the recipient waits for in the spool.

import { createHash } from 'node:crypto';
import { splitMailbox } from '../mail/address/domain.ts';
import type { TransportOf } from '../spool/spool.ts';
import type { Route } from './settings.ts';

function matches({ match }: Route, account: string, domain: string): boolean {
  if (match?.accounts && !match.accounts.includes(account)) return false;
  return !match?.recipientDomains || match.recipientDomains.includes(domain);
}

/**
 * Finds the route of a recipient.
 * @param mail.account name of the account
 * @param mail.recipient mailbox; its domain is an A-label
 * @throws Error when no route matches: the configuration makes sure that the last one matches everything
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
 * Names the spool's transport of each route: `name#digest`. The digest covers the matches of all routes down to this one,
 * since they decide who takes it. When these change, recipients may belong to another route: the transport's name changes,
 * and the recipients of the old one get a transport anew. A change of where the route leads keeps the name.
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

/** Makes the function that names the transport of a recipient; see `transportNames`. */
export function transportOf(routes: readonly Route[]): TransportOf {
  const names = transportNames(routes);
  return ({ account, address }) => names.get(routeFor(routes, { account, recipient: address })) ?? '';
}
