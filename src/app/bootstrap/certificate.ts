/** A certificate and its key as PEM. */
export interface DevelopmentCertificate {
  readonly certificate: string;
  readonly privateKey: string;
}

const tenYearsMs = 3650 * 86_400_000;
const anHourMs = 3_600_000;

/**
 * Makes a self-signed TLS certificate (D95): EC P-256, ten years, for a host name, localhost, 127.0.0.1 and ::1.
 * @param nowMs milliseconds since 1970
 */
export async function makeCertificate(host: string, nowMs: number): Promise<DevelopmentCertificate> {
  const names = [...new Set([host, 'localhost'])].map((value) => ({ type: 2, value }) as const);
  const addresses = ['127.0.0.1', '::1'].map((ip) => ({ type: 7, ip }) as const);
  // Loaded only where a certificate is made: a service that has one never needs this library.
  const { generate } = await import('selfsigned');
  const made = await generate([{ name: 'commonName', value: host }], {
    keyType: 'ec',
    curve: 'P-256',
    algorithm: 'sha256',
    // Valid since an hour ago, so that a client whose clock is slow accepts it too.
    notBeforeDate: new Date(nowMs - anHourMs),
    notAfterDate: new Date(nowMs + tenYearsMs),
    extensions: [
      { name: 'basicConstraints', cA: false, critical: true },
      { name: 'keyUsage', digitalSignature: true, critical: true },
      { name: 'extKeyUsage', serverAuth: true },
      { name: 'subjectAltName', altNames: [...names, ...addresses] },
    ],
  });
  return { certificate: made.cert, privateKey: made.private };
}
