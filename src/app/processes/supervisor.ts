// Starts the processes of a server, keeps them running, and has them act as one: readiness, reloads, metrics, limits, the end.

import cluster from 'node:cluster';
import { createMinuteCounts } from '../../accounts/minute-window.ts';
import { ConfigurationError, errorMessage, Unavailable } from '../../base/errors.ts';
import type { Logger } from '../../base/log.ts';
import type { MetricValues } from '../../base/process-group.ts';
import type { DestinationView } from '../../delivery/transport.ts';
import { keepRateLimits } from '../../edge/zone/rate-limit.ts';
import type { Listening } from '../wiring/addresses.ts';
import { Child, type ProcessEnd, type StuckWatch } from './child.ts';
import { type FromProcess, type Inquiries, type Question, type StartOrder, temporaryFailure } from './messages.ts';
import { SharedPlaces } from './shared-places.ts';
import { MetricsSum, mergeDestinations, supervisorMetrics } from './sum-metrics.ts';

/** What the supervisor is made from. */
export interface SupervisorParts {
  readonly count: number;
  readonly order: Omit<StartOrder, 'number' | 'count' | 'version'>;
  readonly log: Logger;
  /** How long a process may take to drain, in milliseconds; asked when it is to. */
  readonly drainMs: () => number;
  /** How long a process has to answer a reload, in milliseconds; 30 s if absent. */
  readonly voteMs?: number;
  /** How a process that is stuck is found; if absent, one that has given no answer for 30 s, or was stopped 7.5 s ago. */
  readonly watch?: StuckWatch;
}

/**
 * How long a process has, in milliseconds: for its numbers (one that is busy for longer is told of by its last reading), to say
 * whether it is ready (it is left out), to tell of the proxy applications (who asks waits less), and to get ready for a configuration.
 */
const [readingMs, readyMs, carrierMs, defaultVoteMs] = [2000, 1500, 10_000, 30_000];
/** How long a process that has ended waits for its next start, in milliseconds: twice as long each time. */
const [firstRestartMs, longestRestartMs] = [100, 30_000];
/** A process that served for so long has failed for another reason than the last time. */
const steadyMs = 60_000;
/** Beyond its time to drain, in milliseconds; then a process is killed. */
const graceMs = 5000;
/** Unanswered questions count, not time alone: after a pause of the machine all have time to answer. Ctrl-Z stops the supervisor, too. */
const defaultWatch: StuckWatch = { everyMs: 2500, most: 12, mostStopped: 3 };

type ReloadAnswer = Inquiries['reload' | 'decide']['answer'];

/** The processes of one server. */
export class Supervisor {
  readonly #parts: SupervisorParts;
  readonly #children = new Map<number, Child>();
  /** How often each process has ended in a row, by its number. */
  readonly #failures = new Map<number, number>();
  /** The processes, by their numbers, whose last start ended with a reason that another try does not take away. */
  readonly #unable = new Set<number>();
  /** Of the processes that are to be started again, by their numbers. */
  readonly #timers = new Map<number, NodeJS.Timeout>();
  readonly #places = new SharedPlaces();
  readonly #minutes = createMinuteCounts(() => performance.now());
  readonly #windowOf = keepRateLimits({ monotonic: () => performance.now() });
  readonly #metrics = new MetricsSum();
  #text: string;
  #version = 1;
  #onDuty: Child | undefined;
  #hasStarted = false;
  #isStopping = false;
  #restarts = 0;

  constructor(parts: SupervisorParts) {
    this.#parts = parts;
    this.#text = parts.order.text;
  }

