// A smarthost route at work: a pool of connections, each of which gets the next task as soon as it can take one. While a
// next hop is down it is not tried for each message: for a while all messages are deferred with its last reply.

import type { MonotonicClock } from '../base/clock.ts';
import { errorMessage } from '../base/errors.ts';
import type { Logger } from '../base/log.ts';
import type { SmtpReply } from '../mail/smtp-reply.ts';
import { headFor, type Task } from './job.ts';
import type { SmarthostRoute } from './settings.ts';
import {
  connectSmtp,
  type OutgoingMail,
  type RecipientResult,
  SmtpConnection,
  type TransactionEnd,
} from './smtp/smtp-client.ts';
import type { SmtpClientOptions } from './smtp/smtp-handshake.ts';
import type { TaskQueue } from './task-queue.ts';
import type { Transport, TransportEvents } from './transport.ts';

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

/** The smarthost route at work. */
export class SmarthostTransport implements Transport {
  readonly route: SmarthostRoute;
  readonly queue: TaskQueue;
  /** RFC 5321 §4.5.3.1.8: every server takes 100 recipients. */
  readonly recipientsPerTask = 100;
  readonly #client: SmtpClientOptions;
  readonly #events: TransportEvents;
  readonly #clock: MonotonicClock;
  readonly #log: Logger;
  readonly #host: string;
  readonly #connections = new Set<SmtpConnection>();
  readonly #idle = new Set<SmtpConnection>();
  readonly #opener = new AbortController();
  #opening = 0;
  #active = 0;
  #failures = 0;
  #barren = 0;
  #downUntil = Number.NEGATIVE_INFINITY;
  #lastRefusal: SmtpReply = { code: 451, enhanced: '4.4.1', text: 'The next hop is down' };
  #stopped = false;

  constructor(options: {
    readonly route: SmarthostRoute;
    readonly client: SmtpClientOptions;
    readonly queue: TaskQueue;
    readonly events: TransportEvents;
    readonly clock: MonotonicClock;
    readonly log: Logger;
  }) {
    this.route = options.route;
    this.queue = options.queue;
    this.#client = options.client;
    this.#events = options.events;
    this.#clock = options.clock;
    this.#log = options.log;
    this.#host = `${this.route.name} (${this.route.host}:${this.route.port})`;
    this.queue.onReady = () => this.#pump();
  }

  get active(): number {
    return this.#active;
  }

  get connections(): number {
    return this.#connections.size;
  }

  push(task: Task): void {
    this.queue.push(task);
    this.#pump();
  }

  stop(): void {
    this.#stopped = true;
    this.#opener.abort();
    this.queue.stop();
    for (const connection of this.#connections) connection.quit();
  }

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
    const most = this.#failures > 0 ? 1 : this.route.connections;
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
        this.#ended({ ...task, deadConnections }, end);
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
      head: headFor(content, entry, this.route),
      body: content.body,
    };
  }

  #ended(task: Task, end: TransactionEnd): void {
    this.#active -= 1;
    if (end.untouched && this.#stopped) {
      this.#events.giveBack(task);
      return;
    }
    if (end.untouched && task.deadConnections <= deadConnectionsAllowed) {
      this.queue.push(task);
      return;
    }
    const isProgress = end.results.some((result) => result.kind === 'delivered');
    if (!isProgress || this.#stopped || !end.results.some(isTooMany)) {
      this.#events.finish(task, end.results, this.#host);
      return;
    }
    const { job } = task;
    const isAgain = end.results.map(isTooMany);
    const rest = task.recipients.filter((_, index) => isAgain[index]);
    job.openTasks += 1;
    this.queue.push({ job, recipients: rest, deadConnections: 0 });
    const done = task.recipients.filter((_, index) => !isAgain[index]);
    const results = end.results.filter((_, index) => !isAgain[index]);
    this.#events.finish({ ...task, recipients: done }, results, this.#host);
  }

  #defer(task: Task, reply: SmtpReply): void {
    this.#events.finish(
      task,
      task.recipients.map(() => ({ kind: 'deferred', reply })),
      this.#host,
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
      const result = await connectSmtp(this.#client, this.#opener.signal);
      return 'connection' in result ? result.connection : result.refused;
    } catch (thrown) {
      this.#log.error({ route: this.route.name, err: thrown }, 'Cannot connect');
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
    this.#log.warn({ route: this.route.name, host: this.#host, reply: reply.text, delayMs: delay }, 'next hop is down');
  }
}
