// Makes the slices of the mail parts from the file's contents: defaults filled in, domains as A-labels, paths absolute (D42,
// D42a, D99).

import { resolve } from 'node:path';
import type { DkimKeyName } from '../accounts/account.ts';
import { observePeriod } from '../accounts/observe-period.ts';
import type { CaptureRoute, DeliverySettings, Route, SmarthostRoute } from '../deliver/settings.ts';
import { type RecipientRule, readPattern, readTarget } from '../deliver/staging/recipient-rules.ts';
import type { SmtpListener, SmtpSettings } from '../ingress/smtp/settings.ts';
import { asciiDomain } from '../mail/address/domain.ts';
import type { SpoolLimits } from '../spool/spool-limits.ts';
import { type HostPort, parseListen, parseNetwork } from './addresses.ts';
import * as defaults from './defaults.ts';
import { findAccount, routeTls, withheldRouteName } from './mail-checks.ts';
import { parseRelayUrl, type RelayUrl } from './relay-url.ts';
import type { ListenerEntry, RouteEntry } from './schema.ts';
import { type Environment, readSecret, secretHash } from './secrets.ts';
import type { Config, HttpSettings, PlatformSettings, ReportSettings, SecretSource } from './settings.ts';

type Contents = defaults.CompleteContents;

/** The folders that relative paths start at. */
export interface Folders {
  readonly cwd: string;
  readonly dataDir: string;
  readonly certsDir: string;
}

/** A domain that the schema has accepted, as an A-label in lower case. */
export function domainOf(text: string): string {
  return asciiDomain(text) ?? text;
}

/** Reads an address that the schema has accepted. */
function listenOf(text: string): HostPort {
  const address = parseListen(text);
  if (!address) throw new Error(`Cannot parse listen address "${text}"`);
  return address;
}

const networksOf = (texts: readonly string[] = []) => texts.map((text) => parseNetwork(text) ?? text);

/** Names of DKIM keys with their algorithm. */
export function dkimOf(
  keys: readonly { readonly selector: string; readonly algorithm?: DkimKeyName['algorithm'] }[],
): DkimKeyName[] {
  return keys.map(({ selector, algorithm }) => ({ selector, algorithm: algorithm ?? 'rsa' }));
}

/** The `platform` slice. */
export function resolvePlatform({ platform }: Contents, folders: Folders): PlatformSettings {
  return {
    domain: domainOf(platform.domain ?? defaults.platform.domain),
    bounceDomain: domainOf(platform.bounceDomain ?? defaults.platform.bounceDomain),
    hmacKeyFile: resolve(folders.certsDir, platform.hmacKeyFile ?? defaults.platform.hmacKeyFile),
    dkim: dkimOf(platform.dkim ?? defaults.platform.dkim),
  };
}

/** A reference to a credential. The account is named by its name, even where the file has its id (D93). */
function credentialOf(contents: Contents, reference: string): NonNullable<SmtpListener['credential']> {
  const slash = reference.indexOf('/');
  const account = reference.slice(0, slash);
  return { account: findAccount(contents, account)?.name ?? account, name: reference.slice(slash + 1) };
}

function resolveListener(contents: Contents, entry: ListenerEntry): SmtpListener {
  return {
    name: entry.name,
    role: entry.role ?? 'submission',
    ...listenOf(entry.listen),
    tls: entry.tls,
    allowInsecureAuth: entry.allowInsecureAuth ?? false,
    trustedHop: entry.trustedHop ?? false,
    lineEndings: entry.lineEndings ?? 'fix',
    legacyCharset: entry.legacyCharset ?? 'windows-1252',
    proxyProtocolFrom: networksOf(entry.proxyProtocolFrom),
    ...(entry.credential === undefined ? {} : { credential: credentialOf(contents, entry.credential) }),
    allowFrom: networksOf(entry.allowFrom),
    ...(entry.policy?.observe ? { observe: observePeriod(entry.policy.observe.until) } : {}),
  };
}

/** The `smtp` slice: the enabled listeners. */
export function resolveSmtp(contents: Contents): SmtpSettings {
  const { hostname, listeners = [], limits } = contents.smtp;
  return {
    hostname: domainOf(hostname ?? ''),
    listeners: listeners.filter(({ enabled }) => enabled !== false).map((entry) => resolveListener(contents, entry)),
    limits: { ...defaults.smtpLimits, ...limits },
  };
}