  /** Starts the first process, which makes what is missing, then the others. @throws ConfigurationError, or Error; all have ended then */
  async start(): Promise<readonly Listening[]> {
    // node:cluster's other way, to accept here and hand out, would lose connections on their way to a process that is killed.
    cluster.schedulingPolicy = cluster.SCHED_NONE;
    try {
      const listening = await this.#firstStart(1);
      const others = Array.from({ length: this.#parts.count - 1 }, (_, index) => this.#firstStart(index + 2));
      await Promise.all(others);
      this.#hasStarted = true;
      for (let number = 1; number <= this.#parts.count; number += 1) {
        const reason = `process ${number} has ended while the others started`;
        if (!this.#children.has(number)) this.#startLater(number, { reason });
      }
      return listening;
    } catch (error) {
      await this.stop();
      throw error;
    }
  }

  async #firstStart(number: number): Promise<readonly Listening[]> {
    if (this.#isStopping) throw new Error('The server is stopping');
    const child = this.#fork(number);
    const first = await Promise.race([child.serving, child.ended]);
    if (!('code' in first)) return first;
    const { code, signal, failed } = first;
    if (this.#isStopping) throw new Error('The server is stopping');
    // It was for every process of the service, and came before Node ran this one.
    if (signal === 'SIGHUP') return await this.#firstStart(number);
    const how = signal === null ? `ended with ${code}` : `was ended by ${signal}`;
    const reason = failed?.reason ?? `process ${number} ${how} while it started`;
    if (failed?.exitCode === temporaryFailure) throw new Unavailable(reason, { reason: 'store', retryAfterSeconds: 2 });
    throw failed?.exitCode === 78 ? new ConfigurationError(reason) : new Error(reason);
  }

  /** Changes the configuration of all processes, or of none. @throws ConfigurationError with the faults @returns what changed */
  async reload(text: string): Promise<readonly string[]> {
    const children = this.#takingConnections();
    if (children.length === 0) return this.#startAllWith(text);
    const { voteMs = defaultVoteMs } = this.#parts;
    const votes = await Promise.all(children.map((child) => child.inquire('reload', text, voteMs)));
    const faultsOf = ({ number, hasEnded, isDraining }: Child, answer?: ReloadAnswer): readonly string[] => {
      if (isDraining) return [];
      if (answer) return answer === 'prepared' || answer.ok ? [] : answer.faults;
      return [`process ${number} ${hasEnded ? 'has ended' : `gave no answer within ${voteMs / 1000} s`}`];
    };
    const faults = [...new Set(children.flatMap((child, index) => faultsOf(child, votes[index])))];
    if (faults.length > 0 || this.#isStopping) {
      const reasons = faults.length > 0 ? faults : ['The server is stopping'];
      const prepared = children.filter((_, index) => votes[index] === 'prepared');
      // One that has said nothing would wait for a decision that it has missed, and take no reload any more.
      for (const [index, child] of children.entries()) if (votes[index] === undefined) this.#renew(child, reasons);
      await Promise.all(prepared.map((child) => child.inquire('decide', reasons, voteMs)));
      throw new ConfigurationError(reasons.join('\n'));
    }
    // Whoever starts from now on starts with it; one that starts with the one before is started anew once it serves.
    this.#text = text;
    this.#version += 1;
    const ends = await Promise.all(children.map((child) => child.inquire('decide', [], voteMs)));
    for (const [index, child] of children.entries()) {
      const late = faultsOf(child, ends[index]);
      child.version = this.#version;
      if (late.length > 0) this.#renew(child, late);
    }
    return ends.flatMap((end) => (end?.ok ? [end.changed] : []))[0] ?? [];
  }

  /** Has processes start with a configuration that only their supervisor has judged, since none can with the one in force. */
  #startAllWith(text: string): readonly string[] {
    if (this.#unable.size < this.#parts.count || this.#isStopping)
      throw new ConfigurationError('No process takes connections now: the log says why');
    this.#text = text;
    this.#version += 1;
    this.#failures.clear();
    for (const number of [...this.#timers.keys()]) this.#startAgain(number);
    return ['no process could start: all start by the file as it is now'];
  }

  /** Has a process end that did not do as the others at a reload; it is started again with the configuration in force. */
  #renew(child: Child, faults: readonly string[]): void {
    if (child.hasEnded) return;
    const facts = { process: child.number, faults };
    this.#parts.log.error(facts, 'a process did not take the configuration: it is started anew');
    void this.#end(child);
  }

  async destinations(): Promise<readonly DestinationView[]> {
    const views = await Promise.all(
      [...this.#children.values()].map((child) => child.inquire('destinations', null, readingMs)),
    );
    return mergeDestinations(views.flatMap((view) => view ?? []));
  }

  /** Drains all processes. Resolves when the last has ended; what takes too long is killed. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    for (const timer of this.#timers.values()) clearTimeout(timer);
    await Promise.all([...this.#children.values()].map((child) => this.#end(child)));
  }

  kill(): void {
    for (const child of this.#children.values()) child.kill('SIGKILL');
  }

  async #end(child: Child): Promise<void> {
    child.drain();
    const patience = setTimeout(() => {
      this.#parts.log.error({ process: child.number, pid: child.pid }, 'a process did not end in time: it is killed');
      child.kill('SIGKILL');
    }, this.#parts.drainMs() + graceMs);
    await child.ended;
    clearTimeout(patience);
  }

  #fork(number: number): Child {
    const { order, count } = this.#parts;
    const full = { ...order, text: this.#text, number, count, version: this.#version };
    const child = new Child(cluster.fork(), full, (message) => this.#hear(child, message));
    this.#children.set(number, child);
    void child.serving.then(() => this.#serves(child));
    void child.ended.then((end) => this.#ended(child, end));
    void this.#watch(child);
    return child;
  }

  /** Kills a process that gives no answers: its connections hang, and it may hold what the others wait for. */
  async #watch(child: Child): Promise<void> {
    const watch = this.#parts.watch ?? defaultWatch;
    const silentMs = (await child.untilHeard(watch)) ?? (await child.untilStuck(watch));
    if (silentMs === undefined) return;
    this.#parts.log.error(
      { process: child.number, pid: child.pid, silentMs },
      'a process gives no answer: it is killed',
    );
    child.kill('SIGKILL');
  }

  #serves(child: Child): void {
    const { number, pid } = child;
    // A reload came while it started.
    if (child.version !== this.#version) return void this.#end(child);
    this.#unable.delete(number);
    this.#parts.log.info({ process: number, pid }, 'a process takes connections');
    this.#appoint();
  }

  #ended(child: Child, end: ProcessEnd): void {
    const { number, pid, servingSince } = child;
    const { code, signal, failed } = end;
    this.#children.delete(number);
    this.#places.gone(child);
    this.#metrics.gone(number);
    if (this.#onDuty === child) this.#onDuty = undefined;
    this.#appoint();
    if (failed && failed.exitCode !== temporaryFailure) this.#unable.add(number);
    if (this.#isStopping || !this.#hasStarted) return;
    const isSteady = servingSince !== undefined && performance.now() - servingSince >= steadyMs;
    if (isSteady) this.#failures.delete(number);
    this.#startLater(number, { pid, code, signal, reason: failed?.reason });
  }

  /** Starts a process anew, after a time that doubles with each failure. @param facts how the one before has ended, for the log */
  #startLater(number: number, facts: object): void {
    const failures = this.#failures.get(number) ?? 0;
    this.#failures.set(number, failures + 1);
    const againInMs = Math.min(longestRestartMs, firstRestartMs * 2 ** failures);
    this.#parts.log.error({ process: number, ...facts, againInMs }, 'a process has ended: it is started again');
    const timer = setTimeout(() => this.#startAgain(number), againInMs);
    this.#timers.set(number, timer);
  }

  #startAgain(number: number): void {
    clearTimeout(this.#timers.get(number));
    this.#timers.delete(number);
    this.#restarts += 1;
    try {
      this.#fork(number);
    } catch (error) {
      // Most errors of a start come by an event; Node throws the others, such as ETXTBSY while its own file is being replaced.
      this.#startLater(number, { reason: `process ${number} could not be started: ${errorMessage(error)}` });
    }
  }

  /** Has one of the processes do what exactly one does, where none is at it. */
  #appoint(): void {
    if (this.#onDuty || this.#isStopping) return;
    this.#onDuty = this.#takingConnections()[0];
    this.#onDuty?.tell({ kind: 'duty' });
  }

  /** Whether a process takes connections and mail, and none says that it takes no mail. Those that start, drain or are silent do not count. */
  async #isReady(): Promise<boolean> {
    if (this.#isStopping) return false;
    const asked = this.#takingConnections();
    const answers = await Promise.all(asked.map((child) => child.inquire('ready', null, readyMs)));
    const counted = answers.filter((_, index) => asked[index]?.isDraining === false);
    return counted.includes(true) && !counted.includes(false);
  }

  #hear(child: Child, message: FromProcess): void {
    switch (message.kind) {
      case 'ask':
        void this.#answer(child, message).then((answer) => child.tell({ kind: 'answer', id: message.id, answer }));
        return;
      case 'placesBack':
        return this.#places.giveBack(child, message.keys);
      case 'minuteBack':
        return this.#minutes.giveBack(message.account);
      case 'failure':
        for (const other of this.#children.values()) if (other !== child) other.tell(message);
        return;
      case 'draining':
        void this.#end(child);
        return;
      case 'hello':
      case 'told':
      case 'failed':
      case 'serving':
        // The child waits for these itself.
        return;
      default:
        message satisfies never;
    }
  }

  async #answer(child: Child, { about, asked }: Question): Promise<unknown> {
    switch (about) {
      case 'takePlaces':
        return this.#places.take(child, asked) ?? null;
      case 'askPlaces':
        return this.#places.ask(asked) ?? null;
      case 'takeMinute':
        return this.#minutes.take(asked.account, asked.limit);
      case 'askMinute':
        return this.#minutes.ask(asked.account, asked.limit);
      case 'takeWindow':
        return this.#windowOf(asked.name, asked.limit)?.take(asked.address) ?? 0;
      case 'metrics':
        return await this.#readMetrics(child, asked);
      case 'ready':
        return await this.#isReady();
      case 'applications':
        return await this.#onDuty?.inquire('applications', asked, carrierMs);
      default:
        return about satisfies never;
    }
  }

  async #readMetrics(asking: Child, own: MetricValues): Promise<string> {
    if (!asking.hasEnded) this.#metrics.read(asking.number, own);
    const others = this.#serving().filter((child) => child !== asking);
    await Promise.all(
      others.map(async (child) => {
        const values = await child.inquire('values', null, readingMs);
        if (values && !child.hasEnded) this.#metrics.read(child.number, values);
      }),
    );
    const [wanted, serving] = [this.#parts.count, this.#takingConnections().length];
    return await this.#metrics.text(await supervisorMetrics({ wanted, serving, restarts: this.#restarts }));
  }

  #takingConnections(): readonly Child[] {
    return this.#serving().filter(({ isDraining }) => !isDraining);
  }

  /** Those that have begun to serve, also while they drain. */
  #serving(): readonly Child[] {
    return [...this.#children.values()].filter(({ servingSince }) => servingSince !== undefined);
  }
}
