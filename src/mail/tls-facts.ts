// How a connection to a next hop was protected, as events and log lines tell it.

/** What decided about TLS: the route (`none`, `opportunistic`, `required`), `mta-sts` (RFC 8461), or `dane` (RFC 7672). */
export type TlsPolicy = 'none' | 'opportunistic' | 'required' | 'mta-sts' | 'dane';

/** The TLS of a connection. */
export interface TlsFacts {
  readonly policy: TlsPolicy;
  /** `TLSv1.3`, `TLSv1.2`; absent where the connection is in the clear. */
  readonly version?: string;
  /** Absent in the clear: whether the certificate was verified, by an authority or by DANE. */
  readonly verified?: boolean;
}
