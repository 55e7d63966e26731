// The delivery runner: takes due recipients to the next hop, records outcomes, plans retries. A message comes straight
// from the pipeline, with its octets still in memory, or it is claimed from the spool when it is due.
//
// No message is lost, and few are sent twice: a message is in the spool until the outcome of its last recipient is committed.
// If the process is killed between the next hop's 250 and that commit, it sends the message again after the restart.

import { type Clock, type ClockReading, readClock } from '../base/clock.ts';
import { errorMessage } from '../base/errors.ts';
import type { Logger } from '../base/log.ts';
import type { OutcomeEvent } from '../events/mail-event.ts';
import type { TlsFacts } from '../mail/tls-facts.ts';
import { leaseMilliseconds } from '../spool/lease.ts';
import type { DueMessage, Spool, SpoolEntry } from '../spool/spool.ts';
import { Claimer, type Working } from './claimer.ts';
import { HeldRecipients } from './held-recipients.ts';
import { type DueRecipient, type Job, newJob, recipientsOf, setContent, type Task } from './job.ts';
import type { MxFacilities } from './mx/mx-hops.ts';
import { newTransport } from './new-transport.ts';
import { Settler } from './outcome.ts';
import { OutcomeWriter } from './outcome-writer.ts';
import { transportNames, transportOf, Ways } from './router.ts';
import type { DeliverySettings, Route } from './settings.ts';
import type { RecipientResult } from './smtp/smtp-client.ts';
import { defaultTimeouts, type SmtpTimeouts } from './smtp/smtp-timeouts.ts';
import type { TaskHost } from './task-queue.ts';
import type { Transport, TransportEvents } from './transport.ts';
import { TransportShare } from './transport-share.ts';

/** Octets of accepted messages kept until they are delivered, over all transports. */
const defaultContentBytes = 64 * 1024 * 1024;

/** Numbers for /metrics: counters since the start, and gauges. */
export interface DeliveryMetrics {
  readonly delivered: number;
  readonly deferred: number;
  readonly failed: number;
  /** Messages in hand; one counts once for each transport that it takes. */
  readonly inHand: number;
  /** Accepted messages left to the spool since the start, because the share of their transport was used up. */
  readonly leftToSpool: number;
  /** Transactions and file writes under way. */
  readonly active: number;
  /** Open connections to next hops. */
  readonly connections: number;
  /** Octets of messages in memory. */
  readonly contentBytes: number;
  /** Outcomes that are not on disk yet. */
  readonly unrecorded: number;
}

/** What delivery is made from. */
export interface DeliveryParts {
  readonly spool: Spool;
  readonly settings: DeliverySettings;
  readonly clock: Clock;
  readonly log: Logger;
  /** A random number from 0 up to, not including, 1, for the jitter; absent: Math.random. */
  readonly random?: () => number;
  /** Octets of accepted messages kept in memory until they are delivered; messages beyond are read back from the spool. */
  readonly contentBytes?: number;
  readonly timeouts?: SmtpTimeouts;
  /** What routes by MX need; without it there can be none. */
  readonly mx?: MxFacilities;
}

/** A delivery at work. */
export interface Delivery {
  /** Takes a message that was just added to the spool with its recipients claimed for this process. */
  deliverNow(entry: SpoolEntry): void;
  /**
   * Takes over claims of an earlier process and asks for due messages from now on. Resolves to the number of queued messages.
   * @param options.takesOver false: claims stay with their holder, which is another delivery of this process
   */
  start(options?: { readonly takesOver: boolean }): Promise<number>;
  /**
   * Begins nothing more, waits for what is under way, breaks it off after `withinMs` milliseconds, and records every
   * outcome. What was not begun stays in the spool. May be called again, with less time.
   */
  drain(withinMs: number): Promise<void>;
  metrics(): DeliveryMetrics;
}

/** Makes a delivery; it does nothing before `deliverNow` or `start`. */
export function createDelivery(parts: DeliveryParts): Delivery {
  return new DeliveryRunner(parts);
}

class DeliveryRunner implements Delivery, TransportEvents {
  readonly #parts: DeliveryParts;
  readonly #transports = new Map<Route, Working>();
  readonly #ways: Ways;
  readonly #claimer: Claimer;
  readonly #outcomes: OutcomeWriter;
  readonly #held = new HeldRecipients();
  readonly #settler: Settler;
  readonly #timeouts: SmtpTimeouts;
  /** Releases of claims, and questions to the spool, that have not ended. */
  readonly #underWay = new Set<Promise<void>>();
  #inHand = 0;
  #leftToSpool = 0;
  #isHealthy = true;
  #isDraining = false;
  readonly #whenEmpty = new Set<() => void>();

