// The URL of a next hop: `smtp://host:port` or `smtps://host:port`, user and password only from POSTERN_RELAY (D96).

import { isIP } from 'node:net';
import type { SmtpClientOptions } from './smtp-tls.ts';

/** What a next hop's URL says. */
export interface RelayUrl extends Pick<SmtpClientOptions, 'host' | 'port' | 'auth'> {
  /** Whether the URL begins with `smtps://`: TLS from the first octet. */
  readonly implicitTls: boolean;
}

const hostName = /^[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9_])?$/;

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

/** Reads a next hop's URL; the port is 25 or 465 where it names none. Undefined for anything else. */
export function parseRelayUrl(text: string): RelayUrl | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !['smtp:', 'smtps:'].includes(url.protocol)) return undefined;
  if (!['', '/'].includes(url.pathname) || url.search !== '' || url.hash !== '' || url.port === '0') return undefined;
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
  if (isIP(host) === 0 && !hostName.test(host)) return undefined;
  const implicitTls = url.protocol === 'smtps:';
  const port = url.port === '' ? (implicitTls ? 465 : 25) : Number(url.port);
  const user = decode(url.username);
  const password = decode(url.password);
  if (user === undefined || password === undefined || (user === '') !== (password === '')) return undefined;
  return { host, port, implicitTls, ...(user === '' ? {} : { auth: { user, password } }) };
}
