// Makes the `delivery` slice: routes with their defaults, domains as A-labels, paths absolute (D42a, D96, D98, D99).

import { resolve } from 'node:path';
import type { HopLimits } from '../../delivery/hop/hop-health.ts';
import type { DomainTls, LocalAddress, MxSettings, MxTls } from '../../delivery/mx/settings.ts';
import {
  type CaptureRoute,
  type DeliverySettings,
  defaultRetry,
  type MxRoute,
  type Route,
  type Smarthost,
  type SmarthostRoute,
} from '../../delivery/settings.ts';
import { parseRelayUrl, type RelayUrl } from '../../delivery/smtp/relay-url.ts';
import { type RecipientRule, readPattern, readTarget } from '../../delivery/staging/recipient-rules.ts';
import { domainOf } from './addresses.ts';
import * as defaults from './defaults.ts';
import { type ConfigPath, formatPath } from './fault.ts';
import { findAccount, routeTls, type ServerEntry, serverEntries, withheldRouteName } from './mail-checks.ts';
import { type Resolving, sourceOf } from './resolve-mail.ts';
import type { RouteEntry } from './schema.ts';
import { readSecret } from './secrets.ts';
import type { NamedSecret } from './settings.ts';

type Folders = Resolving['folders'];

function matchOf(contents: Resolving['contents'], match: RouteEntry['match']): Pick<Route, 'match'> {
  if (!match) return {};
  const accounts = match.accounts?.map((reference) => findAccount(contents, reference)?.name ?? reference);
  const recipientDomains = match.recipientDomains?.map(domainOf);
  return { match: { ...(accounts ? { accounts } : {}), ...(recipientDomains ? { recipientDomains } : {}) } };
}

function smarthostOf(url: RelayUrl, entry: ServerEntry, folders: Folders): Smarthost {
  const hasAuth = (entry.auth ?? url.auth) !== undefined;
  const { mode, verify, ca } = routeTls(entry);
  const tls = mode ?? (url.implicitTls ? 'implicit' : 'opportunistic');
  // Opportunistic TLS accepts any certificate, because the alternative is worse: no TLS at all. A server that gets a password is
  // verified, because otherwise any that answers would get it, and one whose issuer is named is meant to be.
  const isVerified = hasAuth || ca !== undefined || tls === 'required' || tls === 'implicit';
  return {
    host: url.host,
    port: url.port,
    tls,
    tlsVerify: verify ?? isVerified,
    ...(ca === undefined ? {} : { caFile: resolve(folders.cwd, ca) }),
    ...(entry.priority === undefined ? {} : { priority: entry.priority }),
  };
}

function captureOf({ dataDir }: Folders, folder = 'capture'): Pick<CaptureRoute, 'type' | 'folder'> {
  return { type: 'capture', folder: resolve(dataDir, folder) };
}

/** The password of a server, named as `routes[0].auth` or `routes[0].urls[1].auth`; undefined where it has none. */
function passwordOf(
  route: RouteEntry,
  { entry, path }: ReturnType<typeof serverEntries>[number],
  folders: Folders,
): NamedSecret | undefined {
  const source = sourceOf(entry.auth?.passwordEnv, entry.auth?.passwordFile, folders);
  const isOwn = route.auth === undefined || entry.auth !== route.auth;
  return source && { path: formatPath([...(isOwn ? path : path.slice(0, 2)), 'auth']), source };
}

function localAddressesOf({ localAddress = [] }: RouteEntry): readonly LocalAddress[] {
  return localAddress.map((one) => {
    if (typeof one === 'string') return { address: one };
    return one.hostname === undefined ? { address: one.address } : { ...one, hostname: domainOf(one.hostname) };
  });
}

/** The limits of a next hop that an entry names besides its connections. */
function limitsOf(entry: Partial<Record<keyof HopLimits, number>>): { readonly limits?: Partial<HopLimits> } {
  const keys = ['messagesPerConnection', 'messagesPerSecond', 'backoffSeconds'] as const;
  const given = keys.filter((key) => entry[key] !== undefined);
  return given.length === 0 ? {} : { limits: Object.fromEntries(given.map((key) => [key, entry[key]])) };
}

