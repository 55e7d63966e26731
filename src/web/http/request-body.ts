// Reads the body of a request under /client/v4. Its type and announced size are judged first, then its JSON is read (D5, D42a).

import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { BodyBudget, BodyReservation } from '../../base/body-budget.ts';
import { freeOctets } from '../../base/free-octets.ts';
import { yieldToEventLoop } from '../../base/yield-to-event-loop.ts';
import { Refusal, refusal } from './envelope.ts';
import { type JsonOptions, readJson } from './json/json-reader.ts';
import { jsonSliceOctets } from './json/json-string.ts';
import { documentFaults } from './schema-faults.ts';

function tooLarge(limit: number): Refusal {
  const message = `The request body is over ${limit} octets`;
  return new Refusal([{ token: 'E_CONTENT_TOO_LARGE', message, status: 413 }]);
}

function noRoom(): Refusal {
  return refusal('E_NO_ROOM', 'Too much mail is under way, try again later', 10);
}

/** Judges what a request says of its body, and reserves room. @param takes room, octets, media types @throws Refusal 413, 415, 503 */
export function admitBody(
  request: FastifyRequest,
  reply: FastifyReply,
  takes: { readonly bodies: BodyBudget; readonly limit: number; readonly types?: readonly string[] | undefined },
): void {
  judgeAnnounced(request.headers, takes);
  reserveBody(request, takes.bodies);
  if (request.headers.expect !== undefined) reply.raw.writeContinue();
}

/** Reserves room for a body a step at a time, so that one that does not come has no more than its share; given back with the answer. */
function reserveBody(request: FastifyRequest, bodies: BodyBudget): void {
  const { 'content-length': length, 'transfer-encoding': coding } = request.headers;
  if (coding === undefined && (length === undefined || length === '0')) return;
  const { account, credential } = request.submitter ?? {};
  const token = credential && { credential: credential.name };
  const owner = { door: 'http', account: account?.id ?? '', ...token, address: request.ip } as const;
  if (!bodies.admits(owner, Number(length ?? 0))) throw noRoom();
  const reservation = bodies.open(owner);
  if (!reservation.grow(1)) throw noRoom();
  request.bodyReservation = reservation;
}

const usualTypes = ['application/json'] as const;
const charset = /;[ \t]*charset=(?:"([^"]*)"|([^;" \t]*))/i;

/** Judges the body's announced type and length, before an octet of it is read. @throws Refusal 413, 415 */
function judgeAnnounced(
  headers: FastifyRequest['headers'],
  takes: { readonly limit: number; readonly types?: readonly string[] | undefined },
): void {
  const { limit, types = usualTypes } = takes;
  const length = headers['content-length'];
  if (length === undefined && headers['transfer-encoding'] === undefined) return;
  if (length !== undefined && Number(length) > limit) throw tooLarge(limit);
  if (length === '0') return;
  const type = headers['content-type'] ?? '';
  // RFC 9110 §8.3.1: parameters stand behind it, and its case does not count.
  if (!types.includes((type.split(';', 1)[0] ?? '').trim().toLowerCase())) {
    const given = type === '' ? 'no Content-Type' : JSON.stringify(type.slice(0, 100));
    throw refusal('E_UNSUPPORTED_MEDIA_TYPE', `The body must be ${types.join(' or ')}, got ${given}`);
  }
  const named = charset.exec(type);
  const name = named?.[1] ?? named?.[2];
  if (name !== undefined && name.toLowerCase() !== 'utf-8' && name.toLowerCase() !== 'utf8') {
    const message = `JSON is UTF-8 (RFC 8259 §8.1), got charset ${JSON.stringify(name.slice(0, 100))}`;
    throw refusal('E_UNSUPPORTED_MEDIA_TYPE', message);
  }
  const coding = headers['content-encoding'];
  if (coding !== undefined && coding.toLowerCase() !== 'identity') {
    const given = JSON.stringify(coding.slice(0, 100));
    const message = `Content-Encoding ${given} is not taken, send the body uncompressed`;
    throw refusal('E_UNSUPPORTED_MEDIA_TYPE', message);
  }
}

const firstRoom = 65_536;

/** Gives a body more room, a multiple of what has come: one that is announced and does not come takes none. */
function enlarge(
  octets: Buffer,
  needed: number,
  { limit, length }: { readonly limit: number; readonly length: number | undefined },
) {
  // Of a known length it ends without a rest, so it may grow faster: an eighth is copied, and an eighth held twice for a moment.
  const next = Math.max(firstRoom, needed * (length === undefined ? 2 : 8));
  const larger = Buffer.allocUnsafeSlow(Math.min(next, length ?? limit));
  octets.copy(larger);
  freeOctets(octets);
  return larger;
}

