// The origins of an application at run time: which address and port a connection goes to (D84).

/** One place to connect to. */
export interface OriginAddress {
  /** IPv4, or IPv6 without brackets. */
  readonly address: string;
  readonly port: number;
  /** The name it was found under, for SNI and certificate checks of `tls: full` and `strict`; absent for a direct origin. */
  readonly name?: string;
}

/** Picks origins, remembers which failed. */
export interface Origins {
  /**
   * The places to try for a connection on an edge port, the best first: healthy ones in turn (SRV: by priority and
   * weight, RFC 2782), then those that failed lately. Empty where no name resolves; the reason is in `why`.
   */
  candidates(edgePort: number): Promise<{ readonly origins: readonly OriginAddress[]; readonly why?: string }>;
  /** An origin took a connection. */
  succeeded(origin: OriginAddress): void;
  /** An origin refused, timed out, or broke off before its first octet: it is tried last for a while. */
  failed(origin: OriginAddress): void;
  /** What is known of each, for the application's `traffic`. */
  health(): readonly { readonly origin: OriginAddress; readonly healthy: boolean; readonly failures: number }[];
  close(): void;
}
