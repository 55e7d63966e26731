// The delivery runner: takes due recipients to the next hop, records outcomes, plans retries. A message comes in two
// ways: straight from the pipeline with its octets still in memory, or claimed from the spool when it is due.
//
// Never lost, seldom twice: a message is in the spool until the outcome of its last recipient is committed. Between the
// next hop's 250 and that commit lies a window; whoever is killed inside it sends the message again after the restart.

import type { Clock } from '../base/clock.ts';
import { errorMessage } from '../base/errors.ts';
import type { Logger } from '../base/log.ts';
import { leaseMilliseconds } from '../spool/lease.ts';
import type { Spool, SpoolEntry } from '../spool/spool.ts';
import { CaptureLane } from './capture.ts';
import { ContentBudget } from './content-budget.ts';
import { type DueRecipient, type Job, newJob, type Task } from './job.ts';
import type { Lane, LaneEvents } from './lane.ts';
import { settleOutcome } from './outcome.ts';
import { logOutcome, type OutcomeEvent } from './outcome-event.ts';
import { OutcomeWriter } from './outcome-writer.ts';
import { routeFor } from './router.ts';
import type { DeliverySettings, Route } from './settings.ts';
import { SmarthostLane } from './smarthost.ts';
import type { RecipientResult } from './smtp-client.ts';
import { defaultTimeouts, type SmtpTimeouts } from './smtp-timeouts.ts';
import { type TaskHost, TaskQueue } from './task-queue.ts';

/** How often the spool is asked for due messages, in milliseconds; commands beside the server are noticed by it (D94). */
const pollInterval = 1000;
/** Messages claimed at once. */
const claimLimit = 256;
/** With fewer claimed messages than this in hand, more are claimed. */
const lowWater = 512;
/** With more messages than this in hand, what comes from the pipeline is left to the spool. */
const highWater = 10_000;
/** With more recipients than this in hand, too: each costs memory, and a write when it is given back at the end. */
const highWaterRecipients = 50_000;
/** Octets of accepted messages kept until they are delivered. */
const defaultContentBytes = 64 * 1024 * 1024;
/** Octets of messages read back from the spool, for each route. */
const loadedBytes = 32 * 1024 * 1024;

/** Numbers for /metrics: counters since the start, and gauges. */
export interface DeliveryMetrics {
  readonly delivered: number;
  readonly deferred: number;
  readonly failed: number;
  /** Messages in hand. */
  readonly inHand: number;
  /** Transactions and file writes under way. */
  readonly active: number;
  /** Open connections to next hops. */
  readonly connections: number;
  /** Octets of messages in memory. */
  readonly contentBytes: number;
  /** Outcomes not on disk yet. */
  readonly unrecorded: number;
}

export type { OutcomeEvent } from './outcome-event.ts';

/** What delivery is made from. */
export interface DeliveryParts {
  readonly spool: Spool;
  readonly settings: DeliverySettings;
  readonly clock: Clock;
  readonly log: Logger;
  /** From 0 up to, not including, 1; for the jitter. Math.random if absent. */
  readonly random?: () => number;
  readonly onOutcome?: (event: OutcomeEvent) => void;
  /** Octets of accepted messages kept in memory until they are delivered; above, they are read back from the spool. */
  readonly contentBytes?: number;
  readonly timeouts?: SmtpTimeouts;
}

/** Running delivery. */
export interface Delivery {
  /** Takes a message that has just been added to the spool, claimed for us. */
  deliverNow(entry: SpoolEntry): void;
  /** Takes over what an earlier process held, and asks for due messages from now on. Resolves to the messages queued. */
  start(): Promise<number>;
  /**
   * Begins nothing more, waits for what is under way, breaks it off at `deadline` (milliseconds since 1970), and
   * records every outcome. What was not begun stays in the spool.
   */
  drain(deadline: number): Promise<void>;
  metrics(): DeliveryMetrics;
}

/** Makes a delivery; nothing moves before `deliverNow` or `start`. */
export function createDelivery(parts: DeliveryParts): Delivery {
  return new DeliveryRunner(parts);
}

class DeliveryRunner implements Delivery, LaneEvents {
  readonly #parts: DeliveryParts;
  readonly #lanes = new Map<Route, Lane>();
  readonly #budgets: ContentBudget[] = [];
  readonly #freshBudget: ContentBudget;
  readonly #outcomes: OutcomeWriter;
  readonly #counters = { delivered: 0, deferred: 0, failed: 0 };
  readonly #timeouts: SmtpTimeouts;
  readonly #random: () => number;
  readonly #releases = new Set<Promise<void>>();
  #inHand = 0;
  #claimed = 0;
  #recipientsInHand = 0;
  #timer: NodeJS.Timeout | undefined;
  #polling: Promise<void> | undefined;
  #mayHaveMore = false;
  #isHealthy = true;
  #isDraining = false;
  #onEmpty: () => void = () => undefined;