/** Collects a body of at most `limit` octets. A larger one is not destroyed: its client would never read the answer. */
function collect(
  stream: Readable,
  at: {
    readonly limit: number;
    readonly length: number | undefined;
    readonly reservation: BodyReservation | undefined;
  },
): Promise<Buffer> {
  const { limit, length, reservation } = at;
  let octets: Buffer = Buffer.alloc(0);
  let received = 0;
  return new Promise((resolve, reject) => {
    const leave = (): void => {
      stream.off('data', take).off('end', end).off('error', fail).off('close', gone);
    };
    const fail = (reason: Error): void => {
      leave();
      stream.pause();
      reject(reason);
    };
    const gone = (): void => fail(new Error('The client went away'));
    const end = (): void => {
      leave();
      resolve(received === octets.length ? octets : octets.subarray(0, received));
    };
    const take = (chunk: Buffer): void => {
      const needed = received + chunk.length;
      if (needed > limit) fail(tooLarge(limit));
      else if (reservation?.grow(needed) === false) fail(noRoom());
      else {
        received = needed;
        // A body that comes in one piece is read where it stands.
        if (chunk.length === length) octets = chunk;
        else octets = append(octets, chunk, { needed, limit, length });
      }
    };
    stream.on('data', take).on('end', end).on('error', fail).on('close', gone);
    // Who went away while the request was being judged tells it no more.
    if (stream.destroyed) gone();
  });
}

/** Puts a piece behind the octets that came before it, and frees it. */
function append(
  octets: Buffer,
  chunk: Buffer,
  at: { readonly needed: number; readonly limit: number; readonly length: number | undefined },
): Buffer {
  const room = at.needed > octets.length ? enlarge(octets, at.needed, at) : octets;
  chunk.copy(room, at.needed - chunk.length);
  // Otherwise a large body would be in memory twice until the next garbage collection.
  freeOctets(chunk);
  return room;
}

/** The SHA-256 of octets in hex, computed in slices. */
async function digestOf(octets: Buffer): Promise<string> {
  const hash = createHash('sha256');
  for (let start = 0; start < octets.length; start += jsonSliceOctets) {
    if (start > 0) await yieldToEventLoop();
    hash.update(octets.subarray(start, start + jsonSliceOctets));
  }
  return hash.digest('hex');
}

/** How a route takes its body. */
export interface BodyOptions extends JsonOptions {
  /** The most octets; absent: the limit of the app. */
  readonly bodyBytes?: number;
  /** The handler itself judges repeated names and the schema's errors (used with `attachValidation`). */
  readonly ownBodyFaults?: boolean;
  /** The handler has to tell one body from another: `request.bodyDigest` gets the SHA-256 of the octets. */
  readonly digestBody?: boolean;
}

/** The most octets of a body that a route takes. */
export function bodyLimit(request: FastifyRequest, fallback: number): number {
  return request.routeOptions.config.bodyBytes ?? fallback;
}

/** Makes an app read its bodies by the functions of this file. */
export function readBodies(app: FastifyInstance, defaultBytes: number): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', async (request: FastifyRequest, payload: IncomingMessage) => {
    const limit = bodyLimit(request, defaultBytes);
    const header = request.headers['content-length'];
    const length = header === undefined ? undefined : Number(header);
    if (length === 0) return undefined;
    const octets = await collect(payload, { limit, length, reservation: request.bodyReservation });
    // Some clients send Content-Type without a body, with DELETE for example.
    if (octets.length === 0) return undefined;
    const { digestBody } = request.routeOptions.config;
    if (digestBody === true && request.headers['idempotency-key'] !== undefined) {
      request.bodyDigest = await digestOf(octets);
    }
    const read = await readJson(octets, request.routeOptions.config);
    if (!read.ok) throw refusal('E_VALIDATION_ERROR', `The body is no JSON that can be read: ${read.reason}`);
    request.document = read.document;
    request.bodyOctets = octets.length;
    return read.document.value;
  });
  // The room is not given back when the client goes away: the body is in memory for as long as a handler works on it.
  app.addHook('onSend', (request, _reply, payload, done) => {
    request.bodyReservation?.release();
    done(null, payload);
  });
  app.addHook('preHandler', (request, _reply, done) => {
    const { document, routeOptions } = request;
    const faults = document && routeOptions.config.ownBodyFaults !== true ? documentFaults(document) : [];
    done(faults.length > 0 ? new Refusal(faults) : undefined);
  });
}
