// The connections to one next hop: each gets the next task as soon as it can take one. While a next hop is down it is not
// tried for each message: for a while all messages are deferred with its last reply.

import type { MonotonicClock } from '../base/clock.ts';
import { errorMessage } from '../base/errors.ts';
import type { Logger } from '../base/log.ts';
import type { SmtpReply } from '../mail/smtp-reply.ts';
import { AccountTurns } from './hop/account-turns.ts';
import type { ConnectionBudget, ConnectionHolder, HopRoom } from './hop/connection-budget.ts';
import { HopAllowance } from './hop/hop-allowance.ts';
import type { HopHealth, HopLimits } from './hop/hop-health.ts';
import type { HopShares } from './hop/hop-share.ts';
import { isTooMany } from './hop/throttling.ts';
import { outgoingMail, splitTask, type Task } from './job.ts';
import type { NextHop } from './next-hop.ts';
import { SmtpConnection, type TransactionEnd } from './smtp/smtp-client.ts';
import type { TaskQueue } from './task-queue.ts';
import type { TransportEvents } from './transport.ts';

/** A next hop counts as down after this many connections in a row that ended before they served a message. */
const barrenConnections = 3;

/** A next hop with fewer connections keeps none for others. */
const fewConnections = 4;

/** Messages over the only connection of a next hop, before it makes room for one that has none. */
const messagesOfTurn = 20;

/** A message is deferred only after this many idle connections in a row turned out to be dead. */
const deadConnectionsAllowed = 3;

/** What a pool is made from. */
export interface HopPoolParts {
  readonly hop: NextHop;
  /** The route that leads to the next hop. */
  readonly route: { readonly name: string; readonly platformSignature: boolean };
  readonly limits: HopLimits;
  /** Bounds the connections of all pools. */
  readonly budget: ConnectionBudget;
  /** The part of the limits that this process has. */
  readonly shares: HopShares;
  readonly queue: TaskQueue;
  readonly events: TransportEvents;
  readonly clock: MonotonicClock;
  readonly log: Logger;
}

/** The connections to one next hop, and the tasks that wait for it. */
export class HopPool implements ConnectionHolder {
  /** Where connections are opened to. It is set anew whenever the next hop is found again. */
  hop: NextHop;
  readonly queue: TaskQueue;
  readonly #parts: HopPoolParts;
  readonly #events: TransportEvents;
  readonly #log: Logger;
  /** What the next hop is given. */
  readonly health: HopHealth;
  readonly #allowance: HopAllowance;
  readonly #turns: AccountTurns;
  /** The open connections, and how many messages each was given. */
  readonly #connections = new Map<SmtpConnection, { readonly place: HopRoom; given: number }>();
  readonly #idle = new Set<SmtpConnection>();
  readonly #opener = new AbortController();
  /** The recipient domain of the task that came last; a connection is opened for it. */
  #domain = '';
  #opening = 0;
  #active = 0;
  #barren = 0;
  #alarm: NodeJS.Timeout | undefined;
  #stopped = false;