  constructor(parts: DeliveryParts) {
    this.#parts = parts;
    this.#timeouts = parts.timeouts ?? defaultTimeouts;
    this.#random = parts.random ?? Math.random;
    this.#freshBudget = this.#newBudget(parts.contentBytes ?? defaultContentBytes);
    this.#outcomes = new OutcomeWriter(parts.spool, parts.log, (isHealthy) => this.#setHealth(isHealthy));
    for (const route of parts.settings.routes) this.#lanes.set(route, this.#newLane(route));
  }

  deliverNow(entry: SpoolEntry): void {
    const { head, body, ...meta } = entry;
    const size = head.length + body.length;
    const addresses = entry.recipients.length === 1 ? entry.recipients : [...new Set(entry.recipients)];
    if (this.#isDraining || this.#inHand >= highWater || this.#recipientsInHand >= highWaterRecipients) {
      this.#release(meta.id, addresses);
      return;
    }
    const claimUntil = entry.acceptedAt + leaseMilliseconds;
    const job = newJob({ entry: meta, size, recipientCount: addresses.length, isClaimed: false, claimUntil });
    if (this.#freshBudget.tryReserve(size)) {
      job.room = this.#freshBudget;
      job.content = { head, body };
    }
    this.#take(
      job,
      addresses.map((address) => ({ address, attempts: 0 })),
    );
  }

  async start(): Promise<number> {
    const queued = await this.#parts.spool.recover();
    if (queued > 0) this.#parts.log.info({ queued }, 'resuming delivery');
    this.#timer = setInterval(() => this.#poll(), pollInterval);
    this.#poll();
    return queued;
  }

  async drain(deadline: number): Promise<void> {
    this.#isDraining = true;
    clearInterval(this.#timer);
    await this.#polling;
    const lanes = [...this.#lanes.values()];
    for (const lane of lanes) lane.stop();
    const abort = (): void => {
      for (const lane of lanes) lane.abort();
    };
    const patience = setTimeout(abort, Math.max(0, deadline - this.#parts.clock.now()));
    if (this.#inHand > 0) {
      await new Promise<void>((resolve) => {
        this.#onEmpty = resolve;
      });
    }
    clearTimeout(patience);
    await this.#outcomes.settle();
    await Promise.all(this.#releases);
  }

  metrics(): DeliveryMetrics {
    const lanes = [...this.#lanes.values()];
    return {
      ...this.#counters,
      inHand: this.#inHand,
      active: lanes.reduce((sum, lane) => sum + lane.active, 0),
      connections: lanes.reduce((sum, lane) => sum + lane.connections, 0),
      contentBytes: this.#budgets.reduce((sum, budget) => sum + budget.used, 0),
      unrecorded: this.#outcomes.unwritten,
    };
  }

  finish(task: Task, results: readonly RecipientResult[], host: string): void {
    const { entry } = task.job;
    const route = this.#routeName(task);
    const now = this.#parts.clock.now();
    for (const [index, { address, attempts }] of task.recipients.entries()) {
      const result = results[index];
      if (!result) continue;
      const settled = settleOutcome(result, this.#parts.settings.retry, {
        host,
        attempts: attempts + 1,
        now,
        acceptedAt: entry.acceptedAt,
        expiresAt: entry.expiresAt,
        random: this.#random(),
      });
      this.#outcomes.write({ id: entry.id, recipient: address, ...settled });
      this.#counters[settled.outcome.kind] += 1;
      this.#tell({ entry, recipient: address, route, attempts: attempts + 1, ...settled }, now);
    }
    this.#close(task);
  }

  giveBack(task: Task): void {
    this.#release(
      task.job.entry.id,
      task.recipients.map((recipient) => recipient.address),
    );
    this.#close(task);
  }

  #routeName({ job, recipients: [first] }: Task): string {
    const recipient = first?.address ?? '';
    return routeFor(this.#parts.settings.routes, { account: job.entry.account, recipient }).name;
  }

  #newBudget(octets: number): ContentBudget {
    const budget = new ContentBudget(octets);
    this.#budgets.push(budget);
    return budget;
  }

  #newLane(route: Route): Lane {
    const { clock, log, settings } = this.#parts;
    // A budget of its own for each route: a slow one does not keep the others from reading what they are to send.
    const budget = this.#newBudget(loadedBytes);
    const host: TaskHost = {
      load: (task) => this.#load(task, budget, route),
      isStale: (task) => task.job.claimUntil - clock.now() < this.#timeouts.transaction,
      giveBack: (task) => this.giveBack(task),
    };
    const queue = new TaskQueue(host);
    if (route.type === 'capture') return new CaptureLane(route, queue, this);
    const client = { ...route, hostname: settings.hostname, timeouts: this.#timeouts };
    return new SmarthostLane({ route, client, queue, events: this, clock, log });
  }

  /** Gives a message's recipients to their routes. */
  #take(job: Job, due: readonly DueRecipient[]): void {
    const byLane = new Map<Lane, DueRecipient[]>();
    for (const recipient of due) {
      const route = routeFor(this.#parts.settings.routes, { account: job.entry.account, recipient: recipient.address });
      const lane = this.#lanes.get(route);
      if (!lane) continue;
      const others = byLane.get(lane);
      if (others) others.push(recipient);
      else byLane.set(lane, [recipient]);
    }
    const tasks: [Lane, Task][] = [];
    for (const [lane, recipients] of byLane) {
      for (let start = 0; start < recipients.length; start += lane.recipientsPerTask) {
        const part = recipients.slice(start, start + lane.recipientsPerTask);
        tasks.push([lane, { job, recipients: part, deadConnections: 0 }]);
      }
    }
    this.#inHand += 1;
    this.#recipientsInHand += job.recipientCount;
    if (job.isClaimed) this.#claimed += 1;
    // All are counted before the first is begun: it may end at once.
    job.openTasks = tasks.length;
    for (const [lane, task] of tasks) lane.push(task);
  }

  #load(task: Task, budget: ContentBudget, route: Route): false | Promise<boolean> {
    const { job } = task;
    if (!job.content && !job.loading) {
      if (!budget.tryReserve(job.size)) return false;
      job.room = budget;
      job.loading = this.#loadContent(job);
    }
    return this.#loaded(task, route);
  }

  async #loadContent(job: Job): Promise<boolean> {
    const content = await this.#parts.spool.load(job.entry.id);
    job.content = content;
    return content !== undefined;
  }

  async #loaded(task: Task, route: Route): Promise<boolean> {
    const { job } = task;
    try {
      if (job.content || (await job.loading)) return true;
      // Dropped by a command beside the server (D94).
      this.#close(task);
      return false;
    } catch (thrown) {
      this.#parts.log.error({ id: job.entry.id, err: thrown }, 'Cannot read a message from the spool');
      const reply = { code: 451, enhanced: '4.3.0', text: `Cannot read the message: ${errorMessage(thrown)}` };
      const results = task.recipients.map(() => ({ kind: 'deferred', reply }) as const);
      this.finish(task, results, route.name);
      return false;
    }
  }

  /** A task is at its end, however it came to it. */
  #close({ job }: Task): void {
    job.openTasks -= 1;
    if (job.openTasks > 0) return;
    this.#inHand -= 1;
    this.#recipientsInHand -= job.recipientCount;
    if (job.isClaimed) this.#claimed -= 1;
    job.content = undefined;
    if (job.room) {
      job.room.release(job.size);
      job.room = undefined;
      for (const lane of this.#lanes.values()) lane.queue.fill();
    }
    if (this.#inHand === 0) this.#onEmpty();
    if (this.#mayHaveMore && this.#mayClaim) this.#poll();
  }

  get #mayClaim(): boolean {
    return this.#claimed < lowWater && this.#recipientsInHand < highWaterRecipients;
  }

  #poll(): void {
    if (this.#polling || this.#isDraining || !this.#isHealthy) return;
    this.#polling = this.#claim().finally(() => {
      this.#polling = undefined;
    });
  }

  async #claim(): Promise<void> {
    try {
      do {
        if (!this.#mayClaim) return;
        const now = this.#parts.clock.now();
        const claimUntil = now + leaseMilliseconds;
        const messages = await this.#parts.spool.claimDue({ now, limit: claimLimit, claimUntil });
        this.#mayHaveMore = messages.length === claimLimit;
        for (const { entry, size, due } of messages)
          this.#take(newJob({ entry, size, recipientCount: due.length, isClaimed: true, claimUntil }), due);
      } while (this.#mayHaveMore && !this.#isDraining);
    } catch (thrown) {
      this.#mayHaveMore = false;
      this.#parts.log.error({ err: thrown }, 'Cannot ask the spool for due messages');
    }
  }

  #release(id: string, recipients: readonly string[]): void {
    const releasing = this.#parts.spool.release(id, recipients).catch((error: unknown) => {
      // Its claim runs out by itself, or is taken over at the next start.
      this.#parts.log.error({ id, err: error }, 'Cannot give a message back to the spool');
    });
    this.#releases.add(releasing);
    void releasing.then(() => this.#releases.delete(releasing));
  }

  /** Without a spool that records outcomes nothing is begun: everything sent now would be sent again. */
  #setHealth(isHealthy: boolean): void {
    if (this.#isHealthy === isHealthy) return;
    this.#isHealthy = isHealthy;
    for (const lane of this.#lanes.values()) lane.queue.hold(!isHealthy);
  }

  #tell(event: OutcomeEvent, now: number): void {
    logOutcome(this.#parts.log, event, now);
    try {
      this.#parts.onOutcome?.(event);
    } catch (thrown) {
      // A listener's fault is not delivery's: the outcome is recorded all the same.
      this.#parts.log.error({ id: event.entry.id, err: thrown }, 'A listener for outcomes failed');
    }
  }
}
