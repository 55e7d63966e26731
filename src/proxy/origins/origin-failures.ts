// Why an origin could not be reached, as both transports judge and tell it (D84).

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
