// A failure that a trusted proxy in front reports: it has asked the origin itself, and wants the client told by us what failed (D66).
//
//   X-Forwarded-Failure: 524          the code, where the proxy knows it
//   X-Forwarded-Failure: connect      it could not connect, and does not know why
//   X-Forwarded-Failure: since=MS     it got no answer; it began at that time (milliseconds since 1970)
//
// Behind a blank may stand the method of the request, where the proxy has to send it on by another one (Caddy).

/** The codes that a proxy may report: those that failing origins have. */
const reportedCodes = [520, 521, 522, 523, 524, 525, 526, 1016] as const;

/** What was reported: a code, or what is to be found out by connecting. */
export type ReportedFailure = {
  /** The method by which the client asked; absent: that of the request. */
  readonly method?: string;
} & (
  | { readonly kind: 'known'; readonly code: (typeof reportedCodes)[number] }
  | { readonly kind: 'connect' }
  | { readonly kind: 'since'; readonly at: number }
);

/**
 * Reads the field.
 * @param lines every line of X-Forwarded-Failure
 * @returns undefined where nothing was reported, or nothing that can be read
 */
export function readReportedFailure(lines: readonly string[]): ReportedFailure | undefined {
  const [line = ''] = lines;
  const [, what, since, method] = /^([0-9]{3,4}|connect|since=([0-9]{1,15}))(?: ([A-Z]{1,20}))?$/.exec(line) ?? [];
  if (lines.length !== 1 || what === undefined) return undefined;
  const by = method === undefined ? {} : { method };
  if (what === 'connect') return { kind: 'connect', ...by };
  if (since !== undefined) return { kind: 'since', at: Number(since), ...by };
  const code = reportedCodes.find((known) => String(known) === what);
  return code === undefined ? undefined : { kind: 'known', code, ...by };
}