  constructor(parts: HopPoolParts) {
    this.hop = parts.hop;
    this.queue = parts.queue;
    this.#parts = parts;
    this.#events = parts.events;
    this.#log = parts.log;
    this.#allowance = new HopAllowance(parts, {
      hop: `${parts.route.name} ${parts.hop.key}`,
      open: () => this.#connections.size + this.#opening,
      isUnused: () => this.isUnused,
      changed: () => this.wake(),
    });
    this.health = this.#allowance.health;
    this.#turns = new AccountTurns(parts.clock);
    this.queue.onReady = () => this.#pump();
  }

  /** Attempts under way. */
  get active(): number {
    return this.#active;
  }

  /** Open connections. */
  get connections(): number {
    return this.#connections.size;
  }

  /** Nothing waits and no connection is open. */
  get isUnused(): boolean {
    return this.queue.length === 0 && this.#connections.size === 0 && this.#opening === 0;
  }

  /** The next hop has other limits from now on. */
  limit(limits: HopLimits): void {
    this.#allowance.limit(limits);
  }

  /** @param domain the recipients' domain, as the connection for the task wants it */
  push(task: Task, domain: string): void {
    this.#domain = domain;
    this.queue.push(task);
    this.#allowance.share.want();
    this.#pump();
  }

  /** Begins nothing more; attempts under way go on to their end. */
  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#alarm);
    this.#opener.abort();
    this.#parts.budget.forget(this);
    this.#allowance.share.end();
    this.queue.stop();
    for (const connection of this.#connections.keys()) connection.quit();
  }

  /** Breaks off attempts under way; their messages are deferred. */
  abort(): void {
    this.stop();
    const reply = { code: 451, enhanced: '4.3.2', text: 'Postern is shutting down' };
    for (const connection of this.#connections.keys()) connection.destroy(reply);
  }

  /** Other processes have all that the next hop may be given. */
  get isElsewhere(): boolean {
    return this.#allowance.share.isNone;
  }

  /** No connection is open, and it is too early to try again. */
  get isDown(): boolean {
    return this.#connections.size === 0 && this.#opening === 0 && this.health.isFailing && this.health.opensIn > 0;
  }

  closeIdle(): boolean {
    const [connection] = this.#idle;
    if (!connection) return false;
    this.#idle.delete(connection);
    if (this.#idle.size > 0) this.#parts.budget.isIdle(this);
    connection.quit();
    return true;
  }

  wake(): void {
    setImmediate(() => this.#pump());
  }

  #pump(): void {
    if (this.#stopped) return;
    // Those that have a share of it take the mail.
    if (this.#allowance.share.isNone) this.queue.giveBackWhere(() => true);
    if (this.isDown) {
      for (const task of this.queue.takeAll()) this.#unreached(task);
      return;
    }
    if (this.queue.ready === 0) return;
    const { waitMs } = this.#allowance;
    if (waitMs > 0) {
      this.#wakeIn(waitMs);
      return;
    }
    // A copy, because a connection that gets nothing is put back.
    for (const connection of [...this.#idle]) {
      if (this.queue.ready === 0) return;
      this.#idle.delete(connection);
      this.#feed(connection);
    }
    while (this.#opening < this.queue.ready && this.#mayOpen()) {
      const place = this.#parts.budget.tryTake(this, this.queue.accounts());
      if (!place) return;
      void this.#open(place);
    }
  }

  #mayOpen(): boolean {
    // The connection that is kept for others is opened when one of them comes.
    const isKept = this.#isKeeping && !this.queue.hasFor((account) => !this.#turns.isActive(account));
    const most = this.health.connections - (isKept ? 1 : 0);
    return this.#connections.size + this.#opening < most && this.health.opensIn === 0;
  }

  /** One connection of several is kept for accounts with nothing under way, where accounts share the next hop. */
  get #isKeeping(): boolean {
    return this.health.connections >= fewConnections && this.#turns.isShared;
  }

  /** Takes the next task for a connection; for the last one only of accounts with nothing under way. */
  #pull(): Task | undefined {
    const othersBusy = this.#connections.size - this.#idle.size - 1;
    const isLast = this.#isKeeping && othersBusy >= this.health.connections - 1;
    return this.queue.pull(isLast ? (account) => !this.#turns.isActive(account) : undefined);
  }

  /** Begins again after a while; of several times the first counts. */
  #wakeIn(ms: number): void {
    this.#alarm ??= setTimeout(() => {
      this.#alarm = undefined;
      this.#pump();
    }, Math.ceil(ms)).unref();
  }

  #feed(connection: SmtpConnection): void {
    while (connection.isVacant && !this.#stopped) {
      const open = this.#connections.get(connection);
      if (!open || open.given >= this.#mostGiven(open.place)) {
        connection.quit();
        return;
      }
      const waitMs = this.queue.ready > 0 ? this.#allowance.waitMs : this.health.pausedFor;
      const task = waitMs > 0 ? undefined : this.#pull();
      if (!task) {
        if (waitMs > 0) this.#wakeIn(waitMs);
        if (connection.isIdle || waitMs > 0) this.#rest(connection);
        return;
      }
      this.#allowance.begin();
      this.#active += 1;
      this.#turns.begin(task.job.entry.account);
      open.given += 1;
      // The task was begun behind another: if the next hop closes after that one, it does not count against this task.
      const deadConnections = connection.isIdle ? task.deadConnections + 1 : task.deadConnections;
      connection.begin(outgoingMail(task, this.#parts.route), (end) => {
        if (this.health.isFailing && connection.served > 0) this.#isUp();
        this.#ended({ ...task, deadConnections }, end, connection);
      });
    }
  }

  /** How many messages a connection may have been given before it is closed instead of getting another. */
  #mostGiven(place: HopRoom): number {
    const isSurplus = this.#connections.size > this.health.connections;
    if (isSurplus) return 1;
    // Others wait for room: a next hop with several connections gives one away, and one with a single one after its turn.
    if (place.isWanted) return this.#connections.size > 1 ? 1 : messagesOfTurn;
    return this.health.limits.messagesPerConnection;
  }

  /** The connection has nothing to do until the next task is ready. */
  #rest(connection: SmtpConnection): void {
    this.#idle.add(connection);
    this.#parts.budget.isIdle(this);
  }

  /** The next hop serves again, so the other connections may be opened. */
  #isUp(): void {
    this.health.served();
    this.#barren = 0;
    setImmediate(() => this.#pump());
  }

  #ended(task: Task, end: TransactionEnd, { peer, session: { tls } }: SmtpConnection): void {
    this.#active -= 1;
    this.#turns.end(task.job.entry.account);
    if (!end.untouched) this.#judge(end);
    if (end.untouched && this.#stopped) {
      this.#events.giveBack(task);
      return;
    }
    if (end.untouched && task.deadConnections <= deadConnectionsAllowed) {
      this.queue.push(task);
      return;
    }
    const host = `${this.#parts.route.name} (${peer})`;
    const isProgress = end.results.some((result) => result.kind === 'delivered');
    if (!isProgress || this.#stopped || !end.results.some(isTooMany)) {
      this.#events.finish(task, end.results, host, tls);
      return;
    }
    const isAgain = end.results.map(isTooMany);
    const { done, rest } = splitTask(task, isAgain);
    task.job.openTasks += 1;
    this.queue.push(rest);
    const results = end.results.filter((_, index) => !isAgain[index]);
    this.#events.finish(done, results, host, tls);
  }

  /** Looks whether the next hop asks for less. */
  #judge({ results }: TransactionEnd): void {
    const trouble = this.health.ended(results);
    if (!trouble) return;
    const { route } = this.#parts;
    this.#events.troubled(route.name, trouble);
    const { connections, pausedFor, lastWords } = this.health;
    this.#log.warn(
      { route: route.name, host: this.hop.label, reply: lastWords?.text, trouble, connections, delayMs: pausedFor },
      'next hop is given less',
    );
  }

  #unreached(task: Task): void {
    const reply = this.health.lastWords ?? { code: 451, enhanced: '4.4.1', text: 'The next hop is down' };
    this.#events.unreached(task, { reply, host: this.hop.label, retryInMs: this.health.opensIn });
  }

  async #open(place: HopRoom): Promise<void> {
    this.#opening += 1;
    const result = await this.#connect();
    this.#opening -= 1;
    if (!(result instanceof SmtpConnection)) {
      if (!this.#stopped) this.#backOff(result);
      place.release();
    } else if (this.#stopped) {
      result.onClosed = () => place.release();
      result.quit();
    } else {
      // A next hop that accepts connections and drops them is still down.
      this.health.opened(this.#barren > 0);
      this.#connections.set(result, { place, given: 0 });
      result.onVacant = () => this.#feed(result);
      result.onClosed = () => this.#closed(result);
      this.#feed(result);
    }
    this.#pump();
  }

  async #connect(): Promise<SmtpConnection | SmtpReply> {
    try {
      return await this.hop.connect({ domain: this.#domain, signal: this.#opener.signal });
    } catch (thrown) {
      this.#log.error({ route: this.#parts.route.name, err: thrown }, 'Cannot connect');
      return { code: 451, enhanced: '4.3.0', text: errorMessage(thrown) };
    }
  }

  #closed(connection: SmtpConnection): void {
    this.#connections.get(connection)?.place.release();
    this.#connections.delete(connection);
    this.#idle.delete(connection);
    this.#barren = connection.served === 0 && connection.closedBy ? this.#barren + 1 : 0;
    if (this.#barren >= barrenConnections && !this.#stopped && connection.closedBy) this.#backOff(connection.closedBy);
    // Deferred until the current code has finished: a connection may close while it is being fed.
    setImmediate(() => this.#pump());
  }

  #backOff(reply: SmtpReply): void {
    const delayMs = this.health.refused(reply);
    if (delayMs === 0) return;
    const { route } = this.#parts;
    this.#events.troubled(route.name, 'down');
    this.#log.warn({ route: route.name, host: this.hop.label, reply: reply.text, delayMs }, 'next hop is down');
  }
}
