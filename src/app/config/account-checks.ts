// Checks of accounts, credentials and zones that the schema cannot express (D4a, D50, D65, D67, D93, D99).

import { addressOctets } from '../../base/net/socket-address.ts';
import { webhooksPerAccount } from '../../delivery/webhooks/webhook.ts';
import { createAddressGuard, urlFault } from '../../delivery/webhooks/webhook-url.ts';
import {
  contentFault,
  expressionFaults,
  maxRules,
  ruleContentTypes,
  spellingFaults,
} from '../../edge/custom/custom-error-rules.ts';
import { pageFault } from '../../edge/custom/error-page.ts';
import { mayStrip } from '../../pipeline/policy/check.ts';
import { domainOf } from './addresses.ts';
import { type CompleteContents, http as defaults } from './defaults.ts';
import { type ConfigFault, type ConfigPath, quote } from './fault.ts';
import { findAccount, keysOf, observeFaults, recipientRuleFaults, repeated, unknownAccount } from './mail-checks.ts';
import type { AccountEntry, CredentialEntry, ZoneEntry } from './schema.ts';
import { senderFaults } from './sender-maps.ts';

/** The names and addresses of the API in lower case, IPv6 without brackets: `http.apiHosts`, and the host of `console.publicUrl`. */
export function apiHostsOf({ http, console: pages }: Pick<CompleteContents, 'http' | 'console'>): string[] {
  const hosts = (http.apiHosts ?? defaults.apiHosts).map((host) => host.toLowerCase());
  if (pages.publicUrl === undefined) return hosts;
  const host = new URL(pages.publicUrl).hostname.replace(/^\[(.*)\]$/, '$1');
  return hosts.includes(host) ? hosts : [...hosts, host];
}

/** The faults of `console`: a public URL by which it would not be found, as it has a path or leads to a zone. */
export function consoleFaults({ console: { publicUrl }, zones }: CompleteContents): ConfigFault[] {
  if (publicUrl === undefined) return [];
  const path = ['console', 'publicUrl'];
  const { username, password, hostname, pathname, search, hash } = new URL(publicUrl);
  if (`${username}${password}${search}${hash}` !== '' || pathname !== '/') {
    const want = 'want a scheme, a host and perhaps a port, such as https://gateway.example';
    return [{ path, text: `has more than the console is found by; ${want}` }];
  }
  const names = zones.flatMap((zone) => zone.hostnames ?? [zone.name]);
  if (!names.some((name) => domainOf(name) === hostname)) return [];
  return [{ path, text: `leads to ${quote(hostname)}, a hostname of a zone, where the zone's own pages are` }];
}

/** The faults of `http`: an admin listener where another one is, and a token for /metrics that is named twice. */
export function httpFaults({ http }: CompleteContents): ConfigFault[] {
  const { adminListen = '', metricsTokenEnv, metricsTokenFile } = http;
  const { listen, tlsListen } = { ...defaults, ...http };
  const own = adminListen.endsWith(':0') ? '' : adminListen;
  const [owner] = Object.entries({ listen, tlsListen }).find(([, place]) => place !== '' && place === own) ?? [];
  const address: ConfigFault[] = owner
    ? [{ path: ['http', 'adminListen'], text: `got ${quote(adminListen)}, which http.${owner} has already` }]
    : [];
  if (metricsTokenEnv === undefined || metricsTokenFile === undefined) return address;
  const text = 'stands beside metricsTokenEnv; want at most one of both';
  return [...address, { path: ['http', 'metricsTokenFile'], text, atKey: true }];
}

/** An account with the others of the file, and the time in milliseconds since 1970. */
interface AccountPlace {
  readonly nowMs: number;
  readonly accounts: readonly AccountEntry[];
  readonly account: AccountEntry;
}

function credentialFaults(credential: CredentialEntry, path: ConfigPath, place: AccountPlace): ConfigFault[] {
  const sources = (['tokenEnv', 'tokenFile', 'tokenSha256'] as const).filter((key) => credential[key] !== undefined);
  const strip = (['strip', 'stripInvalid', 'keepFirst'] as const).flatMap((key) =>
    (credential[key] ?? []).flatMap((name, index) => {
      if (mayStrip(name)) return [];
      const text = `got ${quote(name)}, which is part of the message itself; it cannot be stripped`;
      return [{ path: [...path, key, index], text }];
    }),
  );
  const senders = senderFaults(credential, path, place);
  const others = [...strip, ...senders, ...observeFaults(credential, path, place.nowMs)];
  const [first, second] = sources;
  if (second === undefined) return others;
  const text = `stands beside ${first}; want at most one of tokenEnv, tokenFile, tokenSha256`;
  return [...others, { path: [...path, second], text, atKey: true }];
}

