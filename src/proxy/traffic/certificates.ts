// The certificates of client connections (D84), read when plans are applied and now and then, not per connection.

import { X509Certificate } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import { errorMessage } from '../../base/errors.ts';
import { oncePer } from '../../base/once-per.ts';

/** A certificate chain and its key, PEM. */
export interface CertificatePair {
  readonly cert: string;
  readonly key: string;
}

/** The TLS context of a certificate; made once. @throws Error where certificate and key cannot be read or do not fit */
export const contextOf = oncePer(({ cert, key }: CertificatePair) => createSecureContext({ cert, key }));

/** When a certificate ends, milliseconds since 1970. @throws Error where it cannot be read */
export const expiryOf = oncePer(({ cert }: CertificatePair) => Date.parse(new X509Certificate(cert).validTo));

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
    /** Gives up the certificates of other names, and reads missing ones. @returns why a name has no usable certificate, by name */
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
