// The open parts of the gateway, and how they are closed: in order, and each one even if another fails to close.

import type { Clock } from '../../base/clock.ts';
import { within } from '../../base/load/maybe-promise.ts';
import type { Delivery } from '../../delivery/delivery.ts';
import type { WebhookSender } from '../../delivery/webhooks/sender.ts';
import type { SmtpDoor } from '../../doors/smtp/smtp-door.ts';
import type { OpenEdge } from '../../edge/open-edge.ts';
import type { HttpApp } from '../../web/http/app.ts';
import type { LiveProxy } from './live/live-proxy.ts';

/** The parts that are open and must be closed: listeners and runners, then the stores, in the order in which they were opened. */
export interface Running {
  door?: Pick<SmtpDoor, 'drain'>;
  http?: Pick<HttpApp, 'close'>;
  edge?: Pick<OpenEdge, 'close'>;
  delivery?: Pick<Delivery, 'drain'>;
  proxy?: Pick<LiveProxy, 'drain'>;
  webhooks?: Pick<WebhookSender, 'stop'>;
  isDraining: boolean;
  readonly stores: (() => void | Promise<void>)[];
  /** What asks a server of a database: it can give up what waits for an answer. */
  readonly askers: { abandon?(): void }[];
}

/** How long requests of webhooks may take to end, in milliseconds; what is not through is sent again after the next start. */
const webhookEndMs = 5000;
/** How long HTTP may take to close, in milliseconds. It closes last, because /readyz tells that the rest is stopping. */
const httpEndMs = 5000;
/** After the drain time, how long a database may take to answer, in milliseconds: an outcome that it keeps is not sent again. */
const answerMs = 2000;

/** Closes mail and proxy applications, then HTTP, so that /readyz says 503 meanwhile (D97), then the stores; throws the first error. */
export async function stopAll(running: Running, { drainMs, clock }: { drainMs: number; clock: Clock }): Promise<void> {
  running.isDraining = true;
  const deadline = clock.monotonic() + drainMs;
  const giveUp = setTimeout(() => {
    for (const asker of running.askers) asker.abandon?.();
  }, drainMs + answerMs);
  // All at the same time: an attempt begun while sessions drain would be cut off at the deadline, and its message sent again.
  const mail = Promise.allSettled([
    running.door?.drain(drainMs),
    running.delivery?.drain(drainMs),
    running.proxy?.drain(drainMs),
    running.webhooks?.stop(Math.min(drainMs, webhookEndMs)),
  ]);
  const endOfHttpMs = Math.min(httpEndMs, drainMs / 2);
  await within(drainMs - endOfHttpMs, mail);
  const leftMs = Math.max(endOfHttpMs, deadline - clock.monotonic());
  const others = await Promise.allSettled([running.http?.close(leftMs), running.edge?.close(leftMs)]);
  const ends: PromiseSettledResult<unknown>[] = [...(await mail), ...others];
  for (const close of running.stores.toReversed()) ends.push(...(await Promise.allSettled([(async () => close())()])));
  clearTimeout(giveUp);
  const failed = ends.find((end) => end.status === 'rejected');
  if (failed) throw failed.reason;
}
