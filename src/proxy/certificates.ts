// The certificates that client connections are terminated with (D84): read when plans are applied, not per connection.

import { createSecureContext, type SecureContext } from 'node:tls';
import { errorMessage } from '../base/errors.ts';

/** A certificate chain and its key, PEM. */
export interface CertificatePair {
  readonly cert: string;
  readonly key: string;
}

/** The certificates in use. */
export interface Certificates {
  /**
   * Reads the one of a name anew. A renewal that cannot be used leaves the one before in its place.
   * @returns why there is none that can be used, undefined where there is
   */
  refresh(name: string): string | undefined;
  /** The one in use. */
  readonly get: (name: string) => CertificatePair | undefined;
}

const contexts = new WeakMap<CertificatePair, SecureContext>();

/**
 * The TLS context of a certificate; made once.
 * @throws Error where certificate and key cannot be read or do not fit one another
 */
export function contextOf(pair: CertificatePair): SecureContext {
  const known = contexts.get(pair);
  if (known) return known;
  const made = createSecureContext({ cert: pair.cert, key: pair.key });
  contexts.set(pair, made);
  return made;
}

/** Keeps certificates by name. @param read gives the one of a name as it is now; undefined: there is none */
export function createCertificates(read: (name: string) => CertificatePair | undefined): Certificates {
  const inUse = new Map<string, CertificatePair>();
  return {
    refresh(name) {
      const before = inUse.get(name);
      try {
        const found = read(name);
        if (!found) return before ? undefined : `there is no certificate in certs/tls/${name}`;
        if (before && found.cert === before.cert && found.key === before.key) return undefined;
        contextOf(found);
        inUse.set(name, found);
        return undefined;
      } catch (error) {
        return before ? undefined : `the certificate in certs/tls/${name} cannot be used: ${errorMessage(error)}`;
      }
    },
    get: (name) => inUse.get(name),
  };
}