/** The limits by recipient domain, and those of all connections together. */
function shapingOf({ connections, destinations = [] }: Resolving['contents']['delivery']): Partial<DeliverySettings> {
  const resolved = destinations.map(({ domains, ...limits }) => ({ domains: domains.map(domainOf), limits }));
  return {
    ...(connections === undefined ? {} : { connections }),
    ...(resolved.length === 0 ? {} : { destinations: resolved }),
  };
}

type Base = Pick<Route, 'name' | 'platformSignature' | 'match'> & RecipientRule;

function smarthostRoute(
  { folders, env }: Resolving,
  base: Base,
  entry: RouteEntry,
  path: ConfigPath,
): SmarthostRoute | undefined {
  const servers = serverEntries(entry, path).flatMap((server): Smarthost[] => {
    const url = parseRelayUrl(server.entry.url ?? '');
    if (!url) return [];
    const host = smarthostOf(url, server.entry, folders);
    const secret = passwordOf(entry, server, folders);
    if (!secret) return [host];
    const auth = {
      user: server.entry.auth?.user ?? '',
      // Read each time it is needed, so that only a route in use needs it.
      get password(): string {
        return readSecret(secret.source, env, secret.path);
      },
    };
    return [{ ...host, auth }];
  });
  const [first, ...standby] = servers;
  if (!first) return undefined;
  return {
    ...base,
    type: 'smarthost',
    ...first,
    ...(standby.length > 0 ? { standby } : {}),
    ...(entry.localAddress ? { localAddress: localAddressesOf(entry) } : {}),
    connections: entry.connections ?? defaults.connections,
    ...limitsOf(entry),
  };
}

function mxTlsOf(
  given: { readonly mode?: string | undefined; readonly verify?: boolean | undefined },
  verify?: boolean,
): MxTls {
  const mode = given.mode === 'none' || given.mode === 'required' ? given.mode : 'opportunistic';
  return { mode, verify: given.verify ?? verify ?? mode === 'required' };
}

/** The networks of `allowPrivate`; true is all of them. */
function allowedNetworks({ allowPrivate = false }: Pick<RouteEntry, 'allowPrivate'>): readonly string[] {
  if (typeof allowPrivate !== 'boolean') return allowPrivate;
  return allowPrivate ? ['0.0.0.0/0', '::/0'] : [];
}

function mxRoute(folders: Folders, base: Base, entry: Partial<RouteEntry>): MxRoute {
  const { mode, verify, ca } = routeTls(entry);
  const tlsByDomain = Object.entries(entry.tlsByDomain ?? {}).map(([name, tls]): readonly [string, DomainTls] => {
    const domain = domainOf(name);
    return [domain, { domain, ...mxTlsOf(typeof tls === 'string' ? { mode: tls } : tls, verify) }];
  });
  const localAddress = localAddressesOf({ ...entry, name: base.name, type: 'mx' });
  const settings: Omit<MxSettings, 'name'> = {
    port: entry.port ?? defaults.mxPort,
    tls: mxTlsOf({ mode, verify }),
    tlsByDomain: new Map(tlsByDomain),
    ...(ca === undefined ? {} : { caFile: resolve(folders.cwd, ca) }),
    mtaSts: entry.mtaSts ?? true,
    ...(localAddress.length > 0 ? { localAddress } : {}),
    allowPrivate: allowedNetworks(entry),
  };
  const connections = entry.connections ?? defaults.connections;
  return { ...base, type: 'mx', ...settings, connections, ...limitsOf(entry) };
}

function resolveRoute(resolving: Resolving, entry: RouteEntry, index: number): Route {
  const { contents, folders } = resolving;
  const { name, platformSignature = true, match } = entry;
  const base: Base = { name, platformSignature, ...matchOf(contents, match), ...recipientRuleOf(entry) };
  if (entry.type === 'mx') return mxRoute(folders, base, entry);
  const smarthost = entry.type === 'smarthost' ? smarthostRoute(resolving, base, entry, ['routes', index]) : undefined;
  return smarthost ?? { ...base, ...captureOf(folders, entry.folder) };
}

