// The worker thread that reads reports; all it does is call `readReport`.

import { type MessagePort, parentPort } from 'node:worker_threads';
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

function serve(port: MessagePort): void {
  port.on('message', (question: ReportQuestion) => void answer(question).then((given) => port.postMessage(given, [])));
}

if (!parentPort) throw new Error('This file runs as a worker thread of the report reader only');
serve(parentPort);
