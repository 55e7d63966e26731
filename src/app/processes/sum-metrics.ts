// Adds up the metrics of all processes. Those of one that has ended stay in the sum, since a sum that falls looks like a restart.

import { AggregatorRegistry, Counter, Gauge, Registry } from 'prom-client';
import type { MetricValues } from '../../base/process-group.ts';
import type { DestinationView } from '../../delivery/transport.ts';

function merged(one: DestinationView, other: DestinationView): DestinationView {
  // The trouble of whoever waits longest, and what was said to it.
  const [worse, better] = (other.trouble && !one.trouble) || other.waitMs > one.waitMs ? [other, one] : [one, other];
  const { trouble, waits = better.waits, lastWords = better.lastWords } = worse;
  return {
    key: one.key,
    label: one.label,
    route: one.route,
    domains: [...new Set([...one.domains, ...other.domains])],
    connections: one.connections + other.connections,
    allowed: one.allowed + other.allowed,
    most: one.most + other.most,
    waiting: one.waiting + other.waiting,
    active: one.active + other.active,
    ...(trouble ? { trouble } : {}),
    ...(waits ? { waits } : {}),
    waitMs: worse.waitMs,
    ...(lastWords ? { lastWords } : {}),
  };
}

/** Gives each next hop once. */
export function mergeDestinations(views: readonly DestinationView[]): readonly DestinationView[] {
  const byKey = new Map<string, DestinationView>();
  for (const view of views) {
    const key = `${view.route} ${view.key}`;
    const known = byKey.get(key);
    byKey.set(key, known ? merged(known, view) : view);
  }
  return [...byKey.values()];
}

/** Gives the supervisor's own numbers as the processes give theirs. */
export async function supervisorMetrics(of: {
  wanted: number;
  serving: number;
  restarts: number;
}): Promise<MetricValues> {
  const registry = new Registry();
  const registers = [registry];
  const help = 'Processes of the server: wanted, and serving';
  const processes = new Gauge({ name: 'postern_processes', help, labelNames: ['state'], registers });
  processes.set({ state: 'wanted' }, of.wanted);
  processes.set({ state: 'serving' }, of.serving);
  const ended = 'Processes that have ended and were started again';
  new Counter({ name: 'postern_process_restarts_total', help: ended, registers }).inc(of.restarts);
  return await registry.getMetricsAsJSON();
}

/** Whether a metric only grows, and is added up. */
function grows(metric: object): boolean {
  const { type, aggregator } = { type: undefined, aggregator: undefined, ...metric };
  return (type === 'counter' || type === 'histogram') && aggregator === 'sum';
}

function aggregate(all: readonly MetricValues[]) {
  return AggregatorRegistry.aggregate(all.map((values) => [...values]));
}

/** The last readings of processes, and their sum. */
export class MetricsSum {
  readonly #last = new Map<number, MetricValues>();
  /** What ended processes have counted: a sum, and behind it those that are not in the sum yet. */
  #ended: readonly MetricValues[] = [];
  #isFolding = false;

  read(process: number, values: MetricValues): void {
    this.#last.set(process, values);
  }

  gone(process: number): void {
    const last = this.#last.get(process);
    if (!last) return;
    this.#last.delete(process);
    this.#ended = [...this.#ended, last.filter(grows)];
    if (!this.#isFolding) void this.#fold();
  }

  /** Adds up what ended processes have counted, so that it does not grow with each that ends. */
  async #fold(): Promise<void> {
    this.#isFolding = true;
    while (this.#ended.length > 1) {
      const parts = this.#ended;
      const sum = await aggregate(parts).getMetricsAsJSON();
      // Others may have ended meanwhile.
      this.#ended = [sum, ...this.#ended.slice(parts.length)];
    }
    this.#isFolding = false;
  }

  /** The sum of the last readings, in the form of Prometheus. @param own the supervisor's own numbers */
  async text(own: MetricValues): Promise<string> {
    return await aggregate([...this.#ended, own, ...this.#last.values()]).metrics();
  }
}
