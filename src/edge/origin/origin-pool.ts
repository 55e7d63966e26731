// The connections to origins: those in use, and those kept open for the next request (RFC 9112 §9.3).

import type { Socket } from 'node:net';
import type { MonotonicClock } from '../../base/clock.ts';
import { OriginConnection } from './origin-connection.ts';
import type { OriginTarget } from './origin-target.ts';

/** How long an idle connection is kept, unless the origin says that it closes it sooner. */
const idleSeconds = 15;
/** The most idle connections to one target. */
const idlePerTarget = 128;
const sweepMs = 1000;

/** The connections to all origins. */
export class OriginPool {
  readonly #clock: MonotonicClock;
  readonly #timeoutMs: number;
  readonly #all = new Set<OriginConnection>();
  readonly #idle = new Map<string, OriginConnection[]>();
  #sweeper: NodeJS.Timeout | undefined;
  #closing = false;

  /** `timeoutMs`: milliseconds of silence after which a connection calls `onStalled` of its user. */
  constructor(parts: { readonly clock: MonotonicClock; readonly timeoutMs: number }) {
    this.#clock = parts.clock;
    this.#timeoutMs = parts.timeoutMs;
  }

  /** Takes the connection to a target that was used last, which is the one most likely to be alive. */
  take(key: string): OriginConnection | undefined {
    const idle = this.#idle.get(key);
    if (!idle) return undefined;
    const now = this.#clock.monotonic();
    for (let connection = idle.pop(); connection; connection = idle.pop()) {
      if (connection.usable && connection.idleUntil > now) return connection;
      connection.destroy();
    }
    this.#idle.delete(key);
    return undefined;
  }

  /** Adds a socket that was just connected. */
  add(socket: Socket, target: OriginTarget): OriginConnection {
    const connection = new OriginConnection({ socket, target, timeoutMs: this.#timeoutMs, onGone: this.#onGone });
    this.#all.add(connection);
    return connection;
  }

  /** Keeps a connection for the next request. @param hintSeconds for which the origin says that it keeps it; one less is used */
  keep(connection: OriginConnection, hintSeconds: number | undefined): void {
    connection.leave();
    const seconds = hintSeconds === undefined ? idleSeconds : Math.min(idleSeconds, hintSeconds - 1);
    const { key } = connection.target;
    const idle = this.#idle.get(key) ?? [];
    if (this.#closing || seconds <= 0 || !connection.usable || idle.length >= idlePerTarget) {
      connection.destroy();
      return;
    }
    if (idle.length === 0) this.#idle.set(key, idle);
    connection.idleUntil = this.#clock.monotonic() + seconds * 1000;
    idle.push(connection);
    this.#sweeper ??= setInterval(this.#sweep, sweepMs).unref();
  }

  /** Closes idle connections now, and the others as soon as they are idle. */
  closeIdle(): void {
    this.#closing = true;
    this.#stopSweeping();
    for (const idle of this.#idle.values()) for (const connection of idle) connection.destroy();
    this.#idle.clear();
  }

  closeAll(): void {
    this.closeIdle();
    for (const connection of this.#all) connection.socket.destroy();
  }

  #stopSweeping(): void {
    clearInterval(this.#sweeper);
    this.#sweeper = undefined;
  }

  readonly #sweep = (): void => {
    const now = this.#clock.monotonic();
    for (const [key, idle] of this.#idle) {
      const kept = idle.filter((connection) => {
        if (connection.usable && connection.idleUntil > now) return true;
        connection.destroy();
        return false;
      });
      if (kept.length > 0) this.#idle.set(key, kept);
      else this.#idle.delete(key);
    }
    if (this.#idle.size === 0) this.#stopSweeping();
  };

  readonly #onGone = (connection: OriginConnection): void => {
    this.#all.delete(connection);
  };
}
