// What the supervisor itself tells /metrics: its processes, and how often one was started again.

import { Counter, Gauge, Registry } from 'prom-client';
import type { MetricValues } from '../base/process-group.ts';

/** The supervisor's numbers. */
export interface SupervisorNumbers {
  /** Processes that are to run, and those that take connections. */
  readonly wanted: number;
  readonly serving: number;
  /** Since the start. */
  readonly restarts: number;
}

/** Gives the numbers as the processes give theirs. */
export async function supervisorMetrics({ wanted, serving, restarts }: SupervisorNumbers): Promise<MetricValues> {
  const registry = new Registry();
  const registers = [registry];
  const processes = new Gauge({
    name: 'postern_processes',
    help: 'Processes of the server: wanted, and serving',
    labelNames: ['state'],
    registers,
  });
  processes.set({ state: 'wanted' }, wanted);
  processes.set({ state: 'serving' }, serving);
  const again = new Counter({
    name: 'postern_process_restarts_total',
    help: 'Processes that have ended and were started again',
    registers,
  });
  again.inc(restarts);
  return await registry.getMetricsAsJSON();
}