/** The rule of staging safety that an account or a route has (D98a). */
function recipientRuleOf({ redirectAll, allowRecipients }: Pick<RouteEntry, 'redirectAll' | 'allowRecipients'>) {
  const to = redirectAll === undefined ? undefined : readTarget(redirectAll);
  const patterns = allowRecipients?.map(readPattern).filter((pattern) => pattern !== undefined);
  return { ...(to === undefined ? {} : { redirectAll: to }), ...(patterns ? { allowRecipients: patterns } : {}) };
}

function hasRule({ redirectAll, allowRecipients }: RecipientRule): boolean {
  return redirectAll !== undefined || allowRecipients !== undefined;
}

/** Staging safety, where there is a rule. What is kept back goes to the first route that captures, where all unsent mail is found. */
function safetyOf({ contents, folders }: Resolving, routes: readonly Route[]): Pick<DeliverySettings, 'safety'> {
  const rules = contents.accounts.map((entry) => [entry.name, recipientRuleOf(entry)] as const);
  const ofAccounts = rules.filter(([, rule]) => hasRule(rule));
  if (ofAccounts.length === 0 && !routes.some(hasRule)) return {};
  const capturing = routes.find((route) => route.type === 'capture');
  const withheld = { name: withheldRouteName, platformSignature: true, ...captureOf(folders, capturing?.folder) };
  return { safety: { accounts: Object.fromEntries(ofAccounts), withheld } };
}

/** POSTERN_RELAY in place of all routes (D96). */
function relayRoute(relay: string, folders: Folders): Route {
  const base = { name: 'relay', platformSignature: true };
  if (relay === 'mx') return mxRoute(folders, base, {});
  const url = parseRelayUrl(relay);
  if (!url) return { ...base, ...captureOf(folders) };
  const { auth } = url;
  const connections = { connections: defaults.connections };
  return { ...base, type: 'smarthost', ...smarthostOf(url, {}, folders), ...connections, ...(auth ? { auth } : {}) };
}

function secretsOf(entry: RouteEntry, index: number, folders: Folders): readonly NamedSecret[] {
  const path: ConfigPath = ['routes', index];
  const servers = entry.type === 'smarthost' ? serverEntries(entry, path) : [{ entry, path }];
  const secrets = servers.flatMap((server) => {
    const password = passwordOf(entry, server, folders);
    const source = sourceOf(undefined, routeTls(server.entry).ca, folders);
    const place = server.entry.tls === entry.tls ? path : server.path;
    return [
      ...(password ? [password] : []),
      ...(source ? [{ path: formatPath([...place, 'tls', 'ca']), source }] : []),
    ];
  });
  return [...new Map(secrets.map((secret) => [secret.path, secret])).values()];
}

/** The `delivery` slice, and where its passwords come from. */
export function resolveDelivery(
  resolving: Resolving,
  relay: string | undefined,
): { readonly delivery: DeliverySettings; readonly routeSecrets: readonly NamedSecret[] } {
  const { contents, folders } = resolving;
  const entries = relay === undefined ? contents.routes : [];
  const { resolver, retry } = contents.delivery;
  const routes =
    relay === undefined
      ? entries.map((entry, index) => resolveRoute(resolving, entry, index))
      : [relayRoute(relay, folders)];
  return {
    delivery: {
      hostname: domainOf(contents.smtp.hostname ?? ''),
      routes,
      ...safetyOf(resolving, routes),
      retry: defaults.filledIn(defaultRetry, retry ?? {}),
      ...shapingOf(contents.delivery),
      ...(resolver ? { resolver: { validates: false, ...resolver } } : {}),
    },
    routeSecrets: entries.flatMap((entry, index) => secretsOf(entry, index, folders)),
  };
}
