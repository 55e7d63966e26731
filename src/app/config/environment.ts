// Variables of the environment win over the file (D96). An empty one counts as unset; an empty POSTERN_HTTPS_PORT switches HTTPS off.

import { isIP } from 'node:net';
import { isWithinDomain } from '../../base/net/domain-labels.ts';
import { hostPort } from '../../base/net/socket-address.ts';
import { parseRelayUrl } from '../../delivery/smtp/relay-url.ts';
import { asciiDomain } from '../../mail/address/domain.ts';
import { domainOf, parseListen, parsePort } from './addresses.ts';
import type { CompleteContents } from './defaults.ts';
import { quote } from './fault.ts';
import type { Environment } from './secrets.ts';
import { mostProcesses } from './value-types.ts';

/** The contents with the environment's values in them. */
export interface Overridden {
  readonly contents: CompleteContents;
  /** POSTERN_RELAY as given, where it replaces the routes. */
  readonly relay?: string;
  /** The variable that a path's value came from, so that an error names the variable instead of the file. */
  readonly origins: ReadonlyMap<string, string>;
  /** What is wrong with variables, one line each. */
  readonly faults: readonly string[];
}

/** How one variable changes the contents. It returns the path that it set, or the kind of value that it wants. */
type Override = (
  contents: CompleteContents,
  value: string,
  env: Environment,
) => { readonly contents: CompleteContents; readonly path: string } | { readonly want: string };

function put<Name extends 'smtp' | 'http' | 'platform' | 'database' | 'log'>(
  contents: CompleteContents,
  section: Name,
  keys: Partial<CompleteContents[Name]>,
): CompleteContents {
  return { ...contents, [section]: { ...contents[section], ...keys } };
}

function setListenerPort(tls: 'starttls' | 'implicit'): Override {
  return (contents, value) => {
    const port = parsePort(value);
    if (port === undefined) return { want: 'a port, 0 to 65535' };
    const listeners = contents.smtp.listeners ?? [];
    const index = listeners.findIndex(
      (listener) => listener.tls === tls && listener.role !== 'bounce' && listener.enabled !== false,
    );
    const address = parseListen(listeners[index]?.listen ?? '');
    if (!address) return { want: `an enabled submission listener with tls: ${tls} in the file` };
    const changed = listeners.map((listener, at) =>
      at === index ? { ...listener, listen: hostPort(address.host, port) } : listener,
    );
    return { path: `smtp.listeners[${index}].listen`, contents: put(contents, 'smtp', { listeners: changed }) };
  };
}

function setHttpPort(key: 'listen' | 'tlsListen' | 'adminListen', fallback: string): Override {
  return (contents, value) => {
    const port = parsePort(value);
    const isOff = key === 'tlsListen' && value === '';
    if (port === undefined && !isOff) return { want: 'a port, 0 to 65535' };
    const address = parseListen(contents.http[key] || fallback);
    const listen = port === undefined ? '' : hostPort(address?.host ?? '127.0.0.1', port);
    return { path: `http.${key}`, contents: put(contents, 'http', { [key]: listen }) };
  };
}

const setBind: Override = (contents, value) => {
  if (isIP(value) === 0) return { want: 'an IP address' };
  const bind = (listen: string) => {
    const address = parseListen(listen);
    return address ? hostPort(value, address.port) : listen;
  };
  const { smtp, http } = contents;
  const listeners = (smtp.listeners ?? []).map((listener) => ({ ...listener, listen: bind(listener.listen) }));
  const bound = { listen: bind(http.listen ?? '127.0.0.1:8080'), tlsListen: bind(http.tlsListen ?? '127.0.0.1:8443') };
  return { path: 'smtp.listeners', contents: put(put(contents, 'smtp', { listeners }), 'http', bound) };
};

/** Sets the platform's domain, and the bounce domain with it unless the environment sets that itself. */
const setPlatformDomain: Override = (contents, value, env) => {
  const domain = asciiDomain(value);
  if (domain === undefined) return { want: 'a domain name' };
  const from = domainOf(contents.platform.domain ?? '');
  const bounce = domainOf(contents.platform.bounceDomain ?? '');
  const moves = !env['POSTERN_BOUNCE_DOMAIN'] && isWithinDomain(bounce, from);
  const bounceDomain = `${bounce.slice(0, bounce.length - from.length)}${domain}`;
  return {
    path: 'platform.domain',
    contents: put(contents, 'platform', { domain, ...(moves ? { bounceDomain } : {}) }),
  };
};

