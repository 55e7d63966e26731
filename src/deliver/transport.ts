// A route at work: it takes tasks from its queue and tells what became of each recipient.

import type { Task } from './job.ts';
import type { Route } from './settings.ts';
import type { RecipientResult } from './smtp/smtp-client.ts';
import type { TaskQueue } from './task-queue.ts';

/** A route at work. */
export interface Transport {
  readonly route: Route;
  readonly queue: TaskQueue;
  /** Recipients of one message for one task, at most. */
  readonly recipientsPerTask: number;
  push(task: Task): void;
  /** Its next hop is down: whatever comes is deferred, and nothing more is to be claimed for it. */
  readonly isDown: boolean;
  /** Attempts under way. */
  readonly active: number;
  /** Open connections. */
  readonly connections: number;
  /** Begins nothing more; what is under way goes on to its end. */
  stop(): void;
  /** Breaks off what is under way: it is deferred. */
  abort(): void;
}

/** What a transport tells of a task. */
export interface TransportEvents {
  /**
   * What became of each recipient of the task, in order.
   * @param host who said it: `route name (host:port)`
   */
  finish(task: Task, results: readonly RecipientResult[], host: string): void;
  /** Takes a task back without an attempt. */
  giveBack(task: Task): void;
}
