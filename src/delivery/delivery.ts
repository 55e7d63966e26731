// The delivery runner: takes due recipients to the next hop, records outcomes, plans retries. A message comes straight
// from the pipeline, with its octets still in memory, or it is claimed from the spool when it is due.
//
// No message is lost, and few are sent twice: a message is in the spool until the outcome of its last recipient is committed.
// If the process is killed between the next hop's 250 and that commit, it sends the message again after the restart.

import { type ClockReading, readClock } from '../base/clock.ts';
import { errorMessage } from '../base/errors.ts';
import { Part } from '../base/part.ts';
import type { TlsFacts } from '../mail/tls-facts.ts';
import type { OutcomeEvent } from '../spool/events/mail-event.ts';
import { type Hold, Holds } from '../spool/hold.ts';
import type { DueMessage, SpoolEntry } from '../spool/spool.ts';
import { leaseMilliseconds } from '../spool/spool-limits.ts';
import { Claimer, type Working } from './claimer.ts';
import { ConnectionBudget } from './hop/connection-budget.ts';
import type { HopTrouble } from './hop/hop-health.ts';
import { type DueRecipient, type Job, newJob, recipientsOf, setContent, type Task } from './job.ts';
import { type DeliveryMetrics, type DeliveryParts, newTransport } from './new-transport.ts';
import { OutcomeWriter, Settler, type TaskEnd } from './outcome.ts';
import { GivenBack, RecipientsInFlight } from './recipients-in-flight.ts';
import { transportNames, transportOf, Ways } from './router.ts';
import { defaultConnections, type Route } from './settings.ts';
import type { RecipientResult } from './smtp/smtp-client.ts';
import { defaultTimeouts } from './smtp/smtp-transaction.ts';
import type { TaskHost } from './task-queue.ts';
import type { DestinationView, Transport, TransportEvents } from './transport.ts';
import { TransportShare } from './transport-share.ts';

/** Octets of accepted messages kept until they are delivered, over all transports. */
const defaultContentBytes = 64 * 1024 * 1024;

const nothing = Buffer.alloc(0);

