// Checks of HTTP that the schema cannot express: no two listeners share an address, and a secret is named in one place only.

import { asciiDomain } from '../mail/address/domain.ts';
import { type CompleteContents, http as defaults } from './defaults.ts';
import { type ConfigFault, quote } from './fault.ts';

/**
 * The names and addresses of the API: those of `http.apiHosts`, and the host of `console.publicUrl`, which people reach the
 * console by. In lower case, an IPv6 address without brackets.
 */
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
  if (!names.some((name) => (asciiDomain(name) ?? name) === hostname)) return [];
  return [{ path, text: `leads to ${quote(hostname)}, a hostname of a zone, where the zone's own pages are` }];
}

/** The faults of `http`: an admin listener where another one is, and a token for /metrics that is named twice. */
export function httpFaults({ http }: CompleteContents): ConfigFault[] {
  const { adminListen = '', metricsTokenEnv, metricsTokenFile } = http;
  const others = { listen: http.listen ?? defaults.listen, tlsListen: http.tlsListen ?? defaults.tlsListen };
  const owner = adminListen.endsWith(':0')
    ? undefined
    : Object.entries(others).find(([, listen]) => listen !== '' && listen === adminListen)?.[0];
  const address: ConfigFault[] = owner
    ? [{ path: ['http', 'adminListen'], text: `got ${quote(adminListen)}, which http.${owner} has already` }]
    : [];
  if (metricsTokenEnv === undefined || metricsTokenFile === undefined) return address;
  const text = 'stands beside metricsTokenEnv; want at most one of both';
  return [...address, { path: ['http', 'metricsTokenFile'], text, atKey: true }];
}
