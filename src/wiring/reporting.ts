// Connects the reports to senders: the notifier reads what the spool has noted and hands what it makes to a pipeline of its
// own, in which the platform's domain is the sender and its key signs.

import type { Account, SendingDomain } from '../accounts/account.ts';
import type { Accounts } from '../accounts/accounts.ts';
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../base/log.ts';
import { transportOf } from '../deliver/router.ts';
import type { GaugeSource } from '../http/metrics.ts';
import { createNotifier, type Notifier } from '../notify/notifier.ts';
import type { Spool } from '../spool/spool.ts';
import { type BuildParts, createSubmit, type SubmitParts } from '../submit.ts';
import { type Live, madeOf } from './in-force.ts';
import type { LiveDelivery } from './live-delivery.ts';

/** The domain of our own reports, as the pipeline sees it. */
function platformSender(domain: string): SendingDomain {
  return { name: domain, subdomains: false, dkim: [] };
}

/** The parts that reports are made with. */
interface ReportingParts {
  readonly live: Live;
  readonly accounts: Accounts;
  readonly clock: Clock;
  readonly log: Logger;
  readonly spool: Spool;
  readonly delivery: Pick<LiveDelivery, 'deliverNow'>;
  /** What messages are built with under the settings in force. */
  readonly building: () => BuildParts;
  readonly suppressed: (account: Account, recipient: string) => Promise<boolean>;
}

/** Makes the notifier and its metrics. It sends nothing before `start`. */
export function createReporting({
  live,
  accounts,
  clock,
  log,
  spool,
  delivery,
  building,
  suppressed,
}: ReportingParts): { readonly notifier: Notifier; readonly gauges: readonly GaugeSource[] } {
  const pipelineOf = madeOf(live, ({ config, keys }) => {
    const { domain } = config.platform;
    const parts: SubmitParts = {
      ...building(),
      sendingDomain: (_account: Account, asked) => (asked === domain ? platformSender(domain) : undefined),
      // One signature, which no route leaves out.
      domainKeys: () => keys.platform,
      platformKeys: [],
      wantsPlatformSignature: () => false,
      spool,
      transportOf: transportOf(config.delivery.routes),
      expireAfterSeconds: config.delivery.retry.expireAfterSeconds,
      onAccepted: (entry) => delivery.deliverNow(entry),
      onRefused: spool.events.refuse,
    };
    return createSubmit(parts);
  });
  const notifier = createNotifier({
    spool,
    accounts,
    submit: (submission) => pipelineOf()(submission),
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
    gauges: [
      {
        kind: 'counter',
        name: 'postern_reports_sent_total',
        help: 'Reports to senders that were made and queued',
        read: () => notifier.counts.made,
      },
      {
        kind: 'counter',
        name: 'postern_reports_left_total',
        help: 'Reports to senders that were not made: the address is suppressed or no longer the account’s',
        read: () => notifier.counts.left,
      },
      {
        kind: 'counter',
        name: 'postern_reports_limited_total',
        help: 'Recipients that no report tells of, because the limits of reports were reached',
        read: () => spool.unreported,
      },
    ],
  };
}
