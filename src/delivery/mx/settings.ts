// The part of the configuration that delivery by MX uses.

/** An address of this machine that mail leaves from. */
export interface LocalAddress {
  readonly address: string;
  /** Our name in EHLO from there: an A-label. Absent: the gateway's. */
  readonly hostname?: string;
}

/** How a route by MX uses TLS with a domain whose own policy asks for nothing. */
export interface MxTls {
  /** `none` never, `opportunistic` if offered, and in the clear where that fails; `required` or nothing. */
  readonly mode: 'none' | 'opportunistic' | 'required';
  /** With `required`: verify the certificate and its name. */
  readonly verify: boolean;
}

/** How a route by MX uses TLS with one domain. */
export interface DomainTls extends MxTls {
  /** An A-label in lower case. */
  readonly domain: string;
}

/** How a route by MX goes about it. */
export interface MxSettings {
  readonly name: string;
  readonly port: number;
  readonly tls: MxTls;
  /** By recipient domain: in place of `tls`. */
  readonly tlsByDomain: ReadonlyMap<string, DomainTls>;
  /** Certificates to trust instead of the system's: absolute path of a PEM file, read at each handshake. */
  readonly caFile?: string;
  /** Ask for the policies of MTA-STS (RFC 8461). */
  readonly mtaSts: boolean;
  /** One for IPv4, one for IPv6 at the most. With only one of them, only mail exchangers of that family are used. */
  readonly localAddress?: readonly LocalAddress[];
  /** Networks, otherwise private, in which mail exchangers may be. */
  readonly allowPrivate: readonly string[];
}

/** How DNS is asked for mail exchangers. */
export interface ResolverSettings {
  /** `address`, `address:port` or `[address]:port`; absent: the machine's own name servers. */
  readonly servers?: readonly string[];
  /** They validate DNSSEC and are reached by a way that nobody else is on: DANE is used (RFC 7672). */
  readonly validates: boolean;
}
