// The connections to one next hop: each gets the next task as soon as it can take one. While a next hop is down it is not
// tried for each message: for a while all messages are deferred with its last reply.

import type { MonotonicClock } from '../base/clock.ts';
import { errorMessage } from '../base/errors.ts';
import type { Logger } from '../base/log.ts';
import type { SmtpReply } from '../mail/smtp-reply.ts';
import { headFor, type Task } from './job.ts';
import type { NextHop } from './next-hop.ts';
import { type OutgoingMail, type RecipientResult, SmtpConnection, type TransactionEnd } from './smtp/smtp-client.ts';
import type { TaskQueue } from './task-queue.ts';
import type { TransportEvents } from './transport.ts';

const firstBackoff = 1000;
const longestBackoff = 60_000;
/** A next hop counts as down after this many connections in a row that ended before they served a message. */
const barrenConnections = 3;

/** A message is deferred only after this many idle connections in a row turned out to be dead. */
const deadConnectionsAllowed = 3;

/** RFC 5321 §4.5.3.1.10: too many recipients for one transaction; the rest can go in another. */
function isTooMany({ kind, reply }: RecipientResult): boolean {
  const codes = reply.code === 452 || reply.code === 552;
  return kind === 'deferred' && codes && (reply.enhanced === undefined || reply.enhanced.endsWith('.5.3'));
}

/** What a pool is made from. */
export interface HopPoolParts {
  readonly hop: NextHop;
  /** The route that leads to the next hop. */
  readonly route: { readonly name: string; readonly platformSignature: boolean };
  /** How many connections may be open at once. */
  readonly connections: number;
  readonly queue: TaskQueue;
  readonly events: TransportEvents;
  readonly clock: MonotonicClock;
  readonly log: Logger;
}

/** The connections to one next hop, and the tasks that wait for it. */
export class HopPool {
  /** Where connections are opened to. It is set anew whenever the next hop is found again. */
  hop: NextHop;
  readonly queue: TaskQueue;
  readonly #parts: HopPoolParts;
  readonly #events: TransportEvents;
  readonly #clock: MonotonicClock;
  readonly #log: Logger;
  readonly #connections = new Set<SmtpConnection>();
  readonly #idle = new Set<SmtpConnection>();
  readonly #opener = new AbortController();
  /** The recipient domain of the task that came last; a connection is opened for it. */
  #domain = '';
  #opening = 0;
  #active = 0;
  #failures = 0;
  #barren = 0;
  #downUntil = Number.NEGATIVE_INFINITY;
  #lastRefusal: SmtpReply = { code: 451, enhanced: '4.4.1', text: 'The next hop is down' };
  #stopped = false;

