// What the gateway has open, and how all of it is ended: in order, each part even if another cannot be.

import type { Clock } from '../base/clock.ts';
import type { Delivery } from '../deliver/delivery.ts';
import type { OpenEdge } from '../edge/open-edge.ts';
import type { HttpApp } from '../http/app.ts';
import type { SmtpDoor } from '../ingress/smtp/smtp-door.ts';
import type { Proxy } from '../proxy/proxy.ts';

/** What is open and must be ended: listeners and runners, then, in the order opened, what they write to. */
export interface Running {
  door?: Pick<SmtpDoor, 'drain'>;
  http?: Pick<HttpApp, 'close'>;
  edge?: Pick<OpenEdge, 'close'>;
  delivery?: Pick<Delivery, 'drain'>;
  proxy?: Pick<Proxy, 'drain'>;
  isDraining: boolean;
  readonly stores: (() => void | Promise<void>)[];
}

/** HTTP, which tells by /readyz that the rest is ending, has at most so long for its own end. */
const httpEndMs = 5000;
/**
 * Ends everything, whatever of it is there: mail and proxy applications first, HTTP last, so that /readyz says 503 while
 * they drain (D97), then the stores. Every part is ended even if another cannot be; the first error is thrown then.
 */
export async function stopAll(running: Running, { drainMs, clock }: { drainMs: number; clock: Clock }): Promise<void> {
  running.isDraining = true;
  const deadline = clock.monotonic() + drainMs;
  // All at once: an attempt that delivery began while sessions drain would be cut at the deadline, perhaps between the
  // end of its data and the reply, and sent again after the next start.
  const mail = Promise.allSettled([
    running.door?.drain(drainMs),
    running.delivery?.drain(drainMs),
    running.proxy?.drain(drainMs),
  ]);
  const endOfHttpMs = Math.min(httpEndMs, drainMs / 2);
  let patience: NodeJS.Timeout | undefined;
  await Promise.race([mail, new Promise((resolve) => (patience = setTimeout(resolve, drainMs - endOfHttpMs)))]);
  clearTimeout(patience);
  const leftMs = Math.max(endOfHttpMs, deadline - clock.monotonic());
  const others = await Promise.allSettled([running.http?.close(leftMs), running.edge?.close(leftMs)]);
  const ends: PromiseSettledResult<unknown>[] = [...(await mail), ...others];
  for (const close of running.stores.toReversed()) {
    ends.push(...(await Promise.allSettled([(async () => close())()])));
  }
  const failed = ends.find((end) => end.status === 'rejected');
  if (failed) throw failed.reason;
}