/** The `spool` slice: what each account may have, and the room that stays free. */
export function resolveSpool({ spool }: Contents): SpoolLimits {
  const { minFreeBytes, account } = spool;
  return { ...defaults.spoolLimits, ...account, ...(minFreeBytes === undefined ? {} : { minFreeBytes }) };
}

/** The `reports` slice. */
export function resolveReports({ reports }: Contents): ReportSettings {
  return { ...defaults.reports, ...reports };
}

/** The token for /metrics, if one is named. Its hash is read each time it is asked for. */
function metricsTokenOf({ contents: { http }, folders, env }: Resolving): Pick<HttpSettings, 'metricsToken'> {
  const { metricsTokenEnv, metricsTokenFile } = http;
  const named =
    metricsTokenEnv !== undefined
      ? { path: 'http.metricsTokenEnv', source: { kind: 'variable', name: metricsTokenEnv } as const }
      : metricsTokenFile !== undefined
        ? {
            path: 'http.metricsTokenFile',
            source: { kind: 'file', file: resolve(folders.cwd, metricsTokenFile) } as const,
          }
        : undefined;
  if (!named) return {};
  return {
    metricsToken: {
      ...named,
      get sha256(): string | undefined {
        return secretHash(named.source, env);
      },
    },
  };
}

/** The `http` slice. */
export function resolveHttp(resolving: Resolving): HttpSettings {
  const { http } = resolving.contents;
  const { adminListen = '' } = http;
  const tlsListen = http.tlsListen ?? defaults.http.tlsListen;
  return {
    listen: listenOf(http.listen ?? defaults.http.listen),
    ...(tlsListen === '' ? {} : { tlsListen: listenOf(tlsListen) }),
    ...(adminListen === '' ? {} : { adminListen: listenOf(adminListen) }),
    apiHosts: (http.apiHosts ?? defaults.http.apiHosts).map((host) => host.toLowerCase()),
    ...(http.docsBaseUrl === undefined ? {} : { docsBaseUrl: http.docsBaseUrl.replace(/\/$/, '') }),
    ...metricsTokenOf(resolving),
    limits: { ...defaults.http.limits, ...http.limits },
    adminLimits: { ...defaults.http.adminLimits, ...http.adminLimits },
  };
}

function matchOf(contents: Contents, match: RouteEntry['match']): Pick<Route, 'match'> {
  if (!match) return {};
  const accounts = match.accounts?.map((reference) => findAccount(contents, reference)?.name ?? reference);
  const recipientDomains = match.recipientDomains?.map(domainOf);
  return { match: { ...(accounts ? { accounts } : {}), ...(recipientDomains ? { recipientDomains } : {}) } };
}

/** Where the password of a route comes from, if the route logs in. */
function passwordSource({ auth }: RouteEntry, folders: Folders): SecretSource | undefined {
  if (auth?.passwordEnv !== undefined) return { kind: 'variable', name: auth.passwordEnv };
  if (auth?.passwordFile !== undefined) return { kind: 'file', file: resolve(folders.cwd, auth.passwordFile) };
  return undefined;
}

/**
 * Whether a route verifies certificates by default. Opportunistic TLS accepts any certificate, because the alternative is
 * worse: no TLS at all. A route with a password verifies, because otherwise any server that answers would get the password.
 */
function defaultVerify(tls: SmarthostRoute['tls'], hasAuth: boolean): boolean {
  return hasAuth || tls === 'required' || tls === 'implicit';
}

function smarthostOf(
  url: RelayUrl,
  entry: Pick<RouteEntry, 'tls' | 'tlsVerify' | 'connections' | 'auth'>,
  folders: Folders,
) {
  const hasAuth = (entry.auth ?? url.auth) !== undefined;
  const { mode, verify, ca } = routeTls(entry);
  const tls = mode ?? (url.implicitTls ? 'implicit' : 'opportunistic');
  return {
    type: 'smarthost',
    host: url.host,
    port: url.port,
    tls,
    // A route that names an issuer is meant to be verified.
    tlsVerify: verify ?? (ca !== undefined || defaultVerify(tls, hasAuth)),
    ...(ca === undefined ? {} : { caFile: resolve(folders.cwd, ca) }),
    connections: entry.connections ?? 10,
  } as const;
}