/** A delivery. It does nothing before `deliverNow` or `start`. */
export class Delivery extends Part<DeliveryParts> implements TransportEvents {
  readonly #inFlight = this.parts.inFlight ?? new RecipientsInFlight();
  /** What the operator keeps waiting, at most a second old. */
  #holds = new Holds();
  readonly #givenBack = new GivenBack({ ...this.parts, inFlight: this.#inFlight });
  readonly #outcomes = new OutcomeWriter({
    ...this.parts,
    onHealth: (isHealthy) => this.#setHealth(isHealthy),
    onWritten: (outcomes) => this.#written(outcomes),
  });
  readonly #transportOf = transportOf(this.parts.settings);
  readonly #transports = this.#newTransports();
  /** All of them, which never change. */
  readonly #all = [...this.#transports.values()];
  readonly #ways = new Ways({ settings: this.parts.settings, transports: this.#transports });
  readonly #settler = new Settler({
    ...this.parts,
    inFlight: this.#inFlight,
    ways: this.#ways,
    outcomes: this.#outcomes,
  });
  readonly #claimer = new Claimer({
    ...this.parts,
    transports: this.#all,
    transportOf: this.#transportOf,
    mayClaim: () => this.#isHealthy && !this.#isDraining,
    hold: (holds) => this.#hold(holds),
    take: (working, message, claimedAt) => this.#takeClaimed(working, message, claimedAt),
    giveBack: (message) => this.#givenBack.releaseBroken(message),
  });
  /** Questions to the spool that have not ended. */
  readonly #underWay = new Set<Promise<void>>();
  #inHand = 0;
  #leftToSpool = 0;
  #isHealthy = true;
  #isDraining = false;
  readonly #whenEmpty = new Set<() => void>();

  /** Takes a message that was just added to the spool with its recipients claimed for this process. */
  deliverNow(entry: SpoolEntry): void {
    const addresses = [...new Set(entry.recipients)].filter((address) => !this.#inFlight.has(entry.id, address));
    const due = addresses.map((address) => ({ address, attempts: 0 }));
    for (const [working, group] of this.#ways.byTransport(entry.account, due)) {
      const isHeld = ({ address }: DueRecipient): boolean => this.#isOnHold(entry, address);
      const free = this.#holds.isEmpty ? group : group.filter((recipient) => !isHeld(recipient));
      if (free.length < group.length) this.#release(entry.id, group.filter(isHeld));
      if (free.length > 0) this.#takeFresh(entry, working, free);
    }
  }

  /** The next hops as they are served now. */
  destinations(): readonly DestinationView[] {
    return this.#all.flatMap(({ transport }) => transport.destinations());
  }

  /** Asks for due messages from now on. @param options.takesOver false: an earlier claim stays @returns how many are queued */
  async start({ takesOver } = { takesOver: true }): Promise<number> {
    const queued = takesOver ? await this.parts.spool.recover() : 0;
    if (this.#isDraining) return queued;
    if (queued > 0) this.parts.log.info({ queued }, 'resuming delivery');
    this.#claimer.start();
    return queued;
  }

  /** Ends what is under way within `withinMs` milliseconds and records each outcome; the rest stays in the spool. May be called again. */
  async drain(withinMs: number): Promise<void> {
    const endsAt = performance.now() + withinMs;
    this.#isDraining = true;
    // At once: after a reload no attempt begins by old settings. What a claim under way still brings is released.
    for (const { transport } of this.#all) transport.stop();
    await this.#claimer.stop();
    const abort = (): void => {
      for (const { transport } of this.#all) transport.abort();
    };
    const patience = setTimeout(abort, Math.max(0, withinMs));
    if (this.#inHand > 0) await new Promise<void>((resolve) => this.#whenEmpty.add(resolve));
    clearTimeout(patience);
    // What these find out is written with the rest.
    await Promise.all(this.#underWay);
    await this.#outcomes.settle(Math.max(0, endsAt - performance.now()));
    await this.#givenBack.settle();
  }

  metrics(): DeliveryMetrics {
    const all = this.#all;
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
    this.#settle(task, { results, by: tls ? { host, tls } : { host } });
  }

  unreached(task: Task, { reply, host, retryInMs }: Parameters<TransportEvents['unreached']>[1]): void {
    this.#settle(task, { results: task.recipients.map(() => ({ kind: 'deferred', reply })), by: { host }, retryInMs });
  }

  troubled(route: string, trouble: HopTrouble): void {
    this.parts.onTrouble?.(route, trouble);
  }

  #settle(task: Task, end: TaskEnd): void {
    const more = this.#settler.settle(task, end);
    if (more) {
      this.#underWay.add(more);
      void more.then(() => this.#underWay.delete(more));
    }
    this.#close(task);
  }

  giveBack(task: Task): void {
    this.#release(task.job.entry.id, recipientsOf(task));
    this.#close(task);
  }

  #newTransports(): ReadonlyMap<Route, Working> {
    const { clock, settings, random = Math.random, timeouts = defaultTimeouts } = this.parts;
    const { contentBytes = defaultContentBytes } = this.parts;
    const names = transportNames(settings);
    const budget = new ConnectionBudget(settings.connections ?? defaultConnections);
    const host: TaskHost = {
      load: (task) => this.#load(task),
      isStale: (task) => task.job.claimEndsAt - clock.monotonic() < timeouts.transaction || this.#isHeld(task),
      giveBack: (task) => this.giveBack(task),
    };
    const parts = { ...this.parts, host, random, events: this, timeouts, budget };
    const transports = names.entries().map(([route, name]): [Route, Working] => {
      const share = new TransportShare(route, { name, transports: names.size, contentBytes });
      return [route, { transport: newTransport(share, parts), share }];
    });
    return new Map(transports);
  }

  #isHeld(task: Task): boolean {
    if (this.#holds.isEmpty) return false;
    return recipientsOf(task).some(({ address }) => this.#isOnHold(task.job.entry, address));
  }

  /** Whether the operator keeps a recipient waiting. */
  #isOnHold(entry: { readonly id: string; readonly account: string }, address: string): boolean {
    const { account } = entry;
    // The line's name tells the domain that the mail leaves to, which may be another than the recipient's.
    const line = { transport: this.#transportOf({ account, address }), account };
    return (this.#holds.ofLine(line) ?? this.#holds.ofRecipient({ id: entry.id, address })) !== undefined;
  }

  /** Gives back what waits in memory and falls under a hold. */
  #hold(all: readonly Hold[]): void {
    const known = new Set(this.#holds.all.map(({ id }) => id));
    this.#holds = new Holds(all);
    if (all.every(({ id }) => known.has(id))) return;
    for (const { transport } of this.#all) transport.giveBackWhere((task) => this.#isHeld(task));
  }

  /** Takes recipients of one transport from a message that was just accepted, or leaves them to the spool. */
  #takeFresh(entry: SpoolEntry, { transport, share }: Working, due: readonly DueRecipient[]): void {
    const { head, body } = entry;
    // Without what is large: it is in memory longer than the octets are.
    const meta = { ...entry, head: nothing, body: nothing };
    if (this.#isDraining || !share.mayTake(entry.account)) {
      this.#leftToSpool += 1;
      share.mayHaveMore = true;
      return this.#release(meta.id, due);
    }
    const takenAt = readClock(this.parts.clock);
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
    if (share.fresh.tryReserve(job.size, entry.account)) {
      job.room = share.fresh;
      setContent(job, { head, body });
    }
    this.#take(transport, job, due);
  }

  /** Takes what was claimed for a transport, except recipients that are in hand already. */
  #takeClaimed(claimed: Working, message: DueMessage, takenAt: ClockReading): void {
    const { entry, size } = message;
    const due = message.due.filter(({ address }) => !this.#inFlight.isClaimedAgain(entry.id, address));
    if (due.length === 0) return;
    if (this.#isDraining) return this.#release(entry.id, due);
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
    for (const { address } of due) this.#inFlight.add(job.entry.id, address);
    this.#inHand += 1;
    job.share.enter(job);
    // All tasks are counted before the first begins, since a task may end at once.
    job.openTasks = tasks.length;
    for (const task of tasks) transport.push(task);
  }

  #load(task: Task): false | Promise<boolean> {
    const { job } = task;
    if (!job.content && !job.loading) {
      if (!job.share.loaded.tryReserve(job.size, job.entry.account)) return false;
      job.room = job.share.loaded;
      job.loading = this.#loadContent(job);
    }
    return this.#loaded(task);
  }

  async #loadContent(job: Job): Promise<boolean> {
    const content = await this.parts.spool.load(job.entry.id);
    if (content) setContent(job, content);
    return content !== undefined;
  }

  async #loaded(task: Task): Promise<boolean> {
    const { job } = task;
    try {
      if (job.content || (await job.loading)) return true;
      // A command beside the server has dropped the message (D94).
      for (const { address } of recipientsOf(task)) this.#inFlight.remove(job.entry.id, address);
      this.#close(task);
      return false;
    } catch (thrown) {
      this.parts.log.error({ id: job.entry.id, err: thrown }, 'Cannot read a message from the spool');
      const reply = { code: 451, enhanced: '4.3.0', text: `Cannot read the message: ${errorMessage(thrown)}` };
      const results = task.recipients.map(() => ({ kind: 'deferred', reply }) as const);
      this.finish(task, results, job.share.route.name);
      return false;
    }
  }

  #close({ job }: Task): void {
    job.openTasks -= 1;
    if (job.openTasks > 0) return;
    const { share } = job;
    this.#inHand -= 1;
    share.leave(job);
    job.content = undefined;
    if (job.room) {
      job.room.release(job.size, job.entry.account);
      job.room = undefined;
      this.#transports.get(share.route)?.transport.fill();
    }
    if (this.#inHand === 0) for (const tell of this.#whenEmpty) tell();
    if (share.mayHaveMore && share.claimLimit > 0) this.#claimer.poll();
  }

  #release(id: string, recipients: readonly Pick<DueRecipient, 'address'>[]): void {
    const addresses = recipients.map(({ address }) => address);
    this.#givenBack.release(id, addresses);
  }

  #written(outcomes: readonly OutcomeEvent[]): void {
    for (const { queueId, recipient } of outcomes) {
      if (this.#inFlight.remove(queueId, recipient)) this.#release(queueId, [{ address: recipient }]);
    }
  }

  /** While the spool does not record outcomes, nothing is begun: everything sent in that time would be sent again. */
  #setHealth(isHealthy: boolean): void {
    if (this.#isHealthy === isHealthy) return;
    this.#isHealthy = isHealthy;
    for (const { transport } of this.#all) transport.pause(!isHealthy);
  }
}
