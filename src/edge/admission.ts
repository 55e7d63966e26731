// Decides what becomes of a request at the edge: the edge answers it, or it goes to the zone's origin.

import { plainAnswer } from './answer-sink.ts';
import type { ErrorAnswer } from './errors/edge-error.ts';
import { errorReferenceIndex, errorReferencePage } from './errors/error-reference.ts';
import type { Exchange, Fail } from './exchange.ts';
import type { ZoneWithOrigin } from './origin/origin-target.ts';
import type { Forwarded } from './origin/request-head.ts';
import { type GuardedZone, judgeRequest, type Verdict } from './zone/judge-request.ts';
import type { EdgeZone } from './zone/zone.ts';

/** What admission needs. */
export interface AdmissionParts {
  readonly fail: Fail;
  readonly maxHeaderBytes: number;
}

function hasOrigin(zone: EdgeZone): zone is ZoneWithOrigin {
  return zone.origin !== undefined;
}

function referenceAnswer(method: string, path: string): ErrorAnswer {
  const code = /^\/errors\/([1-9][0-9]{2,3})$/.exec(path)?.[1];
  const page = path === '/errors' ? errorReferenceIndex() : errorReferencePage(Number(code));
  if (!page) return plainAnswer(404, 'Not found');
  const isRead = method === 'GET' || method === 'HEAD';
  return isRead ? page : plainAnswer(405, 'Method not allowed', { Allow: 'GET, HEAD' });
}

/** Answers a request that is for no zone. @returns the zone of one that is */
function zoneAsked(fail: Fail, exchange: Exchange): GuardedZone | undefined {
  const { request, arrival, zone, sink } = exchange;
  const { destination, path } = arrival.route;
  const { method = 'GET' } = request;
  if (destination === 'misdirected') fail(exchange, 1013);
  else if (destination === 'reference') sink.send(referenceAnswer(method, path));
  else if (destination === 'api-host') sink.send(plainAnswer(404, 'Not found'));
  else if (method === 'TRACE' && !zone) sink.send(plainAnswer(405, 'Method not allowed', { Allow: 'GET, HEAD' }));
  else if (!zone) fail(exchange, destination === 'address' ? 1003 : 1004);
  else return zone;
  return undefined;
}

/** What goes with the request to the zone's origin; undefined where the edge has answered, or the client has gone meanwhile. */
export function admit(
  { fail, maxHeaderBytes }: AdmissionParts,
  exchange: Exchange,
): Forwarded | undefined | Promise<Forwarded | undefined> {
  const guarded = zoneAsked(fail, exchange);
  if (!guarded) return undefined;
  const { request, arrival, client, place } = exchange;
  const { path, target } = arrival.route;
  const { method = 'GET', rawHeaders } = request;
  const judged = { method, path, target, rawHeaders, clientAddress: client.address };
  const verdict = judgeRequest(guarded, judged, { maxHeaderBytes, isFull: () => place.isOver() });
  if (!(verdict instanceof Promise)) return act(fail, exchange, guarded.zone, verdict);
  return verdict.then((known) => (exchange.hasEnded === true ? undefined : act(fail, exchange, guarded.zone, known)));
}

/** Does as the verdict says. @returns what `admit` does */
function act(fail: Fail, exchange: Exchange, zone: EdgeZone, verdict: Verdict): Forwarded | undefined {
  const { arrival, client, sink } = exchange;
  if (verdict.kind === 'not-found') sink.send(plainAnswer(404, 'Not found'));
  else if (verdict.kind === 'not-allowed') {
    sink.send(plainAnswer(405, 'Method not allowed', { Allow: verdict.allow }));
  } else if (verdict.kind === 'error') {
    if (verdict.asked) exchange.asked = true;
    fail(exchange, verdict.code, verdict.waitSeconds);
  } else if (!hasOrigin(zone)) fail(exchange, 1004);
  else {
    return {
      zone,
      rayId: arrival.rayId,
      clientAddress: client.address,
      forwardedFor: client.forwardedFor,
      forwardedProto: client.forwardedProto,
      forwardedHost: client.forwardedHost,
      scheme: arrival.scheme,
      fail: (code, fromMemory) => {
        if (fromMemory) exchange.fromMemory = true;
        fail(exchange, code);
      },
    };
  }
  return undefined;
}
