// The certificates that client connections are terminated with (D84): read when plans are applied and renewed now and
// then, not read per connection.

import { X509Certificate } from 'node:crypto';
import { createSecureContext, type SecureContext } from 'node:tls';
import { errorMessage } from '../../base/errors.ts';

/** A certificate chain and its key, PEM. */
export interface CertificatePair {
  readonly cert: string;
  readonly key: string;
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

const ends = new WeakMap<CertificatePair, number>();

/** When a certificate ends, milliseconds since 1970. @throws Error where it cannot be read */
export function expiryOf(pair: CertificatePair): number {
  const known = ends.get(pair);
  if (known !== undefined) return known;
  const at = Date.parse(new X509Certificate(pair.cert).validTo);
  ends.set(pair, at);
  return at;
}

/** Keeps the certificates in use by name. @param read reads the present certificate of a name; undefined: there is none */
export function createCertificates(read: (name: string) => CertificatePair | undefined) {
  const inUse = new Map<string, CertificatePair>();

  /** Uses the present certificate of a name from now on. @returns why it cannot be used; undefined where it can */
  function take(name: string): string | undefined {
    const before = inUse.get(name);
    try {
      const found = read(name);
      if (!found) return `there is no certificate in certs/tls/${name}`;
      if (before && found.cert === before.cert && found.key === before.key) return undefined;
      contextOf(found);
      inUse.set(name, found);
      return undefined;
    } catch (error) {
      return `the certificate in certs/tls/${name} cannot be used: ${errorMessage(error)}`;
    }
  }

  function takeAll(names: Iterable<string>): ReadonlyMap<string, string> {
    const reasons = new Map<string, string>();
    for (const name of names) {
      const reason = take(name);
      if (reason !== undefined) reasons.set(name, reason);
    }
    return reasons;
  }

  return {
    /**
     * Gives up the certificates of all other names, and reads those of the given names that have none in use.
     * @returns why a name has no usable certificate, by name; names that have one are left out
     */
    follow(names: ReadonlySet<string>) {
      for (const name of inUse.keys()) if (!names.has(name)) inUse.delete(name);
      return takeAll([...names].filter((name) => !inUse.has(name)));
    },
    /** Reads the certificates in use anew; where one cannot be used, the one before stays. @returns why, by name */
    renew: () => takeAll([...inUse.keys()]),
    /** The certificate in use for a name. */
    get: (name: string) => inUse.get(name),
  };
}
