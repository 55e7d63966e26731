// Connects the reports to senders and of TLS: a pipeline of their own sends them from the platform's domain, signed by its key.

import { createDnsLookup } from '../../base/dns/dns-lookup.ts';
import { createAddressJudge } from '../../delivery/mx/address-judge.ts';
import type { TlsResult } from '../../delivery/mx/tls-demand.ts';
import { Notifier, type NotifierParts } from '../../delivery/notify/notifier.ts';
import { TlsReporter } from '../../delivery/tls-report/reporter.ts';
import { SessionCounts } from '../../delivery/tls-report/session-counts.ts';
import { openTlsReportStore, type TlsReportStore } from '../../delivery/tls-report/tls-report-store.ts';
import { createSubmit, type Submit } from '../../pipeline/submit.ts';
import type { Spool } from '../../spool/spool.ts';
import { counter, type MetricSources } from '../../web/http/metrics.ts';
import type { Sending } from './build-parts.ts';
import { madeOf, type Shared } from './in-force.ts';

type OwnMailParts = Shared & { readonly sending: () => Sending };

/** Makes the pipeline for mail of our own: the platform's domain is its sender, and the platform's key signs it. */
function createOwnSubmit({ live, sending }: OwnMailParts): Submit {
  const pipelineOf = madeOf(live, ({ config, keys }) => {
    const { domain } = config.platform;
    return createSubmit({
      ...sending(),
      sendingDomain: (_account, asked) =>
        asked === domain ? { name: domain, subdomains: false, dkim: [] } : undefined,
      // One signature, which no route leaves out.
      domainKeys: () => keys.platform,
      platformKeys: [],
      wantsPlatformSignature: () => false,
    });
  });
  return (submission) => pipelineOf()(submission);
}

/** Makes the notifier and its metrics. It sends nothing before `start`. */
export function createReporting(
  parts: OwnMailParts & Pick<NotifierParts, 'suppressed'> & { readonly spool: Spool },
): MetricSources & { readonly notifier: Notifier } {
  const { live, accounts, clock, log, spool, suppressed } = parts;
  const notifier = new Notifier({
    spool,
    accounts,
    submit: createOwnSubmit(parts),
    suppressed,
    from: () => {
      const { platform, smtp } = live.current.config;
      return { platformDomain: platform.domain, hostname: smtp.hostname };
    },
    returnBytes: live.current.config.reports.returnBytes,
    clock,
    log,
  });
  return {
    notifier,
    families: [
      counter('postern_reports_sent_total', 'Reports to senders that were made and queued', () => notifier.counts.made),
      counter(
        'postern_reports_left_total',
        'Reports to senders that were not made: the address is suppressed or no longer the account’s',
        () => notifier.counts.left,
      ),
      counter(
        'postern_reports_limited_total',
        'Recipients that no report tells of, because the limits of reports were reached',
        () => spool.unreported,
      ),
    ],
  };
}

/** How the TLS of deliveries goes, until it is reported. */
export interface TlsResults {
  readonly store: TlsReportStore;
  readonly counts: SessionCounts;
  readonly count: (result: TlsResult) => void;
}

/** Opens what counts how the TLS of deliveries goes. */
export async function openTlsResults({ live, database, clock, log }: Shared): Promise<TlsResults> {
  const store = await openTlsReportStore(database);
  const counts = new SessionCounts({ store, clock, log, random: Math.random });
  const count = (result: TlsResult): void => {
    if (live.current.config.tlsReports.enabled) counts.count(result);
  };
  return { store, counts, count };
}

/** Makes the reporter of TLS and its metrics. It sends nothing before `start`. */
export function createTlsReporting(
  parts: OwnMailParts,
  { store, counts }: TlsResults,
): MetricSources & { readonly tlsReporter: TlsReporter } {
  const { live, clock, log, ownDoors } = parts;
  const tlsReporter = new TlsReporter({
    store,
    counts,
    settings: () => {
      const { tlsReports, platform } = live.current.config;
      return { ...tlsReports, platformDomain: platform.domain };
    },
    lookup: madeOf(live, ({ config }) => createDnsLookup({ ...config.delivery.resolver, clock })),
    judge: madeOf(live, ({ config }) => createAddressJudge({ allowPrivate: config.tlsReports.allowPrivate, ownDoors })),
    submit: createOwnSubmit(parts),
    clock,
    log,
  });
  return {
    tlsReporter,
    families: [
      counter('postern_tls_reports_sent_total', 'Reports of TLS handed over', () => tlsReporter.totals.sent),
      counter('postern_tls_reports_given_up_total', 'Reports of TLS given up', () => tlsReporter.totals.givenUp),
      counter('postern_tls_results_lost_total', 'Results of TLS that no report tells of', () => counts.lost),
    ],
  };
}
