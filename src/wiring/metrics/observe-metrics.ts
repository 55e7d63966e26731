// Tells /metrics until when the header policy is only observed (D4c).

import { observedParts } from '../../config/warnings.ts';
import type { Config } from '../../config.ts';
import type { MetricSources } from '../../http/metrics.ts';

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
