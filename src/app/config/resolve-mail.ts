// Makes the slices of the mail parts: defaults filled in, domains as A-labels, paths absolute (D42, D42a, D99).

import { resolve } from 'node:path';
import type { DkimKeyName } from '../../accounts/account.ts';
import { observePeriod } from '../../accounts/observe-period.ts';
import { parsePostgresUrl, withPassword } from '../../base/postgres/server-hosts.ts';
import type { Route } from '../../delivery/settings.ts';
import type { TlsReportSettings } from '../../delivery/tls-report/make-report.ts';
import { defaultRestLimits, type RestLimits, requestBytesPerMessageByte } from '../../doors/rest/settings.ts';
import { defaultSmtpLimits, type SmtpListener, type SmtpSettings } from '../../doors/smtp/settings.ts';
import type { SpoolLimits } from '../../spool/spool-limits.ts';
import { apiHostsOf } from './account-checks.ts';
import { domainOf, type HostPort, parseListen, parseNetwork } from './addresses.ts';
import * as defaults from './defaults.ts';
import { findAccount } from './mail-checks.ts';
import type { ListenerEntry } from './schema.ts';
import { type Environment, readSecret, secretHash } from './secrets.ts';
import { sendersOf } from './sender-maps.ts';
import type * as settings from './settings.ts';

type Contents = defaults.CompleteContents;

/** What slices are made from. */
export interface Resolving {
  readonly contents: Contents;
  /** The folders that relative paths start at, absolute. */
  readonly folders: { readonly cwd: string; readonly dataDir: string; readonly certsDir: string };
  readonly env: Environment;
}

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
export function resolvePlatform({ contents: { platform }, folders }: Resolving): settings.PlatformSettings {
  return {
    domain: domainOf(platform.domain ?? defaults.platform.domain),
    bounceDomain: domainOf(platform.bounceDomain ?? defaults.platform.bounceDomain),
    hmacKeyFile: resolve(folders.certsDir, defaults.hmacKeyFile),
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
    ...sendersOf(entry, contents),
    ...(entry.shadow ? { shadow: true } : {}),
  };
}

/** The `smtp` slice: the enabled listeners. */
export function resolveSmtp(contents: Contents): SmtpSettings {
  const { hostname, listeners = [], limits } = contents.smtp;
  return {
    hostname: domainOf(hostname ?? ''),
    listeners: listeners.filter(({ enabled }) => enabled !== false).map((entry) => resolveListener(contents, entry)),
    limits: defaults.filledIn(defaultSmtpLimits, limits ?? {}),
  };
}

/** The `spool` slice: what each account may have, and the room that stays free. */
export function resolveSpool({ spool }: Contents): SpoolLimits {
  const { minFreeBytes, account } = spool;
  return { ...defaults.spoolLimits, ...account, ...(minFreeBytes === undefined ? {} : { minFreeBytes }) };
}

/** The limits of the `rest` slice (D42, D42a). */
export function resolveRestLimits({ rest }: Contents): RestLimits {
  const limits = defaults.filledIn(defaultRestLimits, rest.limits ?? {});
  return { ...limits, requestBytes: Math.ceil(limits.messageBytes * requestBytesPerMessageByte) };
}

/** The `reports` slice. */
export function resolveReports({ reports }: Contents): settings.ReportSettings {
  const limits = { ...defaults.reports, ...reports };
  return { ...limits, perAccountPerDay: limits.perAddressPerDay * defaults.reportsPerAddressReport };
}

/** The `tlsReports` slice: on where a route goes by MX, since no other learns how the TLS of recipients' domains goes. */
export function resolveTlsReports(
  { tlsReports, platform }: Contents,
  routes: readonly Pick<Route, 'type'>[],
): TlsReportSettings {
  const { enabled, allowPrivate } = tlsReports;
  const domain = domainOf(platform.domain ?? defaults.platform.domain);
  return {
    enabled: enabled ?? routes.some(({ type }) => type === 'mx'),
    // No settings: whoever reads the report knows the platform by its domain, and RFC 5321 §4.5.1 says who answers there.
    organization: domain,
    contact: `postmaster@${domain}`,
    allowPrivate: networksOf(allowPrivate),
  };
}

/** The token for /metrics, if one is named. Its hash is read each time it is asked for. */
function metricsTokenOf({ contents: { http }, folders, env }: Resolving): Pick<settings.HttpSettings, 'metricsToken'> {
  const source = sourceOf(http.metricsTokenEnv, http.metricsTokenFile, folders);
  if (!source) return {};
  return {
    metricsToken: {
      path: source.kind === 'variable' ? 'http.metricsTokenEnv' : 'http.metricsTokenFile',
      source,
      get sha256(): string | undefined {
        return secretHash(source, env);
      },
    },
  };
}

/** The `http` slice. */
export function resolveHttp(resolving: Resolving): settings.HttpSettings {
  const { http } = resolving.contents;
  const { adminListen = '' } = http;
  const tlsListen = http.tlsListen ?? defaults.http.tlsListen;
  return {
    listen: listenOf(http.listen ?? defaults.http.listen),
    ...(tlsListen === '' ? {} : { tlsListen: listenOf(tlsListen) }),
    ...(adminListen === '' ? {} : { adminListen: listenOf(adminListen) }),
    apiHosts: apiHostsOf(resolving.contents),
    ...(http.docsBaseUrl === undefined ? {} : { docsBaseUrl: http.docsBaseUrl.replace(/\/$/, '') }),
    ...metricsTokenOf(resolving),
    limits: { ...defaults.http.limits, ...http.limits },
  };
}

/** The console: on in development, elsewhere where the file says so. */
export function resolveConsole({ console: pages, development }: defaults.CompleteContents): settings.ConsoleSettings {
  const { enabled = development !== undefined, publicUrl } = pages;
  return { enabled, ...(publicUrl === undefined ? {} : { publicUrl: new URL(publicUrl).origin }) };
}

/** Whether a host is this one; '' is a socket. */
function isLocal(host: string): boolean {
  return host === '' || host === 'localhost' || host === '::1' || host.startsWith('127.');
}

/** The database. Its URL is put together at each use, so that no password is kept. */
export function resolveDatabase({ contents, folders, env }: Resolving): settings.DatabaseSettings {
  const { url, passwordEnv, passwordFile, takeOverSeconds = 30, shareLimits = false } = contents.database;
  const parsed = parsePostgresUrl(url);
  if (!parsed) return { engine: 'sqlite', file: resolve(folders.dataDir, url.replace(/^sqlite:(?:\/\/)?/, '')) };
  const source = sourceOf(passwordEnv, passwordFile, folders);
  return {
    engine: 'postgres',
    server: parsed.shown,
    isInTheClear: !parsed.hosts.every(isLocal) && ['disable', undefined].includes(parsed.sslmode),
    takeOverSeconds,
    shareLimits,
    get url() {
      return source ? withPassword(url, readSecret(source, env, 'database')) : url;
    },
  };
}

/** Where a secret comes from: the variable or the file that is named; undefined where neither is. */
export function sourceOf(
  variable: string | undefined,
  file: string | undefined,
  { cwd }: Pick<Resolving['folders'], 'cwd'>,
): settings.SecretSource | undefined {
  if (variable !== undefined) return { kind: 'variable', name: variable };
  return file === undefined ? undefined : { kind: 'file', file: resolve(cwd, file) };
}
