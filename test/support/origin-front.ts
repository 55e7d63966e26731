// A small front for the reverse proxy: a real listener that hands every request to it, with one zone. When it is closed,
// every counter has to be back at zero.

import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { expect } from 'vitest';
import { type Logger, silentLog } from '../../src/base/log.ts';
import { type AnswerSink, plainAnswer, ResponseSink, socketSink } from '../../src/edge/exchange.ts';
import type { Forwarded } from '../../src/edge/origin/message-heads.ts';
import { OriginProxy, type OriginProxyParts } from '../../src/edge/origin/origin-proxy.ts';
import type { EdgeZone } from '../../src/edge/zone/zone.ts';
import { HttpListener } from '../../src/web/http/listener/listener.ts';

/** A running front. */
export interface OriginFront {
  readonly port: number;
  readonly proxy: OriginProxy;
  /** Hears of the client's socket with each request. */
  onRequest(watch: (socket: Socket) => void): void;
  /** Codes that the proxy asked for, in order. */
  readonly failures: readonly number[];
  /** Of each of them, whether it was told from memory. */
  readonly fromMemory: readonly boolean[];
  close(): Promise<void>;
}

/** What a test may set. */
export interface FrontOptions
  extends Partial<Pick<OriginProxyParts, 'clock' | 'lookup' | 'ca' | 'tunnelIdleSeconds' | 'clientStallMs'>> {
  readonly origin: NonNullable<EdgeZone['origin']>;
  readonly hostnames?: readonly string[];
  readonly connectTimeoutSeconds?: number;
  readonly responseTimeoutSeconds?: number;
  readonly originDownSeconds?: number;
  readonly forwarded?: Partial<
    Pick<Forwarded, 'clientAddress' | 'forwardedFor' | 'forwardedProto' | 'forwardedHost' | 'scheme'>
  >;
  readonly log?: Logger;
}

/** The Ray-ID of every response. */
export const frontRay = '0123456789abcdef';

/** What the front writes for a failure: the code alone. */
export function marker(code: number): string {
  return `edge error ${code}`;
}

/** Starts a front whose zone is `example.com`. */
export async function originFront(options: FrontOptions): Promise<OriginFront> {
  const failures: number[] = [];
  const fromMemory: boolean[] = [];
  const { clock, lookup, ca, tunnelIdleSeconds, clientStallMs } = options;
  const proxy = new OriginProxy({
    settings: {
      maxHeaderBytes: 32_768,
      connectTimeoutSeconds: options.connectTimeoutSeconds ?? 10,
      responseTimeoutSeconds: options.responseTimeoutSeconds ?? 10,
      afterCloseSeconds: 5,
      originDownSeconds: options.originDownSeconds ?? 1,
      trustedProxies: [],
      limits: { requests: 1000, requestsPerZone: 1000, requestsPerAddress: 1000 },
    },
    log: options.log ?? silentLog,
    ...(clock ? { clock } : {}),
    ...(lookup ? { lookup } : {}),
    ...(ca === undefined ? {} : { ca }),
    ...(tunnelIdleSeconds === undefined ? {} : { tunnelIdleSeconds }),
    ...(clientStallMs === undefined ? {} : { clientStallMs }),
  });
  const zone = {
    id: '1'.repeat(32),
    name: 'example.com',
    account: 'a1'.repeat(16),
    hostnames: options.hostnames ?? ['example.com'],
    origin: options.origin,
  };
  const forwarded = (fail: (code: number) => void, sink: AnswerSink): Forwarded => ({
    zone,
    rayId: frontRay,
    clientAddress: '127.0.0.1',
    forwardedFor: [],
    scheme: 'http',
    ...options.forwarded,
    fail: (code, isKnown = false) => {
      failures.push(code);
      fromMemory.push(isKnown);
      fail(code);
    },
    refuse: (status) => sink.send(plainAnswer(status, STATUS_CODES[status] ?? '')),
  });
  const watchers: ((socket: Socket) => void)[] = [];
  const listener = new HttpListener({
    clientStallMs: options.clientStallMs,
    handlers: () => ({
      request(request, response) {
        for (const watch of watchers) watch(request.socket);
        const fail = (code: number): void => {
          const body = marker(code);
          response.writeHead(530, { 'Content-Length': body.length, 'Content-Type': 'text/plain' });
          response.end(body);
        };
        proxy.forward(request, response, forwarded(fail, new ResponseSink(response, frontRay)));
      },
      takesUpgrade: () => true,
      upgrade(request, socket, head) {
        const fail = (code: number): void => {
          const body = marker(code);
          socket.end(`HTTP/1.1 530 Error\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`);
        };
        proxy.upgrade(request, socket, head, forwarded(fail, socketSink(socket, frontRay)));
      },
      connect: (_request, socket) => void socket.destroy(),
    }),
  });
  const { port } = await listener.listen({ host: '127.0.0.1', port: 0 });
  return {
    port,
    proxy,
    failures,
    fromMemory,
    onRequest: (watch) => void watchers.push(watch),
    close: async () => {
      await listener.close(0);
      await proxy.close(0);
      expect({ ...listener.open(), origins: proxy.open() }, 'what is still counted as open').toEqual({
        connections: 0,
        answers: 0,
        upgraded: 0,
        waitingOctets: 0,
        origins: 0,
      });
    },
  };
}