/** D65: checks the contents of rules and pages, and that the plan `free` has no rules. */
function customErrorFaults(customErrors: AccountEntry['customErrors'], plan: string, path: ConfigPath): ConfigFault[] {
  const faults: ConfigFault[] = [];
  const { rules = [], errorPage } = customErrors ?? {};
  if (plan === 'free' && rules.length > 0) {
    faults.push({ path: [...path, 'rules'], text: 'plan free has no Custom Error Rules', atKey: true });
  }
  if (rules.length > maxRules) {
    faults.push({ path: [...path, 'rules'], text: `got ${rules.length} rules, want at most ${maxRules}` });
  }
  const { each, all } = expressionFaults(rules.map(({ expression }) => expression));
  if (all !== undefined) faults.push({ path: [...path, 'rules'], text: all });
  for (const [index, rule] of rules.entries()) {
    const { content } = rule;
    const place = [...path, 'rules', index];
    for (const { member, kind, other } of spellingFaults((name) => Object.hasOwn(rule, name))) {
      const text =
        kind === 'missing' ? `missing, want one of ${ruleContentTypes.join(', ')}` : `stands beside ${other}`;
      faults.push({ path: [...place, member], text, atKey: kind === 'twice' });
    }
    const unreadable = each[index];
    if (unreadable !== undefined) faults.push({ path: [...place, 'expression'], text: unreadable });
    const tooLarge = contentFault(content);
    if (tooLarge !== undefined) faults.push({ path: [...place, 'content'], text: tooLarge });
  }
  if (!errorPage) return faults;
  const unfit = errorPage.html === undefined ? undefined : pageFault(errorPage.html);
  if (unfit !== undefined) faults.push({ path: [...path, 'errorPage', 'html'], text: unfit });
  if ((errorPage.html === undefined) === (errorPage.file === undefined)) {
    faults.push({ path: [...path, 'errorPage'], text: 'want one of html and file' });
  }
  return faults;
}

/** Checks of the webhooks of an account: names, URLs, one secret each, their number (D54). */
function webhookFaults(
  { webhooks = [] }: AccountEntry,
  path: ConfigPath,
  { allowHttp = false, allowNetworks = [] }: NonNullable<CompleteContents['webhooks']>,
): ConfigFault[] {
  // A network that is none has a fault of its own.
  const networks = allowNetworks.filter((network) => addressOctets(network.split('/', 1)[0] ?? '') !== undefined);
  const refuse = createAddressGuard({ allowNetworks: networks });
  const surplus = { path, text: `got ${webhooks.length} webhooks, want at most ${webhooksPerAccount}` };
  return [
    ...repeated(keysOf(webhooks, path, 'name')),
    ...(webhooks.length > webhooksPerAccount ? [surplus] : []),
    ...webhooks.flatMap((webhook, index): ConfigFault[] => {
      const place = [...path, index];
      const fault = urlFault(webhook.url, { allowHttp, refuse });
      const isNamed = (webhook.secretEnv === undefined) !== (webhook.secretFile === undefined);
      const isTwice = webhook.previousSecretEnv !== undefined && webhook.previousSecretFile !== undefined;
      return [
        // The URL itself may hold a secret.
        ...(fault === undefined ? [] : [{ path: [...place, 'url'], text: `the URL ${fault}` }]),
        ...(isNamed ? [] : [{ path: place, text: 'want one of secretEnv and secretFile' }]),
        ...(isTwice ? [{ path: place, text: 'want one of previousSecretEnv and previousSecretFile' }] : []),
      ];
    }),
  ];
}

function accountFaults(
  account: AccountEntry,
  path: ConfigPath,
  { nowMs, contents }: { readonly nowMs: number; readonly contents: CompleteContents },
): ConfigFault[] {
  const { credentials = [], sendingDomains = [] } = account;
  const place = { nowMs, accounts: contents.accounts, account };
  return [
    ...repeated(keysOf(credentials, [...path, 'credentials'], 'name')),
    ...credentials.flatMap((one, index) => credentialFaults(one, [...path, 'credentials', index], place)),
    ...sendingDomains.flatMap(({ dkim }, index) =>
      repeated(keysOf(dkim, [...path, 'sendingDomains', index, 'dkim'], 'selector', inLowerCase)),
    ),
    ...recipientRuleFaults(account, path),
    ...customErrorFaults(account.customErrors, account.plan ?? 'enterprise', [...path, 'customErrors']),
    ...webhookFaults(account, [...path, 'webhooks'], contents.webhooks),
  ];
}

