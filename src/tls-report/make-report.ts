// Makes the report of a day for a domain: JSON, compressed (RFC 8460 §4, §5.2).

import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { endOfDay } from './session-kind.ts';
import type { DueTlsReport, FailureCount, TlsReportStore } from './tls-report-store.ts';

/** Who reports. */
export interface Reporter {
  readonly organization: string;
  readonly contact: string;
}

function failureDetail({ result, localAddress, exchanger, address, reason, sessions }: FailureCount) {
  return {
    'result-type': result,
    ...(localAddress === '' ? {} : { 'sending-mta-ip': localAddress }),
    ...(exchanger === '' ? {} : { 'receiving-mx-hostname': exchanger }),
    ...(address === '' ? {} : { 'receiving-ip': address }),
    'failed-session-count': sessions,
    ...(reason === '' ? {} : { 'failure-reason-code': reason }),
  };
}

/** When the period of a report begins and ends, in milliseconds since 1970. */
export function periodOf({ day }: Pick<DueTlsReport, 'day'>): { readonly begin: number; readonly end: number } {
  const end = endOfDay(day);
  return { begin: end - 86_400_000, end };
}

/**
 * Makes a report.
 * @returns its octets, compressed by gzip; undefined where there is nothing to tell
 */
export async function makeReport(
  due: DueTlsReport,
  { totals, failures }: Awaited<ReturnType<TlsReportStore['contents']>>,
  { organization, contact }: Reporter,
): Promise<Buffer | undefined> {
  if (totals.length === 0) return undefined;
  const report = {
    'organization-name': organization,
    'date-range': { 'start-datetime': `${due.day}T00:00:00Z`, 'end-datetime': `${due.day}T23:59:59Z` },
    'contact-info': contact,
    'report-id': due.id,
    policies: totals.map(({ policyId, policy, succeeded, failed }) => {
      const details = failures.filter((one) => one.policyId === policyId).map(failureDetail);
      const written: unknown = JSON.parse(policy);
      return {
        policy: written,
        summary: { 'total-successful-session-count': succeeded, 'total-failure-session-count': failed },
        ...(details.length === 0 ? {} : { 'failure-details': details }),
      };
    }),
  };
  return await promisify(gzip)(JSON.stringify(report));
}
