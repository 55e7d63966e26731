// Makes the report of a day for a domain: JSON, compressed (RFC 8460 §4, §5.2).

import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Account } from '../../accounts/account.ts';
import { encodeBase64 } from '../../mail/mime/transfer-encoding.ts';
import type { Submission } from '../../pipeline/submit.ts';
import { ownSubmission } from '../notify/compose-report.ts';
import { endOfDay } from './session-kind.ts';
import type { DueTlsReport, FailureCount, TlsReportStore } from './tls-report-store.ts';

/** The settings, defaults filled in. */
export interface TlsReportSettings {
  /** Collect results and send reports. */
  readonly enabled: boolean;
  /** Who reports, in words. */
  readonly organization: string;
  /** An address for questions. */
  readonly contact: string;
  /** Networks in which hosts that take reports by HTTPS may be although they are private. */
  readonly allowPrivate: readonly string[];
}

/** The account of these reports, whose name no other has. They have `TLS-Required: No`: they tell of failing TLS (RFC 8460 §3). */
const account: Account = {
  id: '0'.repeat(32),
  name: 'tls.reports',
  plan: 'enterprise',
  sendingDomains: [],
  limits: {},
  showClientAddress: false,
  tlsRequiredNo: true,
  reports: { failure: false, delay: false, success: false },
  credentials: new Map(),
};

/** Makes the mail. @param parts.report compressed @param parts.platformDomain who reports: A-label, lower case */
export async function reportMail(
  { day, domain, id }: DueTlsReport,
  { report, to, platformDomain }: { readonly report: Buffer; readonly to: string; readonly platformDomain: string },
): Promise<Submission> {
  const end = endOfDay(day);
  const begin = end - 86_400_000;
  const boundary = `tlsrpt-${id}`;
  // RFC 8460 §5.1; seconds since 1970.
  const file = `${platformDomain}!${domain}!${begin / 1000}!${end / 1000 - 1}!${id}.json.gz`;
  const message = Buffer.from(`From: "TLS reports" <tls-reports@${platformDomain}>\r
To: <${to}>\r
Subject: Report Domain: ${domain} Submitter: ${platformDomain} Report-ID: <${id}@${platformDomain}>\r
Auto-Submitted: auto-generated\r
MIME-Version: 1.0\r
Content-Type: multipart/report; report-type="tlsrpt"; boundary="${boundary}"\r
\r
This is a report of TLS in several parts (RFC 8460).\r
\r
--${boundary}\r
Content-Type: text/plain; charset="us-ascii"\r
Content-Transfer-Encoding: 7bit\r
\r
This is an aggregate report of ${platformDomain} about the TLS of its mail to\r
${domain} on ${day} (UTC). The attached file is for programs.\r
\r
--${boundary}\r
Content-Type: application/tlsrpt+gzip\r
Content-Transfer-Encoding: base64\r
Content-Disposition: attachment; filename="${file}"\r
\r
${(await encodeBase64(report)).toString('latin1').trimEnd()}\r
--${boundary}--\r
`);
  return {
    ...ownSubmission(message, account),
    // What becomes of a report is told to nobody.
    envelope: { reversePath: '', recipients: [to], smtputf8: false, requireTls: false },
    tlsReport: { domain, submitter: platformDomain },
  };
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

/** Makes a report. @returns its octets, compressed by gzip; undefined where there is nothing to tell */
export async function makeReport(
  due: DueTlsReport,
  { totals, failures }: Awaited<ReturnType<TlsReportStore['contents']>>,
  { organization, contact }: Pick<TlsReportSettings, 'organization' | 'contact'>,
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
