// A route by SMTP at work: finds the next hop of each task, and keeps a pool of connections for each next hop.

import { Counts } from '../base/counts.ts';
import { errorMessage } from '../base/errors.ts';
import { Part } from '../base/part.ts';
import { RecentMap } from '../base/recent-map.ts';
import { splitMailbox } from '../mail/address/domain.ts';
import { type HopLimits, strictest } from './hop/hop-health.ts';
import { HopPool, type HopPoolParts } from './hop-pool.ts';
import type { Task } from './job.ts';
import type { MessageTls } from './mx/tls-demand.ts';
import type { MxRoute, SmarthostRoute } from './settings.ts';
import type { NextHop, RecipientResult } from './smtp/smtp-client.ts';
import { type TaskHost, TaskQueue } from './task-queue.ts';
import type { DestinationView, HopAdmission, NextHops, Transport } from './transport.ts';

/** Domains whose next hop is remembered, and next hops that are kept while nothing is done for them, at most. */
const mostKnown = 20_000;
/** Next hops of a route before those that are not needed are forgotten. */
const fewPools = 1000;
/** Messages for a domain that are in hand while its next hop is not known. */
const firstMessages = 8;
/** How long the claim of the message may take that a next hop is tried with, in milliseconds. */
const probeMs = 1000;
/** How long a next hop that has its share in hand is left out of the claims, in milliseconds. */
const crowdedMs = 250;

/** What the transport is made from, with the pools of its next hops. */
interface SmtpTransportParts extends HopPoolParts {
  readonly route: SmarthostRoute | MxRoute;
  readonly hops: NextHops;
  /** The limits that a recipient domain brings to its next hop; undefined: none of its own. */
  readonly limitsOf: (domain: string) => HopLimits | undefined;
  /** How many more messages may be claimed for the route now, over all its next hops. */
  readonly room: () => number;
  readonly host: TaskHost;
}

function domainOf(address: string): string {
  return splitMailbox(address).domain?.toLowerCase() ?? '';
}

/** The domain that a task's next hop is looked for by. */
function domainOfTask({ recipients }: Task): string {
  return domainOf(recipients[0]?.address ?? '');
}

function messageTls({ job: { entry } }: Task): MessageTls | undefined {
  if (entry.requireTls) return 'required';
  return entry.tlsOptional ? 'no' : undefined;
}

/** A route by SMTP at work. */
export class SmtpTransport extends Part<SmtpTransportParts> implements Transport {
  readonly route: SmarthostRoute | MxRoute = this.parts.route;
  /** RFC 5321 §4.5.3.1.8: every server takes 100 recipients. */
  readonly recipientsPerTask = 100;
  readonly #pools = new Map<string, HopPool>();
  /** Pools whose next message found no room in memory, in the order in which they get it. */
  readonly #hungry = new Set<HopPool>();
  /** Tasks whose next hop is being looked for, and how many they are by domain. */
  readonly #seeking = new Set<Task>();
  readonly #sought = new Counts();
  /** The key of each domain's next hop, those found last at the end. */
  readonly #keys = new RecentMap<string, string>(mostKnown);
  /** The limits that domains have brought to their next hop: the strictest of them count. */
  readonly #limits = new WeakMap<HopPool, HopLimits>();
  /** When a message was last claimed to try a next hop with that was down. */
  readonly #probedAt = new WeakMap<HopPool, number>();
  #pruneAt = fewPools;
  #isPaused = false;
  #isStopped = false;

  get active(): number {
    return this.#sum(({ active }) => active);
  }

  get connections(): number {
    return this.#sum(({ connections }) => connections);
  }

  /** One next hop may have as many messages in hand as the others leave free, so that none takes the room of all. */
  admits(domain: string | undefined): HopAdmission {
    const pool = domain === undefined ? this.#onlyPool() : this.#poolOfDomain(domain);
    const sought = this.#sought.of(domain ?? '');
    if (!pool) return domain === undefined ? unlimited : this.#admitsFirst(sought);
    if (pool.allowance.share.isNone) return { messages: 0, isElsewhere: true };
    const { isDown, startsIn: waitMs } = pool;
    if (waitMs > 0) return { messages: 0, waitMs, isDown };
    if (pool.allowance.isDown) return this.#mayProbe(pool) ? { messages: 1 } : crowded;
    if (domain === undefined) return unlimited;
    const messages = this.parts.room() - pool.queue.length - pool.active - sought;
    return messages > 0 ? { messages } : crowded;
  }

  /** While a next hop is being looked for, few messages wait for that; and all who look leave as much room as they take. */
  #admitsFirst(sought: number): HopAdmission {
    const messages = Math.min(firstMessages - sought, this.parts.room() - this.#seeking.size);
    return messages > 0 ? { messages } : crowded;
  }

