// The connections to one next hop: each gets the next task as soon as it can take one. While a next hop is down, all messages
// are deferred with its last reply. What waits here waits for what comes by itself (a connection ends), or for the alarm.

import type { MonotonicClock } from '../base/clock.ts';
import { errorMessage } from '../base/errors.ts';
import type { Logger } from '../base/log.ts';
import type { SmtpReply } from '../mail/smtp-reply.ts';
import type { ConnectionBudget, ConnectionHolder, HopRoom } from './hop/connection-budget.ts';
import { createAlarm, createFairTurns, HopAllowance } from './hop/hop-allowance.ts';
import { type HopEvent, type HopLimits, isThrottling, isTooMany } from './hop/hop-health.ts';
import type { HopShares } from './hop/hop-share.ts';
import { outgoingMail, splitTask, type Task } from './job.ts';
import { type HopRefusal, type NextHop, SmtpConnection, type TransactionEnd } from './smtp/smtp-client.ts';
import type { TaskQueue } from './task-queue.ts';
import type { HopWait, TransportEvents } from './transport.ts';

/** A next hop with fewer connections keeps none for others. */
const fewConnections = 4;

/** Messages over the only connection of a next hop, before it makes room for one that has none. */
const messagesOfTurn = 20;

/** A message is deferred only after this many idle connections in a row turned out to be dead. */
const deadConnectionsAllowed = 3;

/** What the pools of a route are made from. */
export interface HopPoolParts {
  readonly route: { readonly name: string; readonly platformSignature: boolean };
  /** The limits of a next hop whose domains have none of their own. */
  readonly limits: HopLimits;
  readonly budget: ConnectionBudget;
  /** The part of the limits that this process has. */
  readonly shares: HopShares;
  readonly events: TransportEvents;
  readonly clock: MonotonicClock;
  readonly log: Logger;
}

/** The connections to one next hop, and the tasks that wait for it. */
export class HopPool implements ConnectionHolder {
  active = 0;
  /** Where connections are opened to. It is set anew whenever the next hop is found again. */
  hop: NextHop;
  readonly queue: TaskQueue;
  readonly #parts: HopPoolParts;
  /** What the next hop is given. */
  readonly allowance: HopAllowance;
  readonly #turns;
  readonly #alarm;
  /** The open connections, and how many messages each was given. */
  readonly #connections = new Map<SmtpConnection, { readonly place: HopRoom; given: number }>();
  readonly #idle = new Set<SmtpConnection>();
  /** Connections that get no more messages and have not closed yet. */
  readonly #leaving = new Set<SmtpConnection>();
  readonly #opener = new AbortController();
  /** The recipient domain of the task that came last; a connection is opened for it. */
  #domain = '';
  #opening = 0;
  /** No server could be had by TLS when a connection was opened last, and nothing else was wrong. */
  #failsTls = false;
  /** There was no room for a connection of its own among those to all next hops. */
  #isRefusedRoom = false;
  #stopped = false;

  constructor(hop: NextHop, queue: TaskQueue, parts: HopPoolParts) {
    this.hop = hop;
    this.queue = queue;
    this.#parts = parts;
    this.allowance = new HopAllowance(parts, {
      hop: `${parts.route.name} ${hop.key}`,
      open: () => this.#connections.size + this.#opening,
      isUnused: () => this.isUnused,
      changed: () => this.wake(),
    });
    this.#turns = createFairTurns(parts.clock);
    this.#alarm = createAlarm(parts.clock, () => this.#pump());
    this.queue.onReady = () => this.#pump();
  }

  get connections(): number {
    return this.#connections.size;
  }

  /** Nothing waits and no connection is open. */
  get isUnused(): boolean {
    return this.queue.length === 0 && !this.#isReached;
  }

  limit(limits: HopLimits): void {
    this.#tell({ kind: 'limited', limits });
  }

  /** @param domain the recipients' domain, as the connection for the task wants it */
  push(task: Task, domain: string): void {
    this.#domain = domain;
    this.queue.push(task);
    this.allowance.share.want();
    this.#pump();
  }

