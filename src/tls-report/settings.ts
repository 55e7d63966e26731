// What operators decide about reports of TLS (RFC 8460).

/** The settings, defaults filled in. */
export interface TlsReportSettings {
  /** Collect results and send reports. */
  readonly enabled: boolean;
  /** Who reports, in words. */
  readonly organization: string;
  /** An address for questions. */
  readonly contact: string;
  /** Networks in which hosts that take reports by HTTPS may be although they are private. */
  readonly allowPrivate: readonly string[];
}