  giveBackWhere(isUnwanted: (task: Task) => boolean): void {
    for (const task of [...this.#seeking]) {
      if (!isUnwanted(task)) continue;
      this.#endSearch(task);
      this.parts.events.giveBack(task);
    }
    for (const pool of this.#pools.values()) pool.queue.giveBackWhere(isUnwanted);
  }

  destinations(): readonly DestinationView[] {
    // Of a smarthost no keys of domains are kept.
    const keys = Map.groupBy(this.#keys, ([, key]) => key);
    return [...this.#pools.values()].map((pool) => {
      const domains = (keys.get(pool.hop.key) ?? []).map(([domain]) => domain);
      return { ...viewOf(pool), route: this.route.name, domains };
    });
  }

  push(task: Task): void {
    const parts = this.#partsOf(task);
    // All are counted before the first begins, since a task may end at once.
    task.job.openTasks += parts.length - 1;
    for (const part of parts) void this.#seek(part);
  }

  /** A task for each domain that may have a next hop of its own; to a smarthost recipients of all domains go together. */
  #partsOf(task: Task): readonly Task[] {
    if (this.#isSingle || task.recipients.length === 1) return [task];
    const byDomain = Map.groupBy(task.recipients, ({ address }) => domainOf(address));
    return [...byDomain.values()].map((recipients) => ({ ...task, recipients }));
  }

  fill(): void {
    for (const pool of [...this.#hungry]) {
      this.#hungry.delete(pool);
      // Where the room is not enough for this one, it is in the set again. There may be room for another account's message.
      pool.queue.fill();
    }
  }

  pause(isPaused: boolean): void {
    this.#isPaused = isPaused;
    for (const pool of this.#pools.values()) pool.queue.pause(isPaused);
  }

  stop(): void {
    this.#isStopped = true;
    const unsought = [...this.#seeking];
    this.#seeking.clear();
    this.#sought.clear();
    for (const task of unsought) this.parts.events.giveBack(task);
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
    const domain = domainOfTask(task);
    const tls = messageTls(task);
    this.#seeking.add(task);
    this.#sought.add(domain);
    const found = await this.#find(domain, tls, task.job.entry.account);
    // It may have been given back meanwhile.
    if (!this.#endSearch(task)) return;
    if ('kind' in found) {
      const results = task.recipients.map(() => found);
      this.parts.events.finish(task, results, this.route.name);
    } else {
      const pool = this.#poolOf(found);
      // What others wait for is the next hop of mail that says nothing of TLS.
      if (tls === undefined) this.#remember(domain, pool);
      pool.push(task, domain);
    }
  }

  /** Ends the search for a task's next hop. @returns false where it has ended before */
  #endSearch(task: Task): boolean {
    if (!this.#seeking.delete(task)) return false;
    this.#sought.add(domainOfTask(task), -1);
    return true;
  }

  async #find(domain: string, tls: MessageTls | undefined, account: string): Promise<NextHop | RecipientResult> {
    try {
      return await this.parts.hops.find(domain, tls, account);
    } catch (thrown) {
      this.parts.log.error({ route: this.route.name, domain, err: thrown }, 'Cannot find the next hop');
      return { kind: 'deferred', reply: { code: 451, enhanced: '4.3.0', text: errorMessage(thrown) } };
    }
  }

  /** A next hop that was down is tried with one message, whoever and however many wait for it. */
  #mayProbe(pool: HopPool): boolean {
    const now = this.parts.clock.monotonic();
    const isDone = pool.queue.length + pool.active === 0 && now >= (this.#probedAt.get(pool) ?? now) + probeMs;
    if (this.#probedAt.has(pool) && !isDone) return false;
    this.#probedAt.set(pool, now);
    return true;
  }

  /** All mail goes to one next hop, whatever the domain. */
  get #isSingle(): boolean {
    return this.route.type === 'smarthost';
  }

  #onlyPool(): HopPool | undefined {
    const [only] = this.#pools.values();
    return this.#isSingle ? only : undefined;
  }

  #poolOfDomain(domain: string): HopPool | undefined {
    const key = this.#keys.get(domain);
    return key === undefined ? undefined : this.#pools.get(key);
  }

  #remember(domain: string, pool: HopPool): void {
    if (this.#isSingle) return;
    const { key } = pool.hop;
    const isNew = this.#keys.get(domain) !== key;
    this.#keys.set(domain, key);
    const limits = isNew ? this.parts.limitsOf(domain) : undefined;
    if (!limits) return;
    const others = this.#limits.get(pool);
    const counting = others ? strictest(others, limits) : limits;
    this.#limits.set(pool, counting);
    pool.limit(counting);
  }

  #poolOf(hop: NextHop): HopPool {
    const known = this.#pools.get(hop.key);
    if (known) {
      known.hop = hop;
      return known;
    }
    this.#prune();
    const pool = this.#newPool(hop);
    this.#pools.set(hop.key, pool);
    return pool;
  }

  /** Forgets next hops that nothing is done for; one in trouble is kept, as long as there are not too many. */
  #prune(): void {
    if (this.#pools.size < this.#pruneAt) return;
    for (const [key, pool] of this.#pools) {
      if (pool.isUnused && (!pool.allowance.trouble || this.#pools.size > mostKnown)) {
        pool.stop();
        this.#pools.delete(key);
      }
    }
    this.#pruneAt = Math.max(fewPools, 2 * this.#pools.size);
  }

  #newPool(hop: NextHop): HopPool {
    const { host } = this.parts;
    const queue = new TaskQueue({
      ...host,
      load: (task) => {
        const loading = host.load(task);
        if (loading === false) this.#hungry.add(pool);
        return loading;
      },
    });
    const pool = new HopPool(hop, queue, this.parts);
    if (this.#isPaused) queue.pause(true);
    if (this.#isStopped) pool.stop();
    return pool;
  }
}

/** A next hop as the queue commands show it. */
function viewOf(pool: HopPool): Omit<DestinationView, 'route' | 'domains'> {
  const { hop, queue, connections, active, waits, startsIn: waitMs } = pool;
  const { trouble, lastWords, limits, connections: allowed } = pool.allowance;
  return {
    ...{ key: hop.key, label: hop.label, allowed, waitMs, most: limits.connections, connections },
    ...{ waiting: queue.length, active },
    ...(trouble ? { trouble } : {}),
    ...(waits ? { waits } : {}),
    ...(lastWords ? { lastWords } : {}),
  };
}

const unlimited: HopAdmission = { messages: Number.POSITIVE_INFINITY };
/** The next hop has its share in hand. */
const crowded: HopAdmission = { messages: 0, waitMs: crowdedMs, isDown: false };
