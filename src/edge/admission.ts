// Decides what becomes of a request at the edge: the edge answers it, or it goes to the zone's origin.

import { plainAnswer } from './answer-sink.ts';
import { isEdgeCode } from './errors/catalogue.ts';
import type { ErrorAnswer } from './errors/edge-error.ts';
import type { Exchange, Fail } from './exchange.ts';
import type { Forwarded } from './origin/origin.ts';
import type { ZoneWithOrigin } from './origin/origin-target.ts';
import { type GuardedZone, judgeRequest, type Verdict } from './zone/judge-request.ts';
import type { EdgeZone } from './zone/zone.ts';

/** What admission needs. */
export interface AdmissionParts {
  readonly fail: Fail;
  readonly maxHeaderBytes: number;
  /** The page about a code; undefined where there is no such code. */
  readonly referencePage: (code: number) => ErrorAnswer | undefined;
  readonly referenceIndex: () => ErrorAnswer | undefined;
}

function hasOrigin(zone: EdgeZone): zone is ZoneWithOrigin {
  return zone.origin !== undefined;
}

function referenceAnswer(parts: AdmissionParts, method: string, path: string): ErrorAnswer {
  const code = /^\/errors\/([1-9][0-9]{2,3})$/.exec(path)?.[1];
  const page =
    path === '/errors' ? parts.referenceIndex() : code === undefined ? undefined : parts.referencePage(Number(code));
  if (!page) return plainAnswer(404, 'Not found');
  const isRead = method === 'GET' || method === 'HEAD';
  return isRead ? page : plainAnswer(405, 'Method not allowed', { Allow: 'GET, HEAD' });
}

/** Answers a request that is for no zone. @returns the zone of one that is */
function zoneAsked(parts: AdmissionParts, exchange: Exchange): GuardedZone | undefined {
  const { request, arrival, zone, sink } = exchange;
  const { destination, path } = arrival.route;
  const { method = 'GET' } = request;
  if (destination === 'misdirected') parts.fail(exchange, 1013);
  else if (destination === 'reference') sink.send(referenceAnswer(parts, method, path));
  else if (destination === 'api-host') sink.send(plainAnswer(404, 'Not found'));
  else if (method === 'TRACE' && !zone) sink.send(plainAnswer(405, 'Method not allowed', { Allow: 'GET, HEAD' }));
  else if (!zone) parts.fail(exchange, destination === 'address' ? 1003 : 1004);
  else return zone;
  return undefined;
}

function judge({ maxHeaderBytes }: AdmissionParts, exchange: Exchange, zone: GuardedZone): Verdict | Promise<Verdict> {
  const { request, arrival, client, place } = exchange;
  const { path, target } = arrival.route;
  const { method = 'GET', rawHeaders } = request;
  const judged = { method, path, target, rawHeaders, clientAddress: client.address };
  const room = { maxHeaderBytes, isFull: () => place.isOver() };
  return judgeRequest(zone, judged, { room, hasError: isEdgeCode });
}

/**
 * Gives what goes with the request to the zone's origin; undefined where the edge has answered, or the client has gone while
 * other processes were asked.
 */
export function admit(
  parts: AdmissionParts,
  exchange: Exchange,
): Forwarded | undefined | Promise<Forwarded | undefined> {
  const guarded = zoneAsked(parts, exchange);
  if (!guarded) return undefined;
  const verdict = judge(parts, exchange, guarded);
  if (!(verdict instanceof Promise)) return act(parts, exchange, { guarded, verdict });
  return verdict.then((known) =>
    exchange.hasEnded === true ? undefined : act(parts, exchange, { guarded, verdict: known }),
  );
}

function act(
  { fail }: AdmissionParts,
  exchange: Exchange,
  { guarded, verdict }: { readonly guarded: GuardedZone; readonly verdict: Verdict },
): Forwarded | undefined {
  const { arrival, client, sink } = exchange;
  if (verdict.kind === 'not-found') sink.send(plainAnswer(404, 'Not found'));
  else if (verdict.kind === 'not-allowed') {
    sink.send(plainAnswer(405, 'Method not allowed', { Allow: verdict.allow }));
  } else if (verdict.kind === 'error') {
    if (verdict.asked) exchange.asked = true;
    fail(exchange, verdict.code, verdict.waitSeconds);
  } else if (!hasOrigin(guarded.zone)) fail(exchange, 1004);
  else {
    return {
      zone: guarded.zone,
      rayId: arrival.rayId,
      clientAddress: client.address,
      forwardedFor: client.forwardedFor,
      ...(client.forwardedProto === undefined ? {} : { forwardedProto: client.forwardedProto }),
      ...(client.forwardedHost === undefined ? {} : { forwardedHost: client.forwardedHost }),
      scheme: arrival.scheme,
      fail: (code, fromMemory) => {
        if (fromMemory) exchange.fromMemory = true;
        fail(exchange, code);
      },
    };
  }
  return undefined;
}
