// The process that reads reports; all it does is call `readReport`.

import { answerQuestions } from '../../../base/asked-process.ts';
import { readReport } from './read-report.ts';
import type { Report } from './report.ts';

/** A message to be read. */
export interface ReportQuestion {
  readonly octets: Uint8Array;
  readonly isFromNobody: boolean;
}

/** The answer to one question that has one. */
export interface ReportAnswer {
  readonly report: Report;
}

answerQuestions(async ({ octets, isFromNobody }: ReportQuestion): Promise<ReportAnswer> => {
  const whole = Buffer.from(octets.buffer, octets.byteOffset, octets.byteLength);
  return { report: await readReport(whole, isFromNobody) };
});
