// Certificates for tests: self-signed, made on the spot.

import { generate } from 'selfsigned';

/** A key and its certificate, PEM. The certificate is its own authority: trust it to verify it. */
export interface TestCertificate {
  readonly key: string;
  readonly cert: string;
}

/**
 * Makes a certificate for names; an IP address among them is entered as one.
 * @param dates when it is valid; where absent, for a year from now on
 */
export async function testCertificate(
  names: readonly string[] = ['localhost', '127.0.0.1'],
  dates: { readonly notBeforeDate?: Date; readonly notAfterDate?: Date } = {},
): Promise<TestCertificate> {
  const altNames = names.map((name) =>
    /^[\d.]+$/.test(name) ? ({ type: 7, ip: name } as const) : ({ type: 2, value: name } as const),
  );
  const made = await generate([{ name: 'commonName', value: names[0] ?? 'localhost' }], {
    algorithm: 'sha256',
    // Made in a millisecond; an RSA key takes up to a second.
    keyType: 'ec',
    ...dates,
    extensions: [
      { name: 'basicConstraints', cA: true },
      { name: 'subjectAltName', altNames },
    ],
  });
  return { key: made.private, cert: made.cert };
}
