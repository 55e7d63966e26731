// The process's metrics in Prometheus form (D97), by prom-client.

import type { Aggregator } from 'prom-client';
import Counter from 'prom-client/lib/counter.js';
import Gauge from 'prom-client/lib/gauge.js';
import Histogram from 'prom-client/lib/histogram.js';
import Registry from 'prom-client/lib/registry.js';
import { Counts } from '../../base/counts.ts';
import { lazily } from '../../base/load/lazily.ts';
import type { MetricValues } from '../../base/process-group.ts';
import type { V4Token } from './envelope.ts';

/**
 * Paces work: callers that come during a run or too soon share the next one; it rejects with what `work` rejects with.
 * @param paceMs between the beginnings of two runs, by the monotonic clock @param maxWaiting callers; the next one gets undefined
 */
export function createPaced<T>(
  work: () => Promise<T>,
  { paceMs, maxWaiting }: { readonly paceMs: number; readonly maxWaiting: number },
): () => Promise<T | undefined> {
  let waiting = 0;
  let begunAt = Number.NEGATIVE_INFINITY;
  let underWay: Promise<unknown> = Promise.resolve();
  let next: Promise<T> | undefined;

  async function run(): Promise<T> {
    await underWay;
    const pauseMs = begunAt + paceMs - performance.now();
    if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs));
    next = undefined;
    begunAt = performance.now();
    const result = work();
    underWay = result.then(
      () => undefined,
      () => undefined,
    );
    return await result;
  }

  return async () => {
    if (waiting >= maxWaiting) return undefined;
    waiting += 1;
    try {
      next ??= run();
      return await next;
    } finally {
      waiting -= 1;
    }
  };
}

/** How the numbers of processes become one: added up if absent; `max` or `min` for what all tell of the same thing. */
type OverProcesses = 'max' | 'min';

/** Numbers of one name, told apart by labels, read when /metrics is asked for. */
export interface MetricFamily {
  readonly over?: OverProcesses;
  readonly kind: 'gauge' | 'counter';
  readonly name: string;
  readonly help: string;
  /** The name of the label, or the names where there are several; none where there is one number alone. */
  readonly label: string | readonly string[];
  /** The numbers by values of their labels. One that is not given is not shown; where it rejects, none of the family is. */
  readonly read: () => Labelled | Promise<Labelled>;
}

/** The numbers that are read when /metrics is asked for. */
export interface MetricSources {
  readonly families: readonly MetricFamily[];
}

type ReadNumber = () => number | Promise<number>;

/** A number that goes up and down, without labels. Where it cannot be read it is shown as NaN. */
export function gauge(name: string, help: string, read: ReadNumber, over?: OverProcesses): MetricFamily {
  const readOne = async (): Promise<Labelled> => [[[], await Promise.try(read).catch(() => Number.NaN)]];
  return { kind: 'gauge', name, help, label: [], read: readOne, ...(over ? { over } : {}) };
}

/** A number that only grows, without labels; its name ends in `_total`. */
export function counter(name: string, help: string, read: () => number): MetricFamily {
  return { ...gauge(name, help, read), kind: 'counter' };
}

type Labelled = Iterable<readonly [string | readonly string[], number]>;

function addFamily({ kind, name, help, label, read, over }: MetricFamily, registers: Registry[]): void {
  const labelNames = [label].flat();
  const aggregator: Aggregator = over ?? 'sum';
  const labels = (values: string | readonly string[]): Record<string, string> => {
    const given = [values].flat();
    return Object.fromEntries(labelNames.map((one, index) => [one, given[index] ?? '']));
  };
  const collect = async (): Promise<void> => {
    const values = await Promise.try(read).catch(() => []);
    metric.reset();
    // One without labels would be 0 until it is set.
    if (labelNames.length === 0) metric.remove();
    for (const [given, number] of values) {
      if (metric instanceof Gauge) metric.set(labels(given), number);
      else metric.inc(labels(given), number);
    }
  };
  const settings = { name, help, labelNames, registers, aggregator, collect };
  const metric: Gauge | Counter = kind === 'gauge' ? new Gauge(settings) : new Counter(settings);
}