const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;

/** The variables in the order in which they are applied. POSTERN_BIND comes after the ports and keeps them. */
const overrides = {
  POSTERN_DATA_DIR: (contents, value) => ({ path: 'dataDir', contents: { ...contents, dataDir: value } }),
  POSTERN_CERTS_DIR: (contents, value) => ({ path: 'certsDir', contents: { ...contents, certsDir: value } }),
  POSTERN_DATABASE_URL: (contents, url) => ({ path: 'database.url', contents: put(contents, 'database', { url }) }),
  POSTERN_LOG_LEVEL: (contents, value) => {
    const level = logLevels.find((name) => name === value);
    if (!level) return { want: `one of ${logLevels.join(', ')}` };
    return { path: 'log.level', contents: put(contents, 'log', { level }) };
  },
  POSTERN_PROCESSES: (contents, value) => {
    const processes = value === 'auto' ? value : /^[1-9]\d?$/.test(value) ? Number(value) : undefined;
    if (processes === undefined || (processes !== 'auto' && processes > mostProcesses))
      return { want: `a whole number, 1 to ${mostProcesses}, or auto` };
    return { path: 'processes', contents: { ...contents, processes } };
  },
  POSTERN_SMTP_PORT: setListenerPort('starttls'),
  POSTERN_SMTPS_PORT: setListenerPort('implicit'),
  POSTERN_HTTP_PORT: setHttpPort('listen', '127.0.0.1:8080'),
  POSTERN_HTTPS_PORT: setHttpPort('tlsListen', '127.0.0.1:8443'),
  // POSTERN_BIND does not change this address, so that the operator's own listener is not published with the others.
  POSTERN_ADMIN_PORT: setHttpPort('adminListen', '127.0.0.1:0'),
  POSTERN_BIND: setBind,
  POSTERN_PLATFORM_DOMAIN: setPlatformDomain,
  POSTERN_BOUNCE_DOMAIN: (contents, value) => {
    const bounceDomain = asciiDomain(value);
    if (bounceDomain === undefined) return { want: 'a domain name' };
    return { path: 'platform.bounceDomain', contents: put(contents, 'platform', { bounceDomain }) };
  },
} as const satisfies Record<string, Override>;

/** What is wrong with POSTERN_RELAY, which replaces the routes, and may not replace those that keep mail from its recipients (D98a). */
function relayFault(relay: string, { routes }: CompleteContents): string | undefined {
  if (relay === 'capture') return undefined;
  if (relay !== 'mx' && !parseRelayUrl(relay))
    return `POSTERN_RELAY: got ${quote(relay)}, want capture, mx, smtp://host:port or smtps://host:port`;
  const kept = routes.find(({ redirectAll, allowRecipients }) => redirectAll ?? allowRecipients);
  if (!kept) return undefined;
  const key = kept.redirectAll === undefined ? 'allowRecipients' : 'redirectAll';
  return (
    `POSTERN_RELAY: would replace route "${kept.name}", whose ${key} keeps mail from its recipients; ` +
    `put ${key} at the account, or do without the variable`
  );
}

/** Lays the environment over the file's contents. POSTERN_CONFIG and POSTERN_TOKEN are read elsewhere. */
export function applyEnvironment(given: CompleteContents, env: Environment): Overridden {
  let contents = given;
  const origins = new Map<string, string>();
  const faults: string[] = [];
  for (const [variable, override] of Object.entries<Override>(overrides)) {
    const value = env[variable]?.trim();
    if (value === undefined || (value === '' && variable !== 'POSTERN_HTTPS_PORT')) continue;
    const result = override(contents, value, env);
    if ('want' in result) {
      faults.push(`${variable}: got ${quote(value)}, want ${result.want}`);
      continue;
    }
    contents = result.contents;
    if (variable !== 'POSTERN_BIND') origins.set(result.path, variable);
  }
  const relay = env['POSTERN_RELAY']?.trim();
  if (!relay) return { contents, origins, faults };
  const fault = relayFault(relay, contents);
  return { contents, relay, origins, faults: fault ? [...faults, fault] : faults };
}
