// What operators decide about reports of TLS (RFC 8460).

/** The settings, defaults filled in. */
export interface TlsReportSettings {
  /** Collect results and send reports. */
  readonly enabled: boolean;
  /** Who reports, in words. */
  readonly organization: string;
  /** An address for questions. */
  readonly contact: string;
  /** Each report is sent at a random moment within so many minutes after the end of its day. */
  readonly delayMinutes: number;
  /** Networks in which hosts that take reports by HTTPS may be although they are private. */
  readonly allowPrivate: readonly string[];
}
