// Checks of the mail part that the schema cannot express: entries that must fit one another.

import { daysUntil, maxObserveDays } from '../../accounts/observe-period.ts';
import { closest } from '../../base/closest.ts';
import { isWithinDomain } from '../../base/net/domain-labels.ts';
import { parsePostgresUrl } from '../../base/postgres/server-hosts.ts';
import { defaultRetry } from '../../delivery/settings.ts';
import { parseRelayUrl } from '../../delivery/smtp/relay-url.ts';
import { asciiDomain } from '../../mail/address/domain.ts';
import { domainOf } from './addresses.ts';
import type { CompleteContents } from './defaults.ts';
import { type ConfigFault, type ConfigPath, formatPath, quote } from './fault.ts';
import type { ListenerEntry, RouteEntry } from './schema.ts';
import { senderFaults } from './sender-maps.ts';

interface PlacedKey {
  readonly key: string;
  readonly path: ConfigPath;
}

/** The keys of a list's entries. @param name of the key @param fold makes alike what means the same */
export function keysOf<Name extends string>(
  entries: readonly Readonly<Record<Name, string>>[] = [],
  path: ConfigPath,
  name: Name,
  fold = (key: string): string => key,
): PlacedKey[] {
  return entries.map((entry, index) => ({ key: fold(entry[name]), path: [...path, index, name] }));
}

/** Faults of entries whose key (a name, an id) an entry before them has already. */
export function repeated(entries: readonly PlacedKey[]): ConfigFault[] {
  const owners = new Map<string, ConfigPath>();
  return entries.flatMap(({ key, path }) => {
    const owner = owners.get(key);
    if (owner) return [{ path, text: `got ${quote(key)}, which ${formatPath(owner)} has already` }];
    owners.set(key, path);
    return [];
  });
}

/** The account of a name or an id. */
export function findAccount({ accounts }: Pick<CompleteContents, 'accounts'>, reference: string) {
  return accounts.find(({ name, id }) => name === reference || id.toLowerCase() === reference.toLowerCase());
}

/** The fault of a reference to an account that does not exist. */
export function unknownAccount(contents: CompleteContents, path: ConfigPath, reference: string): ConfigFault {
  const names = contents.accounts.map((account) => account.name);
  return { path, text: `got ${quote(reference)}, want an account of this file${oneOf(names, reference)}` };
}

/** The end of a sentence that wants one of some names: the one that was probably meant, or all. */
function oneOf(names: readonly string[], reference: string): string {
  const near = closest(reference, names);
  if (near !== undefined) return `; did you mean "${near}"?`;
  return names.length > 0 ? ` (${names.join(', ')})` : '';
}

function credentialFaults(
  contents: CompleteContents,
  path: ConfigPath,
  reference: { account: string; credential: string; shown: string },
): ConfigFault[] {
  const account = findAccount(contents, reference.account);
  if (!account) return [unknownAccount(contents, path, reference.account)];
  const names = (account.credentials ?? []).map((credential) => credential.name);
  if (names.includes(reference.credential)) return [];
  const which = oneOf(names, reference.credential);
  return [{ path, text: `got ${quote(reference.shown)}, want a credential of account "${account.name}"${which}` }];
}

/** Checks that `development` names a credential that exists. */
export function developmentFaults(contents: CompleteContents): ConfigFault[] {
  if (!contents.development) return [];
  const { account = 'dev', credential = 'default' } = contents.development;
  if (!findAccount(contents, account)) return [unknownAccount(contents, ['development', 'account'], account)];
  return credentialFaults(contents, ['development', 'credential'], { account, credential, shown: credential });
}

/** D40a: checks that the bounce domain is the platform's domain or below it. */
export function platformFaults({ platform }: CompleteContents): ConfigFault[] {
  const domain = domainOf(platform.domain ?? '');
  const bounceDomain = domainOf(platform.bounceDomain ?? '');
  const twice = repeated(keysOf(platform.dkim, ['platform', 'dkim'], 'selector'));
  if (isWithinDomain(bounceDomain, domain)) return twice;
  const text = `got ${quote(bounceDomain)}, want platform.domain (${domain}) or a name below it`;
  return [...twice, { path: ['platform', 'bounceDomain'], text }];
}

