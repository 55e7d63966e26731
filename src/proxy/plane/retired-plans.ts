// Connections and sessions that were opened under a plan that is no longer in use go on for the drain time, then are cut (D84).

import type { RunningApplication } from '../traffic/listener.ts';

/** Cuts every connection and session of an application. */
export function cutConnections(running: RunningApplication): void {
  for (const connection of running.connections) connection.cut('the application was changed or removed');
}

/** Applications as they were before a change or their removal, until their connections have ended or were cut. */
export class RetiredPlans {
  readonly #timers = new Map<RunningApplication, NodeJS.Timeout>();

  /** Gives what was opened under a plan the drain time, in milliseconds, then cuts it. */
  add(before: RunningApplication, drainMs: number): void {
    if (before.connections.size === 0) return;
    const timer = setTimeout(() => this.#cut(before), drainMs);
    timer.unref();
    this.#timers.set(before, timer);
  }

  /** Cuts all of it now. */
  cutAll(): void {
    for (const before of this.#timers.keys()) this.#cut(before);
  }

  #cut(before: RunningApplication): void {
    clearTimeout(this.#timers.get(before));
    this.#timers.delete(before);
    cutConnections(before);
  }
}
