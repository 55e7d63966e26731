// The process that reads reports; all it does is call `readReport`.

import { readReport } from './read-report.ts';
import type { Report } from './report.ts';

/** A message to be read. */
export interface ReportQuestion {
  readonly octets: Uint8Array;
  readonly isFromNobody: boolean;
}

/** The answer to one question. */
export type ReportAnswer = { readonly report: Report } | { readonly error: string };

async function answer({ octets, isFromNobody }: ReportQuestion): Promise<ReportAnswer> {
  try {
    const whole = Buffer.from(octets.buffer, octets.byteOffset, octets.byteLength);
    return { report: await readReport(whole, isFromNobody) };
  } catch (error) {
    return { error: error instanceof Error ? error.message : String(error) };
  }
}

if (!process.send) throw new Error('This file runs as the process of the report reader only');
process.on('message', (question: ReportQuestion) => void answer(question).then((given) => process.send?.(given)));
// The gateway ends this process when it has no more to read, and a signal to the whole group must not do so before.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined);
process.on('disconnect', () => process.exit());
