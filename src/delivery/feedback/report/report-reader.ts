// Reads what comes to bounce addresses in a process of its own, one message after another, so that submission never waits for a report.
// Those who wait have their turns by address: who sends costly ones keeps mostly itself waiting. A report that takes too long or too much
// memory costs its process; the next one gets another.

import { createHash } from 'node:crypto';
import { AskedProcess, type WorkLimits } from '../../../base/asked-process.ts';
import { Unavailable } from '../../../base/errors.ts';
import { RecentMap } from '../../../base/recent-map.ts';
import type { Report } from './report.ts';
import type { ReportQuestion } from './report-process.ts';

/** Reads what came to a bounce address. */
export type ReportReader = ReturnType<typeof createReportReader>;

/** A report of a megabyte takes some hundred milliseconds; it has a megabyte at most. */
const readerLimits: WorkLimits = { milliseconds: 10_000, heapMebibytes: 128 };

/** Reports that took too long are remembered, so that what comes again and does so again is given up. */
const rememberedLate = 1000;

/** Makes a reader. Its process starts with the first report, and while idle it does not keep this process alive. */
export function createReportReader(limits: WorkLimits = readerLimits) {
  const program = new URL('./report-process.ts', import.meta.url);
  const reading = new AskedProcess<ReportQuestion, Report>(program, limits);
  const late = new RecentMap<string, true>(rememberedLate);
  return {
    /**
     * Reads a message. As many wait as there are connections to the bounce listener, since each waits for the answer to its message.
     * @param from who sent it: the messages of one address wait for each other
     * @returns the reason in words where it cannot be read: it has too many parts, took too long, or too much memory
     * @throws Unavailable where it is to come again: nothing can be read now, or it took too long for the first time
     */
    async read(
      octets: Buffer,
      { isFromNobody, from }: { readonly isFromNobody: boolean; readonly from: string },
    ): Promise<Report | { readonly kind: 'unreadable'; readonly why: string }> {
      const answer = await reading.ask({ octets, isFromNobody }, from);
      if (!('error' in answer)) return answer;
      const why = answer.error;
      const digest = answer.isLate ? createHash('sha256').update(octets).digest('base64') : '';
      if (!answer.isLate || late.delete(digest)) return { kind: 'unreadable', why };
      late.set(digest, true);
      throw new Unavailable(why, { reason: 'store', retryAfterSeconds: 60 });
    },
    /** Ends the process. What is still to be read is refused for now. */
    close: (): Promise<void> => reading.close(),
  };
}