/** A user whose password is read each time it is needed, so that only a route in use needs it. */
function lazyAuth(user: string, source: SecretSource, at: { readonly env: Environment; readonly path: string }) {
  return {
    user,
    get password(): string {
      return readSecret(source, at.env, at.path);
    },
  };
}

interface Resolving {
  readonly contents: Contents;
  readonly folders: Folders;
  readonly env: Environment;
}

function captureOf(folders: Folders, entry: Pick<RouteEntry, 'folder'>): Pick<CaptureRoute, 'type' | 'folder'> {
  return { type: 'capture', folder: resolve(folders.dataDir, entry.folder ?? 'capture') };
}

function resolveRoute({ contents, folders, env }: Resolving, entry: RouteEntry, index: number): Route {
  const base = {
    name: entry.name,
    platformSignature: entry.platformSignature ?? true,
    ...matchOf(contents, entry.match),
    ...recipientRuleOf(entry),
  };
  const url = entry.type === 'smarthost' ? parseRelayUrl(entry.url ?? '') : undefined;
  if (!url) return { ...base, ...captureOf(folders, entry) };
  const source = passwordSource(entry, folders);
  const path = `routes[${index}].auth`;
  return {
    ...base,
    ...smarthostOf(url, entry, folders),
    ...(source && entry.auth ? { auth: lazyAuth(entry.auth.user, source, { env, path }) } : {}),
  };
}

/** The rule of staging safety that an account or a route has (D98a). */
function recipientRuleOf({ redirectAll, allowRecipients }: Pick<RouteEntry, 'redirectAll' | 'allowRecipients'>) {
  const to = redirectAll === undefined ? undefined : readTarget(redirectAll);
  const patterns = allowRecipients?.map(readPattern).filter((pattern) => pattern !== undefined);
  return {
    ...(to === undefined ? {} : { redirectAll: to }),
    ...(patterns ? { allowRecipients: patterns } : {}),
  };
}

function hasRule({ redirectAll, allowRecipients }: RecipientRule): boolean {
  return redirectAll !== undefined || allowRecipients !== undefined;
}

/**
 * Staging safety; absent where nothing has a rule. What is kept back goes to the folder of the first route that captures, so
 * that all that has not left is found in one place.
 */
function safetyOf({ contents, folders }: Resolving, routes: readonly Route[]): Pick<DeliverySettings, 'safety'> {
  const rules = contents.accounts.map((entry) => [entry.name, recipientRuleOf(entry)] as const);
  const ofAccounts = rules.filter(([, rule]) => hasRule(rule));
  if (ofAccounts.length === 0 && !routes.some(hasRule)) return {};
  const capturing = routes.find((route) => route.type === 'capture');
  const own = { name: withheldRouteName, platformSignature: true, ...captureOf(folders, {}) };
  const withheld = capturing ? { ...own, folder: capturing.folder } : own;
  return { safety: { accounts: Object.fromEntries(ofAccounts), withheld } };
}

/** POSTERN_RELAY in place of all routes (D96). */
function relayRoute(relay: string, folders: Folders): Route {
  const base = { name: 'relay', platformSignature: true };
  const url = parseRelayUrl(relay);
  if (!url) return { ...base, ...captureOf(folders, {}) };
  return { ...base, ...smarthostOf(url, {}, folders), ...(url.auth ? { auth: url.auth } : {}) };
}

/** The `delivery` slice, and where its passwords come from. */
export function resolveDelivery(
  resolving: Resolving,
  relay: string | undefined,
): { readonly delivery: DeliverySettings; readonly routeSecrets: Config['routeSecrets'] } {
  const { contents, folders } = resolving;
  const entries = relay === undefined ? contents.routes : [];
  const routes =
    relay === undefined
      ? entries.map((entry, index) => resolveRoute(resolving, entry, index))
      : [relayRoute(relay, folders)];
  return {
    delivery: {
      hostname: domainOf(contents.smtp.hostname ?? ''),
      routes,
      ...safetyOf(resolving, routes),
      retry: { ...defaults.retry, ...contents.delivery.retry },
    },
    routeSecrets: entries.flatMap((entry, index) => {
      const source = passwordSource(entry, folders);
      const { ca } = routeTls(entry);
      return [
        ...(source ? [{ path: `routes[${index}].auth`, source }] : []),
        ...(ca === undefined
          ? []
          : [{ path: `routes[${index}].tls.ca`, source: { kind: 'file', file: resolve(folders.cwd, ca) } as const }]),
      ];
    }),
  };
}
