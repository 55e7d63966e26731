// Finds out why an origin failed a proxy in front of us (D66): the request itself is not sent again, since the origin may have had it.
// A connection is made and closed, so that what keeps it from being made is told.

import type { Socket } from 'node:net';
import type { Clock } from '../../base/clock.ts';
import type { ReportedFailure } from '../zone/client-address.ts';
import { beginDial, type Dial, type Dialling, type DialParts } from './dial-origin.ts';
import type { OriginFailure } from './origin-failure.ts';
import type { OriginTarget } from './origin-target.ts';

/** The proxy in front has waited for its client already. */
const connectTimeoutMs = 2000;

/** What explaining needs. */
export interface ExplainParts {
  readonly dial: DialParts;
  readonly clock: Clock;
  /** Milliseconds without a head after which a proxy in front gives up. */
  readonly responseTimeoutMs: number;
  /** Called once, unless it was given up. @param fromMemory whether the origin was known to be down */
  readonly onFound: (failure: OriginFailure, fromMemory: boolean) => void;
}

/** The failure where the origin can be connected to. */
function whereUp(target: OriginTarget, reported: ReportedFailure, { clock, responseTimeoutMs }: ExplainParts) {
  const cause = 'reported by the proxy in front; the origin can be connected to';
  if (reported.kind === 'known') return { code: reported.code, cause: 'reported by the proxy in front' } as const;
  if (reported.kind === 'connect') return { code: target.secure ? 525 : 521, cause } as const;
  // Clocks of two machines differ, but not by as much as a timeout and the end of a connection do.
  return { code: clock.now() - reported.at >= responseTimeoutMs - 1000 ? 524 : 520, cause } as const;
}

/** One search for the reason. */
export class ExplainedFailure implements Dialling {
  readonly #target: OriginTarget;
  readonly #reported: ReportedFailure;
  readonly #parts: ExplainParts;
  #dial: Dial | undefined;

  constructor(target: OriginTarget, reported: ReportedFailure, parts: ExplainParts) {
    this.#target = target;
    this.#reported = reported;
    this.#parts = parts;
  }

  /** Begins; `onFound` may be called at once. */
  begin(): void {
    if (this.#reported.kind === 'known') {
      this.#parts.onFound(whereUp(this.#target, this.#reported, this.#parts), false);
      return;
    }
    const { dial } = this.#parts;
    const timeout = Math.min(dial.connectTimeoutMs, connectTimeoutMs);
    const begun = beginDial(this.#target, { ...dial, connectTimeoutMs: timeout }, this);
    if ('code' in begun) this.#parts.onFound(begun, true);
    else this.#dial = begun;
  }

  /** Gives up, because the client has gone or the edge ends. Does nothing once it is found. */
  abort(): void {
    this.#dial?.abort();
  }

  onConnected(socket: Socket): void {
    socket.on('error', () => undefined).destroy();
    this.#parts.onFound(whereUp(this.#target, this.#reported, this.#parts), false);
  }

  onDialFailed(failure: OriginFailure): void {
    this.#parts.onFound(failure, false);
  }
}
