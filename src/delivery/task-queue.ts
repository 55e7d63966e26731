// The tasks that wait for a next hop, or for a route that has none. Only tasks whose message is in memory are given out; the
// octets of other messages are loaded from the spool a few at a time, as far as the budget allows.

import { FairFifo } from '../base/fifo.ts';
import { Part } from '../base/part.ts';
import type { Task } from './job.ts';

/** What a queue needs from the delivery that it belongs to. */
export interface TaskHost {
  /** Takes room and loads a task's octets, once for a message. @returns false without room; else whether they are loaded */
  load(task: Task): false | Promise<boolean>;
  /** The claim on the task's recipients will not last for an attempt, or the operator keeps them waiting. */
  isStale(task: Task): boolean;
  /** Gives a task back without an attempt: its claim is released. */
  giveBack(task: Task): void;
}

const loadedAhead = 16;

/** Waiting tasks, in an order that is fair to the accounts. */
export class TaskQueue extends Part<TaskHost> {
  /** Nothing is given out for now. */
  isPaused = false;
  /** Called when another task can be pulled. */
  onReady: () => void = () => undefined;
  /** Accounts take turns in each of them. */
  readonly #fresh = new FairFifo<Task>();
  readonly #unloaded = new FairFifo<Task>();
  readonly #loaded = new FairFifo<Task>();
  /** By account: the task for whose octets there was no room. */
  readonly #blocked = new Map<string, Task>();
  #loading = 0;
  #isFreshTurn = false;
  #isStopped = false;

  get length(): number {
    return this.#fresh.length + this.#loaded.length + this.#unloaded.length + this.#loading + this.#blocked.size;
  }

  /** How many tasks can be pulled now. */
  get ready(): number {
    return this.isPaused || this.#isStopped ? 0 : this.#fresh.length + this.#loaded.length;
  }

  push(task: Task): void {
    if (task.job.content) this.#fresh.push(task.job.entry.account, task);
    else this.#unloaded.push(task.job.entry.account, task);
    this.fill();
  }

  /** The accounts of the tasks that can be pulled; where they are very many, the first ones. */
  accounts(): readonly string[] {
    return [...new Set([...this.#fresh.owners(), ...this.#loaded.owners()])];
  }

  /** Whether a task can be pulled of an account that is welcome. */
  hasFor(isWelcome: (account: string) => boolean): boolean {
    return this.ready > 0 && (this.#fresh.hasFor(isWelcome) || this.#loaded.hasFor(isWelcome));
  }

  /** Takes the next task whose octets are in memory, new and loaded ones in turns. @param isWelcome only of such accounts */
  pull(isWelcome?: (account: string) => boolean): Task | undefined {
    while (this.ready > 0) {
      this.#isFreshTurn = !this.#isFreshTurn;
      const [first, second] = this.#isFreshTurn ? [this.#fresh, this.#loaded] : [this.#loaded, this.#fresh];
      const task = first.shift(isWelcome) ?? second.shift(isWelcome);
      if (this.#unloaded.length > 0) this.fill();
      if (!task || !this.parts.isStale(task)) return task;
      this.parts.giveBack(task);
    }
    return undefined;
  }

  /** Begins to load as many messages as there is room for; to be called again whenever room becomes free. */
  fill(): void {
    const refused = new Set<string>();
    while (!this.#isStopped && this.#loading + this.#loaded.length < loadedAhead) {
      const task = this.#nextToLoad(refused);
      if (!task) return;
      const { account } = task.job.entry;
      const loading = this.parts.load(task);
      if (loading === false) {
        refused.add(account);
        this.#blocked.set(account, task);
        continue;
      }
      this.#loading += 1;
      void this.#await(task, loading);
    }
  }

  /** The next task to load of an account that was not refused room; one that was refused before comes first. */
  #nextToLoad(refused: ReadonlySet<string>): Task | undefined {
    for (const [account, task] of this.#blocked) {
      if (refused.has(account)) continue;
      this.#blocked.delete(account);
      return task;
    }
    return this.#unloaded.shift(refused.size === 0 ? undefined : (account) => !refused.has(account));
  }

  pause(isPaused: boolean): void {
    this.isPaused = isPaused;
    if (this.ready > 0) this.onReady();
  }

  /** Takes every waiting task except those that are being loaded. */
  takeAll(): Task[] {
    const blocked = [...this.#blocked.values()];
    this.#blocked.clear();
    return [...this.#loaded.takeAll(), ...this.#fresh.takeAll(), ...blocked, ...this.#unloaded.takeAll()];
  }

  /** Gives back the waiting tasks that this is true of, except those that are being loaded. */
  giveBackWhere(isUnwanted: (task: Task) => boolean): void {
    for (const [account, task] of this.#blocked) {
      if (!isUnwanted(task)) continue;
      this.#blocked.delete(account);
      this.parts.giveBack(task);
    }
    for (const fifo of [this.#fresh, this.#loaded, this.#unloaded]) {
      for (const task of fifo.takeAll()) {
        if (isUnwanted(task)) this.parts.giveBack(task);
        else fifo.push(task.job.entry.account, task);
      }
    }
  }

  /** Gives back every task; those that are being loaded are given back once they are loaded. */
  stop(): void {
    this.#isStopped = true;
    for (const task of this.takeAll()) this.parts.giveBack(task);
  }

  async #await(task: Task, loading: Promise<boolean>): Promise<void> {
    const isLoaded = await loading;
    this.#loading -= 1;
    if (!isLoaded) this.fill();
    else if (this.#isStopped) this.parts.giveBack(task);
    else {
      this.#loaded.push(task.job.entry.account, task);
      this.onReady();
    }
  }
}
