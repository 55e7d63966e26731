// Chooses the way of a recipient: the first route that matches by account and recipient domain (D96, D99), unless staging
// safety sends the message elsewhere (D98a), and the transport that the recipient waits for in the spool.

import { createHash } from 'node:crypto';
import { Part } from '../base/part.ts';
import { splitMailbox } from '../mail/address/domain.ts';
import type { TransportOf } from '../spool/spool.ts';
import type { Working } from './claimer.ts';
import type { DueRecipient, Job } from './job.ts';
import type { DeliverySettings, Route } from './settings.ts';
import { originalRecipientsField, type RecipientRule, rule } from './staging/recipient-rules.ts';

function matches({ match }: Route, account: string, domain: string): boolean {
  if (match?.accounts && !match.accounts.includes(account)) return false;
  return !match?.recipientDomains || match.recipientDomains.includes(domain);
}

/** Finds a recipient's route. @param mail.account its name @param mail.recipient with an A-label @throws Error when none matches */
export function routeFor(
  routes: readonly Route[],
  mail: { readonly account: string; readonly recipient: string },
): Route {
  const domain = splitMailbox(mail.recipient).domain?.toLowerCase() ?? '';
  const route = routes.find((candidate) => matches(candidate, mail.account, domain));
  if (!route) throw new Error(`No route for a message of account "${mail.account}" to domain "${domain}"`);
  return route;
}

/** Where a recipient's copy of a message goes. */
export interface Way {
  readonly route: Route;
  /** The address that it leaves to in place of the recipient's. */
  readonly redirectedTo?: string;
}

/** Routes, and what keeps mail from the recipients it names. */
type Routing = Pick<DeliverySettings, 'routes' | 'safety'>;

function accountRule({ safety }: Routing, account: string): RecipientRule {
  const { accounts } = safety ?? {};
  return accounts && Object.hasOwn(accounts, account) ? (accounts[account] ?? {}) : {};
}

function withheldRoute({ safety }: Routing): Route {
  if (!safety) throw new Error('allowRecipients keeps a recipient back, and there is no folder for it');
  return safety.withheld;
}

/**
 * Finds the way of a recipient by the settings in force (D98a). The account's rule comes first: an address in place of the
 * recipient's takes the route of that address. Then comes the rule of the route.
 * @param mail.account name of the account
 * @param mail.recipient mailbox; its domain is an A-label
 */
export function wayFor(routing: Routing, mail: { readonly account: string; readonly recipient: string }): Way {
  const ofAccount = rule(accountRule(routing, mail.account), mail.recipient);
  if (ofAccount.kind === 'withhold') return { route: withheldRoute(routing) };
  const redirected = ofAccount.kind === 'redirect' ? ofAccount.to : undefined;
  const recipient = redirected ?? mail.recipient;
  const route = routeFor(routing.routes, { account: mail.account, recipient });
  const ofRoute = rule(route, recipient);
  if (ofRoute.kind === 'withhold') return { route: withheldRoute(routing) };
  const redirectedTo = ofRoute.kind === 'redirect' ? ofRoute.to : redirected;
  return redirectedTo === undefined ? { route } : { route, redirectedTo };
}

/** Every account and route with a rule of staging safety, as `account "dev"` or `route "partner"`. */
export function recipientRules({ routes, safety }: Routing): readonly {
  readonly place: string;
  readonly rule: RecipientRule;
  /** The only recipient domains that the rule can meet; absent: all. */
  readonly domains?: readonly string[];
}[] {
  const accounts = Object.entries(safety?.accounts ?? {});
  const ofAccounts = accounts.map(([name, each]) => ({ place: `account "${name}"`, rule: each }));
  const ofRoutes = routes.flatMap((route) => {
    if (route.redirectAll === undefined && !route.allowRecipients) return [];
    const domains = route.match?.recipientDomains;
    return [{ place: `route "${route.name}"`, rule: route, ...(domains ? { domains } : {}) }];
  });
  return [...ofAccounts, ...ofRoutes];
}

