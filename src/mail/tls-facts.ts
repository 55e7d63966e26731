// How a connection to a next hop was protected, as events and log lines tell it.

/**
 * What decided about TLS: `none` the route says never, `opportunistic` TLS if offered and with any certificate, `required`
 * the route asks for TLS, `mta-sts` the recipient domain's policy (RFC 8461), `dane` its DNS records (RFC 7672).
 */
export type TlsPolicy = 'none' | 'opportunistic' | 'required' | 'mta-sts' | 'dane';

/** The TLS of a connection. */
export interface TlsFacts {
  readonly policy: TlsPolicy;
  /** `TLSv1.3`, `TLSv1.2`; absent where the connection is in the clear. */
  readonly version?: string;
  /** Absent in the clear: whether the certificate was verified, by an authority or by DANE. */
  readonly verified?: boolean;
}
