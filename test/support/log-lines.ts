// A log that a test can read.

import { type Logger, openLog } from '../../src/base/log.ts';

/** A log whose lines are kept as objects. */
export function logLines(): { readonly log: Logger; readonly lines: Record<string, unknown>[] } {
  const lines: Record<string, unknown>[] = [];
  const { log } = openLog('info', {
    write: (text: string) => {
      const line: Record<string, unknown> = JSON.parse(text);
      lines.push(line);
    },
  });
  return { log, lines };
}