/** Every route that a message can take, the one for what is kept back included. */
export function allRoutes({ routes, safety }: Routing): readonly Route[] {
  return safety ? [...routes, safety.withheld] : routes;
}

/**
 * Names the spool's transport of each route: `name#digest`. The digest covers the matches of all routes down to this one,
 * and all rules of staging safety, since they decide who takes it. When these change, recipients may belong to another
 * route: the transport's name changes, and the recipients of the old one get a transport anew. So it does where they come to
 * wait by domain, or no longer do. Any other change of where the route leads keeps the name.
 */
export function transportNames(routing: Routing): ReadonlyMap<Route, string> {
  const { routes, safety } = routing;
  const above = createHash('sha256');
  if (safety) {
    const ofRoutes = routes.map(({ redirectAll, allowRecipients }) => [redirectAll ?? null, allowRecipients ?? null]);
    above.update(`${JSON.stringify([safety.accounts, ofRoutes])}\n`);
  }
  return new Map(
    allRoutes(routing).map((route) => {
      const { accounts, recipientDomains } = route.match ?? {};
      const byDomain = isByDomain(route) ? ['by domain'] : [];
      above.update(`${JSON.stringify([accounts ?? null, recipientDomains ?? null, ...byDomain])}\n`);
      return [route, `${route.name}#${above.copy().digest('hex').slice(0, 8)}`];
    }),
  );
}

/** The domains of the route have next hops of their own, so that each waits on its own. */
function isByDomain({ type }: Route): boolean {
  return type === 'mx';
}

/** Makes what names a recipient's transport (`transportNames`), with its domain behind a slash where each domain waits on its own. */
export function transportOf(routing: Routing): TransportOf {
  const names = transportNames(routing);
  return ({ account, address }) => {
    const { route, redirectedTo = address } = wayFor(routing, { account, recipient: address });
    const name = names.get(route) ?? '';
    return isByDomain(route) ? `${name}/${splitMailbox(redirectedTo).domain?.toLowerCase() ?? ''}` : name;
  };
}

/** The ways that recipients take by one set of settings: their transports, and where a message leaves to another address. */
export class Ways extends Part<{ readonly settings: Routing; readonly transports: ReadonlyMap<Route, Working> }> {
  /** Sorts recipients of an account's message by the transport that they take. */
  byTransport<R extends DueRecipient>(account: string, recipients: readonly R[]): ReadonlyMap<Working, readonly R[]> {
    const groups = new Map<Working, R[]>();
    for (const recipient of recipients) {
      const working = this.parts.transports.get(this.#find(account, recipient.address).route);
      if (!working) continue;
      const group = groups.get(working);
      if (group) group.push(recipient);
      else groups.set(working, [recipient]);
    }
    return groups;
  }

  /** Where and how a message leaves to another address; undefined where it goes to its recipients. */
  redirectOf({ entry, share }: Pick<Job, 'entry' | 'share'>, [first]: readonly DueRecipient[]): Job['redirect'] {
    const to = first && this.#find(entry.account, first.address).redirectedTo;
    if (to === undefined) return undefined;
    // All that this copy stands for, whether they are due now or not.
    const originals = [...new Set(entry.recipients)].filter((address) => this.#goes(entry.account, address, share, to));
    const asked = entry.dsn?.recipients;
    const wantsNoReport = originals.every((address) => asked?.get(address)?.notify === 'NEVER');
    return { to, field: originalRecipientsField(originals), wantsNoReport };
  }

  /** Whether the copy of a redirected message stands for this recipient, too. */
  isCovered({ entry, share, redirect }: Job, recipient: string): boolean {
    return redirect !== undefined && this.#goes(entry.account, recipient, share, redirect.to);
  }

  #goes(account: string, recipient: string, share: Job['share'], to: string): boolean {
    const way = this.#find(account, recipient);
    return way.route === share.route && way.redirectedTo === to;
  }

  #find(account: string, recipient: string): Way {
    return wayFor(this.parts.settings, { account, recipient });
  }
}
