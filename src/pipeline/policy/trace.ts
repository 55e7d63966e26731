// Finds mail that goes in a circle by the trace that it carries (D4, RFC 5321 §6.3).

import type { HeaderField } from '../../mail/header/header-field.ts';

/** More Received headers than this are a loop (D4). */
export const MAX_RECEIVED = 50;
/** How often a message may have passed this gateway before: once or twice is a forwarding, more often a loop. */
const MAX_PASSES = 3;

/** A number of passes that is written into a field is believed up to this one. */
const passPattern = /^ \(postern(?:; pass (\d{1,3}))?\)/;

/** How often a message has passed this gateway by its Received fields; where these were removed (D4a), the last one says it. */
export function passesOf(trace: readonly HeaderField[], hostname: string): number {
  const own = `by ${hostname.toLowerCase()}`;
  let passes = 0;
  for (const { rawBytes } of trace) {
    const text = rawBytes.toString('latin1').replace(/\s+/g, ' ').toLowerCase();
    const start = text.indexOf(`${own} (postern`);
    const found = start < 0 ? undefined : passPattern.exec(text.slice(start + own.length));
    if (found) passes += Number(found[1] ?? 1);
  }
  return passes;
}

/** Says why a message is in a loop, if it is. @param trace all its Received headers @param hostname the gateway's, if known */
export function loopReason(trace: readonly HeaderField[], hostname: string | undefined): string | undefined {
  if (trace.length > MAX_RECEIVED) return `${trace.length} Received headers, over ${MAX_RECEIVED} are a mail loop`;
  const passes = hostname === undefined ? 0 : passesOf(trace, hostname);
  if (passes <= MAX_PASSES) return undefined;
  return `The message has passed this gateway ${passes} times, over ${MAX_PASSES} are a mail loop`;
}
