// The process that reads reports; all it does is call `readReport`.

import { answerQuestions } from '../../../base/asked-process.ts';
import { readReport } from './read-report.ts';
import type { Report } from './report.ts';

/** A message to be read. */
export interface ReportQuestion {
  readonly octets: Uint8Array;
  readonly isFromNobody: boolean;
}

answerQuestions(({ octets, isFromNobody }: ReportQuestion): Promise<Report> => {
  return readReport(Buffer.from(octets.buffer, octets.byteOffset, octets.byteLength), isFromNobody);
});