function counters(registers: Registry[]) {
  return <Label extends string>(name: string, help: string, ...labelNames: Label[]) =>
    new Counter<Label>({ name, help, labelNames, registers });
}

function countersBy(registers: Registry[]) {
  return (name: string, help: string, label: string): ((value: string) => void) => {
    const metric = counters(registers)(name, help, label);
    return (value) => metric.inc({ [label]: value });
  };
}

/** The number of status classes: 1 to 9, since origins may send up to 999, and 0 for no status. */
const statusClasses = 10;

function* numbersByClass(byZone: ReadonlyMap<string, readonly number[]>): Labelled {
  for (const [zone, counts] of byZone)
    for (const [index, count] of counts.entries())
      if (count > 0) yield [[zone, index === 0 ? 'none' : `${index}xx`], count];
}

/** A request to the edge, and the error it was answered with. */
interface EdgeRequest {
  readonly zone: string;
  readonly status?: number | undefined;
  readonly code?: number | undefined;
  readonly gone?: 'time' | 'room' | undefined;
  readonly fromMemory?: boolean | undefined;
}

/** Counts requests to the edge. Every request passes here, so labels are written only when the metrics are read. */
function countEdge(registers: Registry[]) {
  const byZone = new Map<string, number[]>();
  const byCode = new Counts();
  const downByZone = new Counts();
  const family = (name: string, help: string, label: MetricFamily['label'], read: () => Labelled): void =>
    addFamily({ kind: 'counter', name, help, label, read }, registers);
  family(
    'postern_edge_requests_total',
    'Requests to zones by status class, "none" where none was answered; zone is empty for hosts that are no zone’s',
    ['zone', 'status'],
    () => numbersByClass(byZone),
  );
  family(
    'postern_edge_errors_total',
    'Edge errors by code, without those asked for at /cdn-cgi/error',
    'code',
    () => byCode,
  );
  const gone = counters(registers)(
    'postern_edge_gone_requests_total',
    'Requests given up whose client had ended its side: their time was over, or others wanted the room',
    'reason',
  );
  family(
    'postern_edge_known_down_total',
    'Requests answered from memory, because their origin could not be connected to a moment before',
    'zone',
    () => downByZone,
  );
  return ({ zone, status, code, gone: reason, fromMemory }: EdgeRequest): void => {
    if (reason !== undefined) gone.inc({ reason });
    if (fromMemory) downByZone.add(zone);
    let counts = byZone.get(zone);
    if (!counts) {
      counts = Array<number>(statusClasses).fill(0);
      byZone.set(zone, counts);
    }
    const index = status === undefined ? 0 : Math.trunc(status / 100);
    counts[index] = (counts[index] ?? 0) + 1;
    if (code !== undefined) byCode.add(String(code));
  };
}

/** Gauges of prom-client with names of counters. Their numbers are the sums of `nodejs_active_handles` and the like. */
const misnamed = ['handles', 'requests', 'resources'].map((what) => `nodejs_active_${what}_total`);

/** Adds prom-client's numbers of every process with the first reader: they wake the process a hundred times a second. */
async function addProcess(registry: Registry): Promise<void> {
  const { collectDefaultMetrics } = await import('prom-client');
  collectDefaultMetrics({ register: registry });
  for (const name of misnamed) registry.removeSingleMetric(name);
}

/** Milliseconds from the beginning of one reading to the beginning of the next, however many ask. */
const readingPaceMs = 100;
const maxWaitingReaders = 256;

