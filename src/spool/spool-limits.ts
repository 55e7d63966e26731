// How much the spool takes: free room on the disk, and a share of it for each account.

/** The spool's settings. */
export interface SpoolLimits {
  /** With less room than this on a file system of the spool no mail is taken; absent: see `defaultMinFreeBytes`. */
  readonly minFreeBytes?: number;
  /** Queued messages of one account; more are refused. */
  readonly queuedMessages: number;
  /** Octets of one account's queued messages; absent: a quarter of the database's file system. */
  readonly queuedBytes?: number;
  /** Messages of one account kept as failed; the oldest go first. */
  readonly failedMessages: number;
  /** Octets of these. */
  readonly failedBytes: number;
}

/** No limits at all, for commands and tests. */
export const unlimited: SpoolLimits = {
  minFreeBytes: 0,
  queuedMessages: Number.POSITIVE_INFINITY,
  queuedBytes: Number.POSITIVE_INFINITY,
  failedMessages: Number.POSITIVE_INFINITY,
  failedBytes: Number.POSITIVE_INFINITY,
};

/** 5 % of the file system or 1 GiB, whichever is smaller. @param totalBytes of the file system */
export function defaultMinFreeBytes(totalBytes: number): number {
  return Math.min(Math.floor(totalBytes / 20), 1_073_741_824);
}

/** A quarter of the file system. @param totalBytes of the file system */
export function defaultQueuedBytes(totalBytes: number): number {
  return Math.floor(totalBytes / 4);
}
