// Warnings of settings that are allowed but probably not intended, given at start and by `postern config check`.

import { isIP } from 'node:net';
import { daysUntil, type ObservePeriod } from '../../accounts/observe-period.ts';
import { isLocalAddress } from '../../base/net/own-doors.ts';
import { addressTest, hostPort, privateNetworks } from '../../base/net/socket-address.ts';
import { recipientRules } from '../../delivery/router.ts';
import type { Route } from '../../delivery/settings.ts';
import { smarthostsOf } from '../../delivery/smarthost.ts';
import type { RecipientPattern } from '../../delivery/staging/recipient-rules.ts';
import { splitMailbox } from '../../mail/address/domain.ts';
import { parseListen } from './addresses.ts';
import { type Environment, globalKeyOf, variableOf } from './secrets.ts';
import type { Config } from './settings.ts';

const shortestToken = 16;

type Warned = Omit<Config, 'warnings'>;

/** The environment, and the time in milliseconds since 1970. */
interface WarnedAt {
  readonly env: Environment;
  readonly nowMs: number;
}

/** Reserved example names (RFC 2606), which the shipped configuration uses. */
const placeholder = /(?:^|\.)example$/;

function productionWarnings({ accounts, platform, smtp, delivery, development }: Warned): string[] {
  if (development) return [];
  const warnings: string[] = [];
  if (!accounts.some(({ sendingDomains }) => sendingDomains.length > 0)) return warnings;
  if (delivery.routes.every(({ type }) => type === 'capture'))
    warnings.push('no mail leaves: every route captures it in a folder; want one of type smarthost or mx');
  const names = { 'platform.domain': platform.domain, 'smtp.hostname': smtp.hostname };
  for (const [key, name] of Object.entries(names)) {
    if (placeholder.test(name)) warnings.push(`${key} is ${name}, which stands for nobody; want a name of your own`);
  }
  if (!smtp.listeners.some(({ role }) => role === 'bounce')) {
    warnings.push(
      `bounces to ${platform.bounceDomain} reach nobody: the MX that "postern domain records" proposes names ` +
        `${smtp.hostname}, where no listener takes them; want one with role: bounce in smtp.listeners`,
    );
  }
  return warnings;
}

const isPrivate = addressTest(privateNetworks);

function adminWarnings({ http: { adminListen } }: Warned): string[] {
  if (!adminListen || isPrivate(adminListen.host)) return [];
  return [
    `http.adminListen takes tokens in the clear on ${hostPort(adminListen.host, adminListen.port)}, a public address; want a private one, with ` +
      'something before it that speaks TLS',
  ];
}

function consoleWarnings({ console: { enabled, publicUrl } }: Warned): string[] {
  if (!enabled || publicUrl?.startsWith('http://') !== true) return [];
  const { hostname } = new URL(publicUrl);
  const address = hostname.replace(/^\[(.*)\]$/, '$1');
  if (hostname === 'localhost' || (isIP(address) !== 0 && isPrivate(address))) return [];
  return [`console.publicUrl is ${publicUrl}: whoever signs in sends a token in the clear; want https://`];
}

/** A credential (as `account/credential`) or a listener for which the policy is only observed, and until when. */
export interface ObservedPart {
  readonly kind: 'credential' | 'listener';
  readonly name: string;
  readonly period: ObservePeriod;
}

/** The credentials and listeners for which the policy is only observed, including those whose period is over. */
export function observedParts({ accounts, smtp }: Pick<Config, 'accounts' | 'smtp'>): ObservedPart[] {
  const credentials = accounts.flatMap((account) =>
    [...account.credentials.values()].flatMap(({ name, observe }): ObservedPart[] =>
      observe ? [{ kind: 'credential', name: `${account.name}/${name}`, period: observe }] : [],
    ),
  );
  const listeners = smtp.listeners.flatMap(({ name, observe }): ObservedPart[] =>
    observe ? [{ kind: 'listener', name, period: observe }] : [],
  );
  return [...credentials, ...listeners];
}

function canMatch(patterns: readonly RecipientPattern[], domains: readonly string[]): boolean {
  return patterns.some((pattern) => {
    if (pattern.kind === 'address') return domains.includes(splitMailbox(pattern.address).domain ?? '');
    if (pattern.kind === 'domain') return domains.includes(pattern.domain);
    return domains.some((domain) => domain.endsWith(`.${pattern.domain}`));
  });
}

/** Warnings of staging safety: where it is in force outside development, and where it lets nothing through (D98a). */
function safetyWarnings({ delivery, development }: Warned): string[] {
  return recipientRules(delivery).flatMap(({ place, rule: { redirectAll, allowRecipients }, domains }) => {
    if (allowRecipients?.length === 0) return [`${place}: allowRecipients is empty, so no mail leaves`];
    if (allowRecipients && domains && !canMatch(allowRecipients, domains)) {
      return [`${place}: allowRecipients names nobody in match.recipientDomains, so no mail leaves by it`];
    }
    if (development) return [];
    if (redirectAll === undefined)
      return [`${place}: mail to whom allowRecipients does not name is captured, not sent`];
    const what = `all mail goes to ${redirectAll} in place of its recipients (redirectAll)`;
    return [`${place}: ${what}; take it out in production`];
  });
}