function histograms(registers: Registry[]): { readonly latency: Histogram<'route'>; readonly groups: Histogram } {
  return {
    latency: new Histogram({
      name: 'postern_delivery_latency_seconds',
      help: 'Time from acceptance to delivery, one a recipient',
      labelNames: ['route'],
      buckets: [0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 300, 1800, 7200, 28_800, 86_400, 432_000],
      registers,
    }),
    groups: new Histogram({
      name: 'postern_spool_commit_operations',
      help: 'Operations of the spool that shared a commit',
      buckets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024],
      registers,
    }),
  };
}

interface Outcome {
  readonly kind: 'delivered' | 'deferred' | 'failed';
  readonly route: string;
  readonly seconds?: number;
}

/** Makes the metrics of mail and of the spool, each with what counts it. */
function countMail(registers: Registry[]) {
  const counted = counters(registers);
  const countedBy = countersBy(registers);
  const { latency, groups } = histograms(registers);
  const accepted = counted('postern_messages_accepted_total', 'Messages committed to the spool');
  const recipients = counted('postern_recipients_accepted_total', 'Recipients of accepted messages');
  const bytes = counted('postern_accepted_bytes_total', 'Octets of accepted messages as they leave');
  const outcomes = counted(
    'postern_deliveries_total',
    'Outcomes of delivery attempts, one a recipient',
    'outcome',
    'route',
  );
  const complaints = counted('postern_complaints_total', 'Complaints of recipients');
  const refused: (token: V4Token) => void = countedBy(
    'postern_messages_refused_total',
    'Messages refused by the pipeline, by the first token of the answer',
    'code',
  );
  const bounced = countedBy(
    'postern_bounces_total',
    'Recipients that a report says were not reached, by class: hard, soft, policy',
    'class',
  );
  const suppressed: (source: 'bounced' | 'complained' | 'failed') => void = countedBy(
    'postern_suppressed_total',
    'Addresses put on a suppression list by what happened, by the kind of the event',
    'source',
  );
  return {
    accepted(count: { readonly recipients: number; readonly bytes: number }): void {
      accepted.inc();
      recipients.inc(count.recipients);
      bytes.inc(count.bytes);
    },
    refused,
    /** Counts an outcome. `seconds`: how long after its acceptance, for a message that was delivered. */
    outcome({ kind, route, seconds }: Outcome): void {
      outcomes.inc({ outcome: kind, route });
      if (seconds !== undefined) latency.observe({ route }, seconds);
    },
    /** Counts a commit of the spool that so many operations shared. */
    committed: (operations: number): void => groups.observe(operations),
    bounced,
    complained: (): void => complaints.inc(),
    suppressed,
  };
}

/** Makes the registry; names begin with `postern_`. @param sum the text of all processes' numbers; absent: this one's */
export function createMetrics(sum?: (own: MetricValues) => Promise<string>) {
  const registry = new Registry();
  const registers = [registry];
  const ofProcess = lazily(() => addProcess(registry));
  const values = async (): Promise<MetricValues> => {
    await ofProcess();
    return await registry.getMetricsAsJSON();
  };
  const text = async (): Promise<string> => {
    if (sum) return await sum(await values());
    await ofProcess();
    return await registry.metrics();
  };
  return {
    ...countMail(registers),
    edgeRequest: countEdge(registers),
    rulesCutOff: countersBy(registers)(
      'postern_edge_rules_cut_off_total',
      'Errors answered by the default because the Custom Error Rules of the zone ask too much of the request',
      'zone',
    ),
    /** Adds numbers that are read when /metrics is asked for. */
    add({ families }: MetricSources): void {
      for (const family of families) addFamily(family, registers);
    },
    values,
    /** Reads all numbers, ten times a second at most, shared between callers; undefined where 256 wait already. */
    render: createPaced(async () => ({ contentType: registry.contentType, text: await text() }), {
      paceMs: readingPaceMs,
      maxWaiting: maxWaitingReaders,
    }),
  };
}

/** Counts events, and renders the text that /metrics serves. */
export type Metrics = ReturnType<typeof createMetrics>;
