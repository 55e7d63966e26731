// Chooses the certificate that HTTPS shows (D68; RFC 6066 §3): that of the name asked for, else the default one.

import { createSecureContext } from 'node:tls';
import { oncePer } from '../../../base/once-per.ts';
import type { ListenerTls } from './listener.ts';

interface ServerCertificate {
  readonly certificate: string;
  readonly privateKey: string;
}

/** The TLS context of a certificate. It is made once and kept, since of many certificates usually one is replaced. */
const contextOf = oncePer(({ certificate: cert, privateKey: key }: ServerCertificate) =>
  createSecureContext({ cert, key, minVersion: 'TLSv1.2' }),
);

/** Reads certificates once for a listener. @param certificates by host, lower case @param fallback one of these hosts */
export function serverCertificates(
  certificates: ReadonlyMap<string, ServerCertificate>,
  fallback: string,
): ListenerTls {
  const shown = certificates.get(fallback);
  if (!shown) throw new Error(`There is no certificate for ${fallback}`);
  const byHost = new Map([...certificates].map(([host, certificate]) => [host, contextOf(certificate)]));
  return { cert: shown.certificate, key: shown.privateKey, contextOf: (serverName) => byHost.get(serverName) };
}