/** Whether the last day of `policy.observe` is near enough (D4c). A past day is no fault: the gateway starts on the day after, too. */
export function observeFaults(
  { policy }: { readonly policy?: { readonly observe?: { readonly until: string } } },
  path: ConfigPath,
  nowMs: number,
): ConfigFault[] {
  const until = policy?.observe?.until;
  if (until === undefined) return [];
  const days = daysUntil(until, nowMs);
  if (days <= maxObserveDays) return [];
  const text = `got ${quote(until)}, which is ${days} days ahead; want a day at most ${maxObserveDays} days ahead`;
  return [{ path: [...path, 'policy', 'observe', 'until'], text }];
}

/** What a listener says about programs that log in and send; a bounce listener has none of it (D40a). */
const mailersKeys = [
  ...(['credential', 'allowFrom', 'policy', 'allowInsecureAuth', 'senders', 'replyTo'] as const),
  ...(['trustedHop', 'lineEndings', 'legacyCharset', 'shadow'] as const),
] as const satisfies readonly (keyof ListenerEntry)[];

function listenerFaults(contents: CompleteContents, listener: ListenerEntry, path: ConfigPath): ConfigFault[] {
  const { credential, allowFrom } = listener;
  const ofMailers = mailersKeys.find((key) => listener[key] !== undefined);
  if (listener.role === 'bounce' && ofMailers) {
    return [{ path: [...path, ofMailers], text: 'a bounce listener has none' }];
  }
  if (listener.shadow && listener.policy?.observe)
    return [{ path: [...path, 'policy'], text: 'a shadow listener refuses nothing; want shadow or policy.observe' }];
  if (credential === undefined && (allowFrom?.length ?? 0) > 0) {
    return [{ path: [...path, 'allowFrom'], text: 'stands without credential; want both or neither' }];
  }
  if (credential === undefined) return [];
  const slash = credential.indexOf('/');
  const reference = { account: credential.slice(0, slash), credential: credential.slice(slash + 1), shown: credential };
  const faults = credentialFaults(contents, [...path, 'credential'], reference);
  if ((allowFrom?.length ?? 0) > 0) return faults;
  return [
    ...faults,
    { path: [...path, 'credential'], text: 'stands without allowFrom; want both, allowFrom not empty, or neither' },
  ];
}

/** Checks that listeners share no name or address, and device listeners as D40c says. @param nowMs milliseconds since 1970 */
export function smtpFaults(contents: CompleteContents, nowMs: number): ConfigFault[] {
  const { listeners = [] } = contents.smtp;
  const path = ['smtp', 'listeners'];
  const bound = keysOf(listeners, path, 'listen').filter(
    ({ key }, index) => listeners[index]?.enabled !== false && !key.endsWith(':0'),
  );
  return [
    ...repeated(keysOf(listeners, path, 'name')),
    ...repeated(bound),
    ...listeners.flatMap((listener, index) => {
      const account = findAccount(contents, listener.credential?.split('/', 1)[0] ?? '');
      return [
        ...listenerFaults(contents, listener, [...path, index]),
        ...observeFaults(listener, [...path, index], nowMs),
        ...senderFaults(listener, [...path, index], { accounts: contents.accounts, account }),
      ];
    }),
  ];
}

const leavingKeys = [
  ...(['tls', 'localAddress', 'redirectAll', 'allowRecipients'] as const),
  ...(['connections', 'messagesPerConnection', 'messagesPerSecond', 'backoffSeconds'] as const),
] as const;

const keysOfType = {
  smarthost: ['url', 'urls', 'auth', ...leavingKeys],
  capture: ['folder'],
  mx: ['port', 'tlsByDomain', 'mtaSts', 'allowPrivate', ...leavingKeys],
} as const satisfies Record<RouteEntry['type'], readonly (keyof RouteEntry)[]>;

const typedKeys = [...new Set(Object.values(keysOfType).flat())];

/** A route's TLS settings in one form. */
export function routeTls({ tls }: Pick<RouteEntry, 'tls'>): {
  readonly mode?: 'none' | 'opportunistic' | 'required' | 'implicit';
  readonly verify?: boolean;
  readonly ca?: string;
} {
  return typeof tls === 'object' ? tls : tls === undefined ? {} : { mode: tls };
}

/** What is said of one server of a smarthost route. */
export type ServerEntry = Pick<RouteEntry, 'url' | 'tls' | 'auth'> & { readonly priority?: number };