/** Checks that no two accounts share a name, an id or a sending domain (D50, D93). @param nowMs milliseconds since 1970 */
export function accountsFaults(contents: CompleteContents, nowMs: number): ConfigFault[] {
  const { accounts } = contents;
  const domains = accounts.flatMap(({ sendingDomains }, index) =>
    keysOf(sendingDomains, ['accounts', index, 'sendingDomains'], 'name', domainOf),
  );
  return [
    ...repeated(keysOf(accounts, ['accounts'], 'name')),
    ...repeated(keysOf(accounts, ['accounts'], 'id', inLowerCase)),
    ...repeated(domains),
    ...accounts.flatMap((account, index) => accountFaults(account, ['accounts', index], { nowMs, contents })),
  ];
}

function inLowerCase(text: string): string {
  return text.toLowerCase();
}

/** The faults of an origin's URL: parts that an origin cannot have (D66). User and password are not shown. */
function originFaults(origin: ZoneEntry['origin'], at: ConfigPath): ConfigFault[] {
  if (origin === undefined) return [];
  const text = typeof origin === 'string' ? origin : origin.url;
  const path = typeof origin === 'string' ? at : [...at, 'url'];
  const { username, password, port, search, hash } = new URL(text);
  const want = 'an origin is a scheme, a host, and perhaps a port and a path';
  if (username !== '' || password !== '' || text.includes('@')) {
    return [{ path, text: `got a URL with user information, which an origin is not sent; ${want}` }];
  }
  return [
    ...(port === '0' ? [`got ${quote(text)}, but nothing can be reached at port 0`] : []),
    ...(search !== '' || text.includes('?') ? [`got ${quote(text)}, which has a query; ${want}`] : []),
    ...(hash !== '' || text.includes('#') ? [`got ${quote(text)}, which has a fragment; ${want}`] : []),
  ].map((fault) => ({ path, text: fault }));
}

/** Checks that zones share no id, name or hostname, that their accounts exist, and that no hostname is the API's (D67, D87). */
export function zonesFaults(contents: CompleteContents): ConfigFault[] {
  const zones = contents.zones.map((zone, index) => ({ zone, path: ['zones', index] as const }));
  const apiHosts = new Set((contents.http.apiHosts ?? defaults.apiHosts).map((host) => host.toLowerCase()));
  const hostnames = zones.flatMap(({ zone, path }) =>
    (zone.hostnames ?? [zone.name]).map((name, index) => ({
      key: domainOf(name),
      path: zone.hostnames ? [...path, 'hostnames', index] : [...path, 'name'],
    })),
  );
  return [
    ...repeated(keysOf(contents.zones, ['zones'], 'name', domainOf)),
    ...repeated(keysOf(contents.zones, ['zones'], 'id', inLowerCase)),
    ...repeated(hostnames),
    ...repeated(
      zones.flatMap(({ zone, path }) => keysOf(zone.applications, [...path, 'applications'], 'id', inLowerCase)),
    ),
    ...hostnames.flatMap(({ key, path }) => {
      const text = `got ${quote(key)}, which is in http.apiHosts; a zone's hostname may not be`;
      return apiHosts.has(key) ? [{ path, text }] : [];
    }),
    ...zones.flatMap(({ zone, path }) => [
      ...originFaults(zone.origin, [...path, 'origin']),
      ...planFaults(zone, path, contents),
    ]),
  ];
}

function planFaults(zone: ZoneEntry, path: ConfigPath, contents: CompleteContents): ConfigFault[] {
  const account = findAccount(contents, zone.account);
  if (!account) return [unknownAccount(contents, [...path, 'account'], zone.account)];
  const plan = account.plan ?? 'enterprise';
  const faults = customErrorFaults(zone.customErrors, plan, [...path, 'customErrors']);
  if (plan !== 'free' || !zone.applications?.length) return faults;
  return [...faults, { path: [...path, 'applications'], text: 'plan free has no proxy applications', atKey: true }];
}