  /** Begins nothing more; attempts under way go on to their end. */
  stop(): void {
    this.#stopped = true;
    this.#alarm.stop();
    this.#opener.abort();
    this.#parts.budget.forget(this);
    this.allowance.share.end();
    this.queue.stop();
    for (const connection of this.#connections.keys()) connection.quit();
  }

  /** Breaks off attempts under way; their messages are deferred. */
  abort(): void {
    this.stop();
    const reply = { code: 451, enhanced: '4.3.2', text: 'Postern is shutting down' };
    for (const connection of this.#connections.keys()) connection.destroy(reply);
  }

  /** No connection is open, and it is too early to try again. */
  get isDown(): boolean {
    return this.allowance.isDown && !this.#isReached && this.startsIn > 0;
  }

  /** Milliseconds until the next hop's answers let a message begin. */
  get startsIn(): number {
    return this.#isReached ? this.allowance.pausedFor : this.allowance.opensIn;
  }

  /** A connection is open or being opened. */
  get #isReached(): boolean {
    return this.#connections.size + this.#opening > 0;
  }

  /** Why mail waits although the next hop is in no trouble; undefined where it does not, or for a turn alone. */
  get waits(): HopWait | undefined {
    if (this.queue.length === 0) return undefined;
    if (this.queue.isPaused) return 'unrecorded';
    if (this.queue.ready === 0) return this.active === 0 ? 'memory' : undefined;
    if (this.allowance.beginsIn > 0) return 'pace';
    if (this.allowance.share.connections === 0) return 'share';
    return this.#isRefusedRoom ? 'room' : undefined;
  }

  closeIdle(): boolean {
    const [connection] = this.#idle;
    if (!connection) return false;
    this.#idle.delete(connection);
    if (this.#idle.size > 0) this.#parts.budget.isIdle(this);
    this.#leave(connection);
    return true;
  }

  wake(): void {
    setImmediate(() => this.#pump());
  }

  hasRoom(): void {
    setImmediate(() => {
      this.#isRefusedRoom = false;
      this.#pump();
      if (!this.#isRefusedRoom) this.#parts.budget.passOn();
    });
  }

  #pump(): void {
    if (this.#stopped) return;
    // Those that have a share of it take the mail.
    if (this.allowance.share.isNone) this.queue.giveBackWhere(() => true);
    if (this.isDown) {
      const { lastWords, opensIn: retryInMs } = this.allowance;
      const reply = lastWords ?? { code: 451, enhanced: '4.4.1', text: 'The next hop is down' };
      const down = { reply, host: this.hop.label, retryInMs };
      for (const task of this.queue.takeAll()) {
        if (this.#failsTls && task.job.entry.requireTls) this.#refuseClear(task, reply);
        else this.#parts.events.unreached(task, down);
      }
      return;
    }
    if (this.allowance.beginsIn === 0) this.#begin();
    if (this.queue.ready === 0) return;
    this.#alarm.ringIn(this.allowance.beginsIn);
    this.#alarm.ringIn(this.allowance.opensIn);
  }

  /** RFC 8689 §4.2.1: where no server can be had by TLS, such a message is returned. */
  #refuseClear(task: Task, { text }: SmtpReply): void {
    const reply = { code: 550, enhanced: '5.7.30', text: `REQUIRETLS cannot be met: ${text}` };
    const results = task.recipients.map(() => ({ kind: 'failed', reply }) as const);
    this.#parts.events.finish(task, results, this.hop.label);
  }

  #begin(): void {
    this.#isRefusedRoom = false;
    // A copy, because a connection that gets nothing is put back.
    for (const connection of [...this.#idle]) {
      if (this.queue.ready === 0) return;
      this.#feed(connection);
    }
    while (this.#opening < this.queue.ready && this.#mayOpen()) {
      const place = this.#parts.budget.tryTake(this, this.queue.accounts());
      this.#isRefusedRoom = !place;
      if (!place) return;
      void this.#open(place);
    }
  }

  #mayOpen(): boolean {
    // The connection that is kept for others is opened when one of them comes.
    const isKept = this.#isKeeping && !this.queue.hasFor((account) => !this.#turns.isActive(account));
    return this.allowance.mayOpen(this.#connections.size, this.#opening, isKept ? 1 : 0);
  }

  /** One connection of several is kept for accounts with nothing under way, where accounts share the next hop. */
  get #isKeeping(): boolean {
    return this.allowance.connections >= fewConnections && this.#turns.isShared();
  }

  /** Takes the next task for a connection; for the last one only of accounts with nothing under way. */
  #pull(): Task | undefined {
    const othersBusy = this.#connections.size - this.#idle.size - 1;
    const isLast = this.#isKeeping && othersBusy >= this.allowance.connections - 1;
    return this.queue.pull(isLast ? (account) => !this.#turns.isActive(account) : undefined);
  }

  #feed(connection: SmtpConnection): void {
    this.#idle.delete(connection);
    while (connection.isVacant && !this.#stopped) {
      const open = this.#connections.get(connection);
      if (!open || open.given >= this.#mostGiven(open.place)) return this.#leave(connection);
      const waitMs = this.queue.ready > 0 ? this.allowance.beginsIn : this.allowance.pausedFor;
      const task = waitMs > 0 ? undefined : this.#pull();
      if (!task) {
        this.#alarm.ringIn(waitMs);
        if (!connection.isIdle && waitMs === 0) return;
        this.#idle.add(connection);
        return this.#parts.budget.isIdle(this);
      }
      this.allowance.begin();
      this.active += 1;
      this.#turns.begin(task.job.entry.account);
      open.given += 1;
      // The task was begun behind another: if the next hop closes after that one, it does not count against this task.
      const deadConnections = connection.isIdle ? task.deadConnections + 1 : task.deadConnections;
      connection.begin(outgoingMail(task, this.#parts.route), (end) =>
        this.#ended({ ...task, deadConnections }, end, connection),
      );
    }
  }

  #leave(connection: SmtpConnection): void {
    this.#leaving.add(connection);
    connection.quit();
  }

  /** How many messages a connection may have been given before it is closed instead of getting another. */
  #mostGiven(place: HopRoom): number {
    const staying = this.#connections.size - this.#leaving.size;
    if (staying > this.allowance.connections) return 1;
    // Others wait for room: a next hop with several connections gives one away, and one with a single one after its turn.
    if (place.isWanted && this.#leaving.size === 0) return staying > 1 ? 1 : messagesOfTurn;
    return this.allowance.limits.messagesPerConnection;
  }

  #ended(task: Task, end: TransactionEnd, connection: SmtpConnection): void {
    const {
      peer,
      served,
      closedBy,
      session: { tls },
    } = connection;
    this.active -= 1;
    this.#turns.end(task.job.entry.account);
    const open = this.#connections.size - (closedBy ? 1 : 0);
    if (!end.untouched) this.#tell({ kind: 'ended', results: end.results, served, open, opening: this.#opening });
    if (end.untouched && this.#stopped) return this.#parts.events.giveBack(task);
    if (end.untouched && task.deadConnections <= deadConnectionsAllowed) return this.queue.push(task);
    const host = `${this.#parts.route.name} (${peer})`;
    const { done, results, rest } = splitTask(task, end.results, this.#stopped ? () => false : isTooMany);
    if (rest) {
      task.job.openTasks += 1;
      this.queue.push(rest);
    }
    this.#parts.events.finish(done, results, host, tls);
  }

  /** Takes what happened at the next hop, and what follows from it. */
  #tell(event: HopEvent): void {
    const change = this.allowance.tell(event);
    // A connection that was there had its TLS, whatever has ended it.
    if (event.kind === 'closed' || event.kind === 'ended') this.#failsTls = false;
    if (change === 'more') this.wake();
    const { trouble, connections, opensIn, lastWords } = this.allowance;
    if (change !== 'less' || !trouble || this.#stopped) return;
    const { route, events, log } = this.#parts;
    events.troubled(route.name, trouble);
    const facts = { route: route.name, host: this.hop.label, reply: lastWords?.text, delayMs: Math.ceil(opensIn) };
    if (trouble === 'down') log.warn(facts, 'next hop is down');
    else log.warn({ ...facts, trouble, connections }, 'next hop is given less');
  }

  async #open(place: HopRoom): Promise<void> {
    this.#opening += 1;
    const result = await this.#connect();
    this.#opening -= 1;
    this.#failsTls = 'refused' in result && result.tlsFault !== undefined;
    if (!(result instanceof SmtpConnection)) {
      const others = { open: this.#connections.size, opening: this.#opening };
      this.#tell({ kind: 'refused', reply: result.refused, asksForLess: result.said.some(isThrottling), ...others });
      place.release();
    } else if (this.#stopped) {
      place.release();
      result.quit();
    } else {
      this.#tell({ kind: 'opened' });
      this.#connections.set(result, { place, given: 0 });
      result.onVacant = () => this.#feed(result);
      result.onClosed = () => this.#closed(result);
      this.#feed(result);
    }
    this.#pump();
  }

  async #connect(): Promise<SmtpConnection | HopRefusal> {
    try {
      return await this.hop.connect({ domain: this.#domain, signal: this.#opener.signal });
    } catch (thrown) {
      this.#parts.log.error({ route: this.#parts.route.name, err: thrown }, 'Cannot connect');
      return { refused: { code: 451, enhanced: '4.3.0', text: errorMessage(thrown) }, said: [] };
    }
  }

  #closed(connection: SmtpConnection): void {
    this.#connections.get(connection)?.place.release();
    this.#connections.delete(connection);
    this.#idle.delete(connection);
    this.#leaving.delete(connection);
    const { served, closedBy: by } = connection;
    this.#tell({ kind: 'closed', served, by, open: this.#connections.size, opening: this.#opening });
    // Deferred until the current code has finished: a connection may close while it is being fed.
    this.wake();
  }
}
