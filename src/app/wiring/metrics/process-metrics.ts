// Metrics that belong to no single part: memory of message bodies, logins that wait, lost log lines.

import type { Guessing } from '../../../accounts/guessing.ts';
import type { BodyBudget } from '../../../base/body-budget.ts';
import { gauge, type MetricSources } from '../../../web/http/metrics.ts';
import type { Config } from '../../config/config.ts';
import { observedParts } from '../../config/warnings.ts';

/** One number for each credential and listener that is observed. @param read the configuration in force */
export function observeMetrics(read: () => Pick<Config, 'accounts' | 'smtp'>): MetricSources {
  return {
    families: [
      {
        kind: 'gauge',
        over: 'max',
        name: 'postern_policy_observe_until_timestamp_seconds',
        help: 'When the header policy is enforced again where it is only observed, seconds since 1970',
        label: ['credential', 'listener'],
        read: () =>
          observedParts(read()).map(({ kind, name, period }) => [
            kind === 'credential' ? [name, ''] : ['', name],
            period.endsAtMs / 1000,
          ]),
      },
    ],
  };
}

/** The metrics of what SMTP and HTTP share. */
export function processMetrics(shared: {
  readonly bodies: BodyBudget;
  readonly guessing: Guessing;
  readonly droppedLogLines: () => number;
}): MetricSources {
  const { bodies, guessing, droppedLogLines } = shared;
  return {
    families: [
      gauge(
        'postern_log_lines_dropped',
        'Log lines lost since the start, because the output took none',
        droppedLogLines,
      ),
      gauge('postern_body_bytes_held', 'Memory counted for bodies under way, SMTP and HTTP', () => bodies.held),
      gauge('postern_body_bytes_limit', 'Memory that bodies under way may have', () => bodies.limit),
      gauge(
        'postern_auth_waiting',
        'Logins, and answers to wrong tokens, that wait now, SMTP and HTTP',
        () => guessing.waiting,
      ),
      {
        kind: 'counter',
        name: 'postern_body_refusals_total',
        help: 'Bodies refused because there was no room in memory, by door',
        label: 'door',
        read: () => Object.entries(bodies.refusals),
      },
    ],
  };
}
