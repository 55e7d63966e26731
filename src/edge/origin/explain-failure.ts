// Finds out why an origin failed a proxy in front of us (D66): the request itself is not sent again, since the origin may have had it.
// A connection is made and closed, so that what keeps it from being made is told.

import type { Clock } from '../../base/clock.ts';
import type { ReportedFailure } from '../zone/client-address.ts';
import { beginDial, type DialParts } from './dial-origin.ts';
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
  /** Called once, perhaps at once, unless it was given up. @param fromMemory whether the origin was known to be down */
  readonly onFound: (failure: OriginFailure, fromMemory: boolean) => void;
}

/** The failure where the origin can be connected to. */
function whereUp(
  target: OriginTarget,
  reported: Exclude<ReportedFailure, { readonly kind: 'known' }>,
  { clock, responseTimeoutMs }: ExplainParts,
): OriginFailure {
  const cause = 'reported by the proxy in front; the origin can be connected to';
  if (reported.kind === 'connect') return { code: target.secure ? 525 : 521, cause };
  // Clocks of two machines differ, but not by as much as a timeout and the end of a connection do.
  return { code: clock.now() - reported.at >= responseTimeoutMs - 1000 ? 524 : 520, cause };
}

const nothing = (): void => undefined;

/** Finds out why an origin failed. @returns gives up; does nothing once the reason is found */
export function explainFailure(target: OriginTarget, reported: ReportedFailure, parts: ExplainParts): () => void {
  const { dial, onFound } = parts;
  if (reported.kind === 'known') {
    onFound({ code: reported.code, cause: 'reported by the proxy in front' }, false);
    return nothing;
  }
  const timeout = Math.min(dial.connectTimeoutMs, connectTimeoutMs);
  const begun = beginDial(
    target,
    { ...dial, connectTimeoutMs: timeout },
    {
      onConnected(socket) {
        socket.on('error', nothing).destroy();
        onFound(whereUp(target, reported, parts), false);
      },
      onDialFailed: (failure) => onFound(failure, false),
    },
  );
  if (!('code' in begun)) return () => begun.abort();
  onFound(begun, true);
  return nothing;
}
