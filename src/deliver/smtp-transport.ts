// A route by SMTP at work: finds the next hop of each task, and keeps a pool of connections for each next hop.

import type { MonotonicClock } from '../base/clock.ts';
import { errorMessage } from '../base/errors.ts';
import type { Logger } from '../base/log.ts';
import { splitMailbox } from '../mail/address/domain.ts';
import { HopPool } from './hop-pool.ts';
import type { Task } from './job.ts';
import type { MessageTls } from './mx/tls-demand.ts';
import type { NextHop, NextHops } from './next-hop.ts';
import type { MxRoute, SmarthostRoute } from './settings.ts';
import type { RecipientResult } from './smtp/smtp-client.ts';
import { type TaskHost, TaskQueue } from './task-queue.ts';
import type { Transport, TransportEvents } from './transport.ts';

/** What the transport is made from. */
export interface SmtpTransportParts {
  readonly route: SmarthostRoute | MxRoute;
  readonly hops: NextHops;
  readonly host: TaskHost;
  readonly events: TransportEvents;
  readonly clock: MonotonicClock;
  readonly log: Logger;
}

function domainOf(address: string): string {
  return splitMailbox(address).domain?.toLowerCase() ?? '';
}

function messageTls({ job: { entry } }: Task): MessageTls | undefined {
  if (entry.requireTls) return 'required';
  return entry.tlsOptional ? 'no' : undefined;
}

/** A route by SMTP at work. */
export class SmtpTransport implements Transport {
  readonly route: SmarthostRoute | MxRoute;
  /** RFC 5321 §4.5.3.1.8: every server takes 100 recipients. */
  readonly recipientsPerTask = 100;
  readonly #parts: SmtpTransportParts;
  readonly #pools = new Map<string, HopPool>();
  /** Pools whose next message found no room in memory, in the order in which they get it. */
  readonly #hungry = new Set<HopPool>();
  /** Tasks whose next hop is being looked for. */
  readonly #seeking = new Set<Task>();
  #isHeld = false;
  #isStopped = false;

  constructor(parts: SmtpTransportParts) {
    this.route = parts.route;
    this.#parts = parts;
  }

  get active(): number {
    return this.#sum(({ active }) => active);
  }

  get connections(): number {
    return this.#sum(({ connections }) => connections);
  }

  /** Only a route with one next hop can be down as a whole: where there are several, others may wait for those that work. */
  get isDown(): boolean {
    if (this.route.type !== 'smarthost') return false;
    const [only] = this.#pools.values();
    return this.#pools.size === 1 && only !== undefined && only.isDown;
  }

  push(task: Task): void {
    const parts = this.#partsOf(task);
    // All are counted before the first begins, since a task may end at once.
    task.job.openTasks += parts.length - 1;
    for (const part of parts) {
      this.#seeking.add(part);
      void this.#seek(part);
    }
  }

  /** A task for each domain that may have a next hop of its own; to a smarthost recipients of all domains go together. */
  #partsOf(task: Task): readonly Task[] {
    if (this.route.type !== 'mx' || task.recipients.length === 1) return [task];
    const byDomain = Map.groupBy(task.recipients, ({ address }) => domainOf(address));
    return [...byDomain.values()].map((recipients) => ({ ...task, recipients }));
  }

  fill(): void {
    for (const pool of [...this.#hungry]) {
      this.#hungry.delete(pool);
      pool.queue.fill();
      // The room was not enough for this one, and it is in the set again.
      if (this.#hungry.has(pool)) return;
    }
  }

  hold(isHeld: boolean): void {
    this.#isHeld = isHeld;
    for (const pool of this.#pools.values()) pool.queue.hold(isHeld);
  }

  stop(): void {
    this.#isStopped = true;
    const unsought = [...this.#seeking];
    this.#seeking.clear();
    for (const task of unsought) this.#parts.events.giveBack(task);
    for (const pool of this.#pools.values()) pool.stop();
  }

  abort(): void {
    this.stop();
    for (const pool of this.#pools.values()) pool.abort();
  }

  #sum(read: (pool: HopPool) => number): number {
    let total = 0;
    for (const pool of this.#pools.values()) total += read(pool);
    return total;
  }

  async #seek(task: Task): Promise<void> {
    const domain = domainOf(task.recipients[0]?.address ?? '');
    const found = await this.#find(domain, messageTls(task));
    // A transport that was stopped meanwhile has given the task back.
    if (!this.#seeking.delete(task)) return;
    if ('kind' in found) {
      this.#parts.events.finish(
        task,
        task.recipients.map(() => found),
        this.route.name,
      );
    } else this.#poolOf(found).push(task, domain);
  }

  async #find(domain: string, tls: MessageTls | undefined): Promise<NextHop | RecipientResult> {
    try {
      return await this.#parts.hops.find(domain, tls);
    } catch (thrown) {
      this.#parts.log.error({ route: this.route.name, domain, err: thrown }, 'Cannot find the next hop');
      return { kind: 'deferred', reply: { code: 451, enhanced: '4.3.0', text: errorMessage(thrown) } };
    }
  }

  #poolOf(hop: NextHop): HopPool {
    const known = this.#pools.get(hop.key);
    if (known) {
      known.hop = hop;
      return known;
    }
    for (const [key, pool] of this.#pools) if (pool.isUnused) this.#pools.delete(key);
    const { route, events, clock, log, host } = this.#parts;
    const queue = new TaskQueue({
      ...host,
      load: (task) => {
        const loading = host.load(task);
        if (loading === false) this.#hungry.add(pool);
        return loading;
      },
    });
    const pool = new HopPool({ hop, route, connections: route.connections, queue, events, clock, log });
    if (this.#isHeld) queue.hold(true);
    if (this.#isStopped) pool.stop();
    this.#pools.set(hop.key, pool);
    return pool;
  }
}
