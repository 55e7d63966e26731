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
}

/** Failures of this machine, which say nothing about the origin; EINVAL: no way there from the source address. */
const ownFailures: ReadonlySet<string> = new Set([
  'EMFILE',
  'ENFILE',
  'EADDRNOTAVAIL',
  'EACCES',
  'EINVAL',
  'EPERM',
  'ENOBUFS',
]);

/** Whether a failure speaks against the origin, so that it is tried last for a while. @param code the system's */
export function isOriginsFault(code: string | undefined): boolean {
  return code === undefined || !ownFailures.has(code);
}

/** Characters of all failures together in a reason. */
const reasonLength = 500;

/** Tells the failures of all origins that were tried, or else why there was none to try. */
export function unreachableReason(failures: readonly string[], why: string | undefined): string {
  const told = failures.length > 0 ? failures.join('; ') : (why ?? 'there is no origin');
  return `no origin could be reached: ${told}`.slice(0, reasonLength);
}
