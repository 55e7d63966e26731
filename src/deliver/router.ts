// Which route a recipient takes: the first that matches by account and recipient domain (D96, D99).

import { splitMailbox } from '../mail/domain.ts';
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
