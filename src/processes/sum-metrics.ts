// Adds up the metrics of all processes. Counters and histograms of a process that has ended stay in the sum with their last
// reading: a sum that fell would look like a restart of everything to whoever computes rates from it.

import { AggregatorRegistry } from 'prom-client';
import type { MetricValues } from '../base/process-group.ts';

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

  /** A reading of a process. */
  read(process: number, values: MetricValues): void {
    this.#last.set(process, values);
  }

  /** A process has ended. */
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
