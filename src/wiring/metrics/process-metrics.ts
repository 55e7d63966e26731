// Metrics that belong to no single part: memory of message bodies, logins that wait, lost log lines.

import type { Guessing } from '../../accounts/guessing.ts';
import type { BodyBudget } from '../../base/body-budget.ts';
import type { GaugeSource, MetricFamily } from '../../http/metrics.ts';

/** The metrics of what SMTP and HTTP share. */
export function processMetrics(shared: {
  readonly bodies: BodyBudget;
  readonly guessing: Guessing;
  /** Log lines lost since the start. */
  readonly droppedLogLines: () => number;
}): { readonly gauges: readonly GaugeSource[]; readonly families: readonly MetricFamily[] } {
  const { bodies, guessing, droppedLogLines } = shared;
  return {
    gauges: [
      {
        name: 'postern_log_lines_dropped',
        help: 'Log lines lost since the start, because the output took none',
        read: droppedLogLines,
      },
      {
        name: 'postern_body_bytes_held',
        help: 'Memory counted for bodies under way, SMTP and HTTP',
        read: () => bodies.held,
      },
      { name: 'postern_body_bytes_limit', help: 'Memory that bodies under way may have', read: () => bodies.limit },
      {
        name: 'postern_auth_waiting',
        help: 'Logins, and answers to wrong tokens, that wait now, SMTP and HTTP',
        read: () => guessing.waiting,
      },
    ],
    families: [
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