  constructor(parts: HopPoolParts) {
    this.hop = parts.hop;
    this.queue = parts.queue;
    this.#parts = parts;
    this.#events = parts.events;
    this.#clock = parts.clock;
    this.#log = parts.log;
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

  /** Nothing waits, no connection is open, and the next hop is not known to be down: the pool can be forgotten. */
  get isUnused(): boolean {
    return this.queue.length === 0 && this.#connections.size === 0 && this.#opening === 0 && this.#failures === 0;
  }

  /** @param domain the recipients' domain, as the connection for the task wants it */
  push(task: Task, domain: string): void {
    this.#domain = domain;
    this.queue.push(task);
    this.#pump();
  }

  /** Begins nothing more; attempts under way go on to their end. */
  stop(): void {
    this.#stopped = true;
    this.#opener.abort();
    this.queue.stop();
    for (const connection of this.#connections) connection.quit();
  }

  /** Breaks off attempts under way; their messages are deferred. */
  abort(): void {
    this.stop();
    const reply = { code: 451, enhanced: '4.3.2', text: 'Postern is shutting down' };
    for (const connection of this.#connections) connection.destroy(reply);
  }

  /** No connection is open, and it is too early to try again. */
  get isDown(): boolean {
    return this.#connections.size === 0 && this.#opening === 0 && this.#clock.monotonic() < this.#downUntil;
  }

  #pump(): void {
    if (this.#stopped) return;
    if (this.isDown) {
      for (const task of this.queue.takeAll()) this.#defer(task, this.#lastRefusal);
      return;
    }
    for (const connection of this.#idle) {
      if (this.queue.ready === 0) return;
      this.#idle.delete(connection);
      this.#feed(connection);
    }
    while (this.#opening < this.queue.ready && this.#mayOpen()) void this.#open();
  }

  #mayOpen(): boolean {
    // A next hop that was down is tried with one connection; more are opened once that one has served a message.
    const most = this.#failures > 0 ? 1 : this.#parts.connections;
    return this.#connections.size + this.#opening < most && this.#clock.monotonic() >= this.#downUntil;
  }

  #feed(connection: SmtpConnection): void {
    while (connection.isVacant && !this.#stopped) {
      const task = this.queue.pull();
      if (!task) {
        if (connection.isIdle) this.#idle.add(connection);
        return;
      }
      this.#active += 1;
      // The task was begun behind another: if the next hop closes after that one, it does not count against this task.
      const deadConnections = connection.isIdle ? task.deadConnections + 1 : task.deadConnections;
      connection.begin(this.#mailOf(task), (end) => {
        if (this.#failures > 0 && connection.served > 0) this.#isUp();
        this.#ended({ ...task, deadConnections }, end, connection);
      });
    }
  }

  /** The next hop serves again, so the other connections may be opened. */
  #isUp(): void {
    this.#failures = 0;
    this.#barren = 0;
    setImmediate(() => this.#pump());
  }

  #mailOf({ job, recipients }: Task): OutgoingMail {
    const { entry, content } = job;
    if (!content) throw new Error(`The octets of message ${entry.id} are not in memory`);
    return {
      reversePath: entry.reversePath,
      recipients: recipients.map((recipient) => recipient.address),
      requireTls: entry.requireTls,
      ...(entry.dsn ? { dsn: entry.dsn } : {}),
      head: headFor(content, entry, this.#parts.route),
      body: content.body,
    };
  }

  #ended(task: Task, end: TransactionEnd, { peer, session: { tls } }: SmtpConnection): void {
    this.#active -= 1;
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
    const { job } = task;
    const isAgain = end.results.map(isTooMany);
    const rest = task.recipients.filter((_, index) => isAgain[index]);
    job.openTasks += 1;
    this.queue.push({ job, recipients: rest, deadConnections: 0 });
    const done = task.recipients.filter((_, index) => !isAgain[index]);
    const results = end.results.filter((_, index) => !isAgain[index]);
    this.#events.finish({ ...task, recipients: done }, results, host, tls);
  }

  #defer(task: Task, reply: SmtpReply): void {
    this.#events.finish(
      task,
      task.recipients.map(() => ({ kind: 'deferred', reply })),
      this.hop.label,
    );
  }

  async #open(): Promise<void> {
    this.#opening += 1;
    const result = await this.#connect();
    this.#opening -= 1;
    if (this.#stopped) {
      if (result instanceof SmtpConnection) result.quit();
    } else if (!(result instanceof SmtpConnection)) {
      this.#backOff(result);
    } else {
      // A next hop that accepts connections and drops them is still down.
      if (this.#barren === 0) this.#failures = 0;
      this.#downUntil = Number.NEGATIVE_INFINITY;
      this.#connections.add(result);
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
    this.#connections.delete(connection);
    this.#idle.delete(connection);
    this.#barren = connection.served === 0 ? this.#barren + 1 : 0;
    if (this.#barren >= barrenConnections && !this.#stopped && connection.closedBy) this.#backOff(connection.closedBy);
    // Deferred until the current code has finished: a connection may close while it is being fed.
    setImmediate(() => this.#pump());
  }

  #backOff(reply: SmtpReply): void {
    this.#lastRefusal = reply;
    // Several connections that fail at once count as one failure.
    if (this.#clock.monotonic() < this.#downUntil) return;
    this.#failures += 1;
    const delay = Math.min(firstBackoff * 2 ** (this.#failures - 1), longestBackoff);
    this.#downUntil = this.#clock.monotonic() + delay;
    this.#log.warn(
      { route: this.#parts.route.name, host: this.hop.label, reply: reply.text, delayMs: delay },
      'next hop is down',
    );
  }
}
