// Where a zone's origin is and how it is spoken to (D66).

import type { EdgeZone } from '../zone/zone.ts';

/** A zone that has an origin. */
export type ZoneWithOrigin = EdgeZone & { readonly origin: NonNullable<EdgeZone['origin']> };

/** An origin as one requested host name reaches it; connections are shared by those with the same key. */
export interface OriginTarget {
  readonly key: string;
  readonly secure: boolean;
  /** A name or an IP address, without brackets. */
  readonly host: string;
  readonly port: number;
  /** Whether the certificate is verified. */
  readonly strict: boolean;
  /** The path of the origin's URL, which goes before the path asked for. It has no slash at its end and is mostly empty. */
  readonly prefix: string;
  /** The requested host name: sent as SNI. */
  readonly serverName: string;
}

/** Host of a request in lower case without port and trailing dot. */
function hostName(host: string | undefined): string {
  if (host === undefined) return '';
  const colon = host.indexOf(':');
  const name = host.startsWith('[') ? host.slice(1, host.indexOf(']')) : colon < 0 ? host : host.slice(0, colon);
  return (name.endsWith('.') ? name.slice(0, -1) : name).toLowerCase();
}

function readTarget(zone: ZoneWithOrigin, serverName: string): OriginTarget {
  const { url, tls } = typeof zone.origin === 'string' ? { url: zone.origin, tls: undefined } : zone.origin;
  const parsed = new URL(url);
  const secure = parsed.protocol === 'https:';
  const host = parsed.hostname.startsWith('[') ? parsed.hostname.slice(1, -1) : parsed.hostname;
  const port = parsed.port === '' ? (secure ? 443 : 80) : Number(parsed.port);
  const strict = tls !== 'full';
  const key = secure ? `${strict ? 'strict' : 'full'} ${serverName} ${host} ${port}` : `http ${host} ${port}`;
  return { key, secure, host, port, strict, prefix: parsed.pathname.replace(/\/+$/, ''), serverName };
}

/** Makes the function that finds targets. A foreign Host counts as the zone's name, so that clients cannot make more of them. */
export function originTargets() {
  // The key is the origin as configured, a text or an object, since the zone around it may be a new object for each request.
  const known = new Map<ZoneWithOrigin['origin'], Map<string, OriginTarget>>();
  return (zone: ZoneWithOrigin, host: string | undefined): OriginTarget => {
    const requested = hostName(host);
    const serverName = zone.hostnames.includes(requested) ? requested : zone.name;
    let targets = known.get(zone.origin);
    if (!targets) {
      targets = new Map();
      known.set(zone.origin, targets);
    }
    let target = targets.get(serverName);
    if (!target) {
      target = readTarget(zone, serverName);
      targets.set(serverName, target);
    }
    return target;
  };
}