/** The servers of a smarthost route; one of `urls` that says nothing of TLS or AUTH has what the route says. */
export function serverEntries(route: RouteEntry, path: ConfigPath) {
  const { url, urls, tls, auth } = route;
  const shared = { ...(tls === undefined ? {} : { tls }), ...(auth === undefined ? {} : { auth }) };
  if (!urls) return [{ entry: { ...shared, ...(url === undefined ? {} : { url }) } satisfies ServerEntry, path }];
  return urls.map((one, index): { readonly entry: ServerEntry; readonly path: ConfigPath } => ({
    entry: { ...shared, ...(typeof one === 'string' ? { url: one } : one) },
    path: [...path, 'urls', index],
  }));
}

function smarthostFaults(route: RouteEntry, path: ConfigPath): ConfigFault[] {
  if (route.url !== undefined && route.urls !== undefined) {
    return [{ path: [...path, 'urls'], text: 'stands beside url; want one of them', atKey: true }];
  }
  return serverEntries(route, path).flatMap(({ entry, path: place }) => serverFaults(entry, place));
}

function serverFaults(server: ServerEntry, path: ConfigPath): ConfigFault[] {
  const faults: ConfigFault[] = [];
  // The fault of one of several servers is at its entry, which may be a URL alone.
  const isOneOfSeveral = typeof path.at(-1) === 'number' && path.at(-2) === 'urls';
  const add = (key: string, text: string) => faults.push({ path: isOneOfSeveral ? path : [...path, key], text });
  const form = 'want smtp://host:port or smtps://host:port';
  const url = parseRelayUrl(server.url ?? '');
  if (!url) add('url', server.url === undefined ? `missing, ${form}` : `got ${quote(server.url)}, ${form}`);
  if (server.url === undefined) return faults;
  if (url?.auth) add('url', 'holds a user; want it under auth (user, and passwordEnv or passwordFile)');
  const { mode, verify, ca } = routeTls(server);
  if (url?.implicitTls && mode !== undefined && mode !== 'implicit')
    add('tls', `got "${mode}", want implicit with a URL of smtps://`);
  if (ca !== undefined && (mode === 'none' || verify === false))
    faults.push({ path: [...path, 'tls', 'ca'], text: 'is never asked: the route looks at no certificate' });
  if (!server.auth) return faults;
  if (mode === 'none') add('auth', 'can never be used: AUTH is sent only over TLS, and tls is none');
  const sources = [server.auth.passwordEnv, server.auth.passwordFile].filter((source) => source !== undefined);
  if (sources.length !== 1) add('auth', `has ${sources.length} of passwordEnv and passwordFile; want one`);
  return faults;
}

function mxFaults(route: RouteEntry, path: ConfigPath): ConfigFault[] {
  const wrong = Object.keys(route.tlsByDomain ?? {}).filter((name) => asciiDomain(name) === undefined);
  const names = wrong.map((name) => ({
    path: [...path, 'tlsByDomain', name],
    text: `got ${quote(name)}, want a domain name`,
    atKey: true,
  }));
  if (routeTls(route).mode !== 'implicit') return names;
  const text = 'got "implicit", want none, opportunistic or required: mail exchangers use STARTTLS';
  return [{ path: [...path, 'tls'], text }, ...names];
}

function localAddressFaults({ localAddress = [] }: RouteEntry, path: ConfigPath): ConfigFault[] {
  const families = localAddress.map((one) => (typeof one === 'string' ? one : one.address).includes(':'));
  return families.flatMap((family, index) => {
    if (families.indexOf(family) === index) return [];
    const text = `is a second ${family ? 'IPv6' : 'IPv4'} address; want one of each at the most`;
    return [{ path: [...path, 'localAddress', index], text }];
  });
}

function matchFaults(isLast: boolean, { match }: RouteEntry, path: ConfigPath): ConfigFault[] {
  if (isLast !== (match !== undefined)) return [];
  if (match) return [{ path, text: 'the last route has none, so that every message finds one', atKey: true }];
  return [{ path, text: 'missing: only the last route goes without, those below it would never be used' }];
}

