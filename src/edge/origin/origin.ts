// The interface by which the edge hands a request to a zone's origin, between routing (D67) and the reverse proxy (D66).

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { EdgeCode } from '../errors/edge-error.ts';
import type { ReportedFailure } from '../zone/client-address.ts';
import type { ZoneWithOrigin } from './origin-target.ts';

/** A request for an origin, with what the edge knows of it. */
export interface Forwarded {
  readonly zone: ZoneWithOrigin;
  readonly rayId: string;
  /** The client's address (D66). */
  readonly clientAddress: string;
  /** What X-Forwarded-For says of earlier hops where the peer is a trusted proxy; empty otherwise. */
  readonly forwardedFor: readonly string[];
  /** The scheme by which the peer came. */
  readonly scheme: 'http' | 'https';
  /** The scheme by which the client came to the first trusted proxy; absent where there is none or it does not tell. */
  readonly forwardedProto?: 'http' | 'https';
  /** The host that the client asked the first trusted proxy for; absent in the same cases. */
  readonly forwardedHost?: string;
  /**
   * Answers an edge error in place of the origin. Called at most once, and only while nothing of an answer has been
   * written; after that a failure closes the connection (D66). `fromMemory`: the origin is known to be down and was not asked.
   */
  readonly fail: (code: EdgeCode, fromMemory?: boolean) => void;
}

/** The reverse proxy. */
export interface OriginProxy {
  /** Sends a request on and streams the answer back, with the Ray-ID; nothing is to be set in `response` before. Never throws. */
  forward(request: IncomingMessage, response: ServerResponse, forwarded: Forwarded): void;
  /**
   * Sends a request to upgrade on; `socket` is the client's, `head` what came behind the request. `fail` writes a
   * whole response to the socket and ends it. Never throws.
   */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer, forwarded: Forwarded): void;
  /**
   * Finds out why the origin failed a proxy in front, and calls `fail`. Nothing of the request is sent to the origin.
   * @param host that of the request
   * @returns gives up; must be called when the request has ended
   */
  explain(forwarded: Forwarded, reported: ReportedFailure, host: string): () => void;
  /** Upgraded connections and requests open now. */
  open(): number;
  /** Closes idle origin connections, and what is left of the others after so many milliseconds. */
  close(withinMs: number): Promise<void>;
}
