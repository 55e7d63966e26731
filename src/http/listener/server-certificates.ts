// Which certificate HTTPS shows (D68; RFC 6066 §3): that of the name asked for, else a default one.

import { createSecureContext, type SecureContext } from 'node:tls';
import type { ListenerTls } from './listener.ts';

/** A certificate chain and its key, PEM. */
export interface ServerCertificate {
  readonly certificate: string;
  readonly privateKey: string;
}

/**
 * Reads certificates once for a listener.
 * @param certificates by host, lower case
 * @param fallback the host whose certificate is the default; it is among them
 */
export function serverCertificates(
  certificates: ReadonlyMap<string, ServerCertificate>,
  fallback: string,
): ListenerTls {
  const shown = certificates.get(fallback);
  if (!shown) throw new Error(`There is no certificate for ${fallback}`);
  const contexts = new Map<string, SecureContext>();
  for (const [host, { certificate, privateKey }] of certificates) {
    contexts.set(host, createSecureContext({ cert: certificate, key: privateKey, minVersion: 'TLSv1.2' }));
  }
  return { cert: shown.certificate, key: shown.privateKey, contextOf: (serverName) => contexts.get(serverName) };
}