function routeFaults(contents: CompleteContents, route: RouteEntry, path: ConfigPath): ConfigFault[] {
  const own: readonly string[] = keysOfType[route.type];
  const foreign = typedKeys.filter((key) => route[key] !== undefined && !own.includes(key));
  const isLast = path.at(-1) === contents.routes.length - 1;
  return [
    ...foreign.map((key) => ({ path: [...path, key], text: `is not for type ${route.type}`, atKey: true })),
    ...(route.type === 'smarthost' ? smarthostFaults(route, path) : []),
    ...(route.type === 'mx' ? mxFaults(route, path) : []),
    ...localAddressFaults(route, path),
    ...matchFaults(isLast, route, [...path, 'match']),
    ...(route.match?.accounts ?? []).flatMap((reference, index) => {
      if (findAccount(contents, reference)) return [];
      return [unknownAccount(contents, [...path, 'match', 'accounts', index], reference)];
    }),
  ];
}

/** Checks that an account or a route has one rule of staging safety at most (D98a). */
export function recipientRuleFaults(
  { redirectAll, allowRecipients }: Pick<RouteEntry, 'redirectAll' | 'allowRecipients'>,
  path: ConfigPath,
): ConfigFault[] {
  if (redirectAll === undefined || allowRecipients === undefined) return [];
  const text = 'stands beside redirectAll, which leaves nobody to allow; want one of the two';
  return [{ path: [...path, 'allowRecipients'], text, atKey: true }];
}

/** The name of the route that captures what `allowRecipients` keeps back. */
export const withheldRouteName = 'withheld';

function reservedNames({ routes }: CompleteContents): ConfigFault[] {
  const text = `got ${quote(withheldRouteName)}, which is the name of what allowRecipients keeps back; want another`;
  return keysOf(routes, ['routes'], 'name').flatMap(({ key, path }) =>
    key === withheldRouteName ? [{ path, text }] : [],
  );
}

/** Checks that only the last route takes everything, and that each has the keys of its type. */
export function routesFaults(contents: CompleteContents): ConfigFault[] {
  return [
    ...reservedNames(contents),
    ...contents.routes.flatMap((route, index) => recipientRuleFaults(route, ['routes', index])),
    ...repeated(keysOf(contents.routes, ['routes'], 'name')),
    ...contents.routes.flatMap((route, index) => routeFaults(contents, route, ['routes', index])),
  ];
}

/** D42a: checks that the delays of retries fit one another. */
export function deliveryFaults({ delivery }: CompleteContents): ConfigFault[] {
  const { firstDelaySeconds, maxDelaySeconds } = { ...defaultRetry, ...delivery.retry };
  if (maxDelaySeconds >= firstDelaySeconds) return [];
  const path = ['delivery', 'retry', 'maxDelaySeconds'];
  return [{ path, text: `got ${maxDelaySeconds}, want at least firstDelaySeconds (${firstDelaySeconds})` }];
}

/** Checks that several processes have a database that serves several (D91a). */
export function processesFaults({ database, processes }: CompleteContents): ConfigFault[] {
  if (typeof processes !== 'number' || processes === 1 || !database.url.startsWith('sqlite:')) return [];
  const text =
    `got ${processes}, but SQLite serves one process; want 1, or a PostgreSQL that they share (database.url: ` +
    'postgres://USER@HOST/NAME), where "postern migrate" takes what is kept';
  return [{ path: ['processes'], text }];
}

/** Checks that the database is SQLite's or PostgreSQL's, and that the keys fit. A URL may hold a password and is not shown. */
export function databaseFaults({ database }: CompleteContents): ConfigFault[] {
  const path = ['database', 'url'];
  const { url, ...others } = database;
  if (/^sqlite:(?!\/\/(?!\/))./.test(url)) {
    const [foreign] = Object.keys(others);
    return foreign === undefined ? [] : [{ path: ['database', foreign], text: 'is for PostgreSQL alone', atKey: true }];
  }
  if (!/^postgres(?:ql)?:/.test(url)) {
    const text = `got ${quote(url)}, want sqlite:FILE, such as sqlite:postern.db, or postgres://USER@HOST/NAME`;
    return [{ path, text }];
  }
  const parsed = parsePostgresUrl(url);
  if (!parsed) return [{ path, text: 'want postgres://USER@HOST:PORT/NAME, or postgres://USER@/NAME?host=FOLDER' }];
  const sources = [others.passwordEnv, others.passwordFile].filter((source) => source !== undefined);
  if (sources.length + (parsed.hasPassword ? 1 : 0) > 1)
    return [
      { path: ['database'], text: 'names several passwords; want one of passwordEnv, passwordFile and one in url' },
    ];
  if (sources.length > 0 && !parsed.hasUser)
    return [{ path, text: 'names no user for the password; want postgres://USER@HOST/NAME' }];
  return [];
}
