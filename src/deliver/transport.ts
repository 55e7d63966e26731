// The interface of a route at work: it takes tasks from its queue and reports the result for each recipient.

import type { TlsFacts } from '../mail/tls-facts.ts';
import type { Task } from './job.ts';
import type { Route } from './settings.ts';
import type { RecipientResult } from './smtp/smtp-client.ts';

/** A route at work. */
export interface Transport {
  readonly route: Route;
  /** The most recipients of a message that one task may have. */
  readonly recipientsPerTask: number;
  push(task: Task): void;
  /** Loads the messages of waiting tasks as far as there is room; to be called whenever room becomes free. */
  fill(): void;
  /** While it is held, it begins no task. */
  hold(isHeld: boolean): void;
  /** Its next hop is down: all its messages are deferred, and no more are to be claimed for it. */
  readonly isDown: boolean;
  /** Attempts under way. */
  readonly active: number;
  /** Open connections. */
  readonly connections: number;
  /** Begins nothing more; attempts under way go on to their end. */
  stop(): void;
  /** Breaks off attempts under way; their messages are deferred. */
  abort(): void;
}

/** What a transport reports of a task. */
export interface TransportEvents {
  /**
   * Reports the result for each recipient of the task, in order.
   * @param host who replied: `route name (host:port)`
   * @param tls of the connection, where there was one
   */
  finish(task: Task, results: readonly RecipientResult[], host: string, tls?: TlsFacts): void;
  /** Gives a task back without an attempt. */
  giveBack(task: Task): void;
}
