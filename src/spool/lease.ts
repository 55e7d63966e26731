// How long a claim on a recipient holds, and how long a failed message is kept.

/**
 * How long a claim holds, in milliseconds. It is longer than any transaction may last (delivery closes one after 45
 * minutes), so that a claim only runs out when its holder is gone or stuck.
 */
export const leaseMilliseconds = 60 * 60 * 1000;

/** How long a message is kept after its last recipient's end, where a recipient has failed, in milliseconds. */
export const failedRetentionMilliseconds = 30 * 24 * 60 * 60 * 1000;
