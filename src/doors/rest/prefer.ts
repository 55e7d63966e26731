// `Prefer: wait=N` (RFC 7240 §4.3): how long the sender would wait to hear what became of the message (D44).

/** The longest wait, seconds. */
const longestWaitSeconds = 30;

/**
 * Reads the header. What is malformed is ignored (RFC 7240 §2); of several the first counts.
 * @returns seconds, at most 30; 0 where nothing is preferred
 */
export function waitSeconds(prefer: string | readonly string[] | undefined): number {
  const text = typeof prefer === 'string' ? prefer : (prefer ?? []).join(',');
  for (const preference of text.slice(0, 1000).split(',')) {
    const wait = /^[ \t]*wait[ \t]*=[ \t]*"?([0-9]{1,9})"?[ \t]*(?:;|$)/i.exec(preference);
    if (wait) return Math.min(longestWaitSeconds, Number(wait[1]));
  }
  return 0;
}