  constructor(parts: DeliveryParts) {
    this.#parts = parts;
    this.#timeouts = parts.timeouts ?? defaultTimeouts;
    this.#outcomes = new OutcomeWriter(parts, {
      onHealth: (isHealthy) => this.#setHealth(isHealthy),
      onWritten: (outcomes) => this.#written(outcomes),
    });
    const { routes, safety } = parts.settings;
    const names = transportNames(routes, safety);
    const contentBytes = parts.contentBytes ?? defaultContentBytes;
    for (const [route, name] of names) {
      const share = new TransportShare(route, { name, transports: names.size, contentBytes });
      this.#transports.set(route, { transport: this.#newTransport(share), share });
    }
    this.#ways = new Ways(parts.settings, this.#transports);
    this.#settler = new Settler({ ...parts, held: this.#held, ways: this.#ways, outcomes: this.#outcomes });
    this.#claimer = new Claimer({
      ...parts,
      transports: [...this.#transports.values()],
      transportOf: transportOf(routes, safety),
      mayClaim: () => this.#isHealthy && !this.#isDraining,
      take: (working, message, claimedAt) => this.#takeClaimed(working, message, claimedAt),
    });
  }

  deliverNow(entry: SpoolEntry): void {
    const addresses = [...new Set(entry.recipients)].filter((address) => !this.#held.has(entry.id, address));
    const due = addresses.map((address) => ({ address, attempts: 0 }));
    for (const [working, group] of this.#ways.byTransport(entry.account, due)) this.#takeFresh(entry, working, group);
  }

  async start({ takesOver } = { takesOver: true }): Promise<number> {
    const queued = takesOver ? await this.#parts.spool.recover() : 0;
    if (this.#isDraining) return queued;
    if (queued > 0) this.#parts.log.info({ queued }, 'resuming delivery');
    this.#claimer.start();
    return queued;
  }

  async drain(withinMs: number): Promise<void> {
    this.#isDraining = true;
    const transports = [...this.#transports.values()].map(({ transport }) => transport);
    // At once: after a reload no attempt may begin by settings that are no longer in force. What a claim under way still
    // brings is released.
    for (const transport of transports) transport.stop();
    await this.#claimer.stop();
    const abort = (): void => {
      for (const transport of transports) transport.abort();
    };
    const patience = setTimeout(abort, Math.max(0, withinMs));
    if (this.#inHand > 0) {
      await new Promise<void>((resolve) => {
        this.#whenEmpty.add(resolve);
      });
    }
    clearTimeout(patience);
    // What these find out is written with the rest.
    await Promise.all(this.#underWay);
    await this.#outcomes.settle();
    await Promise.all(this.#underWay);
  }

  metrics(): DeliveryMetrics {
    const all = [...this.#transports.values()];
    return {
      ...this.#settler.counts,
      leftToSpool: this.#leftToSpool,
      inHand: this.#inHand,
      active: all.reduce((sum, { transport }) => sum + transport.active, 0),
      connections: all.reduce((sum, { transport }) => sum + transport.connections, 0),
      contentBytes: all.reduce((sum, { share }) => sum + share.fresh.used + share.loaded.used, 0),
      unrecorded: this.#outcomes.unwritten,
    };
  }

  finish(task: Task, results: readonly RecipientResult[], host: string, tls?: TlsFacts): void {
    const more = this.#settler.settle(task, results, tls ? { host, tls } : { host });
    if (more) this.#wait(more);
    this.#close(task);
  }

  giveBack(task: Task): void {
    this.#release(task.job.entry.id, recipientsOf(task));
    this.#close(task);
  }

  #newTransport({ route }: TransportShare): Transport {
    const host: TaskHost = {
      load: (task) => this.#load(task),
      isStale: (task) => task.job.claimEndsAt - this.#parts.clock.monotonic() < this.#timeouts.transaction,
      giveBack: (task) => this.giveBack(task),
    };
    const random = this.#parts.random ?? Math.random;
    return newTransport(route, { ...this.#parts, host, events: this, timeouts: this.#timeouts, random });
  }

  /** Takes recipients of one transport from a message that was just accepted, or leaves them to the spool. */
  #takeFresh(entry: SpoolEntry, { transport, share }: Working, due: readonly DueRecipient[]): void {
    const { head, body, transports: _, received: _received, ...meta } = entry;
    if (this.#isDraining || !share.mayTake) {
      this.#leftToSpool += 1;
      share.mayHaveMore = true;
      this.#release(meta.id, due);
      return;
    }
    const takenAt = readClock(this.#parts.clock);
    const age = Math.max(0, takenAt.wall - entry.acceptedAt);
    const message = {
      entry: meta,
      share,
      size: head.length + body.length,
      recipientCount: due.length,
      isClaimed: false,
      takenAt,
      claimEndsAt: takenAt.monotonic + leaseMilliseconds - age,
    };
    const job = newJob(message, this.#ways.redirectOf(message, due));
    if (share.fresh.tryReserve(job.size)) {
      job.room = share.fresh;
      setContent(job, { head, body });
    }
    this.#take(transport, job, due);
  }

  /** Takes what was claimed for a transport, except recipients that are in hand already. */
  #takeClaimed(claimed: Working, message: DueMessage, takenAt: ClockReading): void {
    const { entry, size } = message;
    const due = message.due.filter(({ address }) => !this.#held.isHeldAlready(entry.id, address));
    if (due.length === 0) return;
    if (this.#isDraining) {
      this.#release(entry.id, due);
      return;
    }
    const claimEndsAt = takenAt.monotonic + leaseMilliseconds;
    // The spool keeps a name of a transport, which other settings may have given. These settings decide.
    for (const [{ transport, share }, group] of this.#ways.byTransport(entry.account, due)) {
      if (share !== claimed.share) claimed.share.mayHaveMore = true;
      const taken = { entry, share, size, recipientCount: group.length, isClaimed: true, takenAt, claimEndsAt };
      this.#take(transport, newJob(taken, this.#ways.redirectOf(taken, group)), group);
    }
  }

  /** Hands a message's recipients to their transport as tasks. */
  #take(transport: Transport, job: Job, due: readonly DueRecipient[]): void {
    const tasks: Task[] = [];
    if (job.redirect) {
      const attempts = Math.max(...due.map((one) => one.attempts));
      tasks.push({ job, recipients: [{ address: job.redirect.to, attempts }], originals: due, deadConnections: 0 });
    } else {
      for (let start = 0; start < due.length; start += transport.recipientsPerTask) {
        tasks.push({ job, recipients: due.slice(start, start + transport.recipientsPerTask), deadConnections: 0 });
      }
    }
    for (const { address } of due) this.#held.hold(job.entry.id, address);
    this.#inHand += 1;
    job.share.enter(job);
    // All tasks are counted before the first begins, since a task may end at once.
    job.openTasks = tasks.length;
    for (const task of tasks) transport.push(task);
  }

  #load(task: Task): false | Promise<boolean> {
    const { job } = task;
    if (!job.content && !job.loading) {
      if (!job.share.loaded.tryReserve(job.size)) return false;
      job.room = job.share.loaded;
      job.loading = this.#loadContent(job);
    }
    return this.#loaded(task);
  }

  async #loadContent(job: Job): Promise<boolean> {
    const content = await this.#parts.spool.load(job.entry.id);
    if (content) setContent(job, content);
    return content !== undefined;
  }

  async #loaded(task: Task): Promise<boolean> {
    const { job } = task;
    try {
      if (job.content || (await job.loading)) return true;
      // A command beside the server has dropped the message (D94).
      for (const { address } of recipientsOf(task)) this.#held.letGo(job.entry.id, address);
      this.#close(task);
      return false;
    } catch (thrown) {
      this.#parts.log.error({ id: job.entry.id, err: thrown }, 'Cannot read a message from the spool');
      const reply = { code: 451, enhanced: '4.3.0', text: `Cannot read the message: ${errorMessage(thrown)}` };
      const results = task.recipients.map(() => ({ kind: 'deferred', reply }) as const);
      this.finish(task, results, job.share.route.name);
      return false;
    }
  }

  /** Closes a task that has ended, whatever ended it. */
  #close({ job }: Task): void {
    job.openTasks -= 1;
    if (job.openTasks > 0) return;
    const { share } = job;
    this.#inHand -= 1;
    share.leave(job);
    job.content = undefined;
    if (job.room) {
      job.room.release(job.size);
      job.room = undefined;
      this.#transports.get(share.route)?.transport.fill();
    }
    if (this.#inHand === 0) for (const tell of this.#whenEmpty) tell();
    if (share.mayHaveMore && share.claimLimit > 0) this.#claimer.poll();
  }

  #release(id: string, recipients: readonly Pick<DueRecipient, 'address'>[]): void {
    const addresses = recipients.map(({ address }) => address);
    // Claims that are asked for from now on come after this release.
    for (const address of addresses) this.#held.letGo(id, address);
    const releasing = this.#parts.spool.release(id, addresses).catch((error: unknown) => {
      // The claim runs out by itself, or the next start takes it over.
      this.#parts.log.error({ id, err: error }, 'Cannot give a message back to the spool');
    });
    this.#wait(releasing);
  }

  /** Keeps a drain waiting for work that never rejects. */
  #wait(work: Promise<void>): void {
    this.#underWay.add(work);
    void work.then(() => this.#underWay.delete(work));
  }

  #written(outcomes: readonly OutcomeEvent[]): void {
    for (const { queueId, recipient } of outcomes) {
      if (this.#held.letGo(queueId, recipient)) this.#release(queueId, [{ address: recipient }]);
    }
  }

  /** While the spool does not record outcomes, nothing is begun: everything sent in that time would be sent again. */
  #setHealth(isHealthy: boolean): void {
    if (this.#isHealthy === isHealthy) return;
    this.#isHealthy = isHealthy;
    for (const { transport } of this.#transports.values()) transport.hold(!isHealthy);
  }
}