function observeWarnings(config: Warned, { nowMs }: WarnedAt): string[] {
  return observedParts(config).map(({ kind, name, period: { until } }) => {
    const days = daysUntil(until, nowMs);
    if (days < 0)
      return `${kind} ${name}: observing the header policy ended after ${until}, it is enforced; remove policy.observe`;
    const left = days === 0 ? 'today is the last day' : `${days} ${days === 1 ? 'day' : 'days'} from now`;
    return `${kind} ${name}: the header policy is only observed until ${until} (${left}): headers that it refuses are removed`;
  });
}

function shortTokens({ tokens, http: { metricsToken } }: Warned, { env }: WarnedAt): string[] {
  const sources = [...tokens, ...(metricsToken ? [metricsToken] : [])].map(({ source }) => source);
  const variables = sources.flatMap((source) => (source.kind === 'variable' ? [source.name] : []));
  return [...new Set(['POSTERN_TOKEN', ...variables])].flatMap((name) => {
    const { length } = variableOf(name, env);
    if (length === 0 || length >= shortestToken) return [];
    return [`${name} has ${length} character${length === 1 ? '' : 's'}: one that short can be guessed`];
  });
}

function routeWarnings(route: Route): string[] {
  if (route.type === 'capture') return [];
  const absent = (route.localAddress ?? []).filter(({ address }) => !isLocalAddress(address));
  const warnings = absent.map(
    ({ address }) =>
      `route "${route.name}" sends from ${address}, which this machine does not have: its mail will wait`,
  );
  if (route.type === 'mx') return warnings;
  for (const { host, auth, tlsVerify } of smarthostsOf(route)) {
    if (!auth || tlsVerify || host === 'localhost' || /^127\.|^::1$/.test(host)) continue;
    const shown = isIP(host) === 6 ? `[${host}]` : host;
    warnings.push(`route "${route.name}" sends its password to whoever answers as ${shown} (tls.verify: false)`);
  }
  return warnings;
}

/** RFC 7672 §2.1: the AD bit of a resolver is worth as much as the way to it. */
function resolverWarnings({ delivery: { resolver } }: Warned): string[] {
  if (!resolver?.validates) return [];
  if (!resolver.servers)
    return ['delivery.resolver validates without servers: name the resolver whose word DANE believes'];
  const far = resolver.servers.filter((server) => !isPrivate(parseListen(server)?.host ?? server));
  return far.map(
    (server) => `delivery.resolver believes ${server}, a public address: anybody on the way can forge what it says`,
  );
}

/** A warning of mail that goes to another host's PostgreSQL without TLS. */
function databaseWarnings({ database }: Warned): string[] {
  if (database.engine !== 'postgres' || !database.isInTheClear) return [];
  return [`mail goes to the database at ${database.server} in the clear; want ?sslmode=verify-full in database.url`];
}

function listenerWarnings({ smtp }: Warned): string[] {
  return smtp.listeners.flatMap(({ name, role, tls, allowInsecureAuth, credential }) => {
    if (allowInsecureAuth)
      return tls === 'implicit' ? [] : [`smtp listener "${name}" takes tokens in the clear (allowInsecureAuth)`];
    if (role !== 'submission' || tls !== 'none' || credential) return [];
    return [`smtp listener "${name}" takes no mail: it has neither TLS for AUTH nor a credential of its own`];
  });
}

function globalKeyWarnings({ edgeAccounts }: Warned, { env }: WarnedAt): string[] {
  return edgeAccounts.flatMap((account) => {
    const { id, email, globalKey } = account;
    if (globalKey?.kind !== 'variable') return [];
    if (email === undefined) return [`account ${id} has a globalKeyEnv but no email to use it with`];
    if (globalKeyOf(account, env) !== undefined) return [];
    return [`the global key of ${email} opens nothing: the environment variable ${globalKey.name} is not set`];
  });
}

/** All warnings, one line each. */
export function warningsOf(config: Warned, at: WarnedAt): string[] {
  return [
    ...productionWarnings(config),
    ...adminWarnings(config),
    ...consoleWarnings(config),
    ...observeWarnings(config, at),
    ...safetyWarnings(config),
    ...databaseWarnings(config),
    ...listenerWarnings(config),
    ...config.delivery.routes.flatMap(routeWarnings),
    ...resolverWarnings(config),
    ...globalKeyWarnings(config, at),
    ...shortTokens(config, at),
  ];
}
