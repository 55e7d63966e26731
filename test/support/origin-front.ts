// A small front for the reverse proxy: a real node:http server that hands every request to it, with one zone.

import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Logger } from '../../src/base/log.ts';
import { silentLog } from '../../src/base/log.ts';
import type { Forwarded, OriginProxy } from '../../src/edge/origin.ts';
import { createOriginProxy, type OriginProxyParts } from '../../src/edge/origin-proxy.ts';
import type { EdgeZone } from '../../src/edge/zone.ts';

/** A running front. */
export interface OriginFront {
  readonly port: number;
  readonly proxy: OriginProxy;
  readonly server: Server;
  /** Codes that the proxy asked for, in order. */
  readonly failures: readonly number[];
  close(): Promise<void>;
}

/** What a test may set. */
export interface FrontOptions
  extends Partial<Pick<OriginProxyParts, 'clock' | 'lookup' | 'ca' | 'tunnelIdleSeconds' | 'clientStallSeconds'>> {
  readonly origin: NonNullable<EdgeZone['origin']>;
  readonly hostnames?: readonly string[];
  readonly connectTimeoutSeconds?: number;
  readonly responseTimeoutSeconds?: number;
  readonly forwarded?: Partial<Pick<Forwarded, 'clientAddress' | 'forwardedFor' | 'scheme'>>;
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
  const { clock, lookup, ca, tunnelIdleSeconds, clientStallSeconds } = options;
  const proxy = createOriginProxy({
    settings: {
      maxHeaderBytes: 32_768,
      connectTimeoutSeconds: options.connectTimeoutSeconds ?? 10,
      responseTimeoutSeconds: options.responseTimeoutSeconds ?? 10,
      trustedProxies: [],
    },
    log: options.log ?? silentLog,
    ...(clock ? { clock } : {}),
    ...(lookup ? { lookup } : {}),
    ...(ca === undefined ? {} : { ca }),
    ...(tunnelIdleSeconds === undefined ? {} : { tunnelIdleSeconds }),
    ...(clientStallSeconds === undefined ? {} : { clientStallSeconds }),
  });
  const zone = {
    id: '1'.repeat(32),
    name: 'example.com',
    account: 'a1'.repeat(16),
    hostnames: options.hostnames ?? ['example.com'],
    origin: options.origin,
  };
  const forwarded = (fail: (code: number) => void): Forwarded => ({
    zone,
    rayId: frontRay,
    clientAddress: '127.0.0.1',
    forwardedFor: [],
    scheme: 'http',
    ...options.forwarded,
    fail: (code) => {
      failures.push(code);
      fail(code);
    },
  });
  const server = createServer({ requireHostHeader: false, keepAliveTimeout: 30_000 }, (request, response) =>
    forward(request, response),
  );
  const forward: Parameters<typeof createServer>[1] & object = (request, response) => {
    const fail = (code: number): void => {
      const body = marker(code);
      response.writeHead(530, { 'Content-Length': body.length, 'Content-Type': 'text/plain' });
      response.end(body);
    };
    proxy.forward(request, response, forwarded(fail));
  };
  server.on('checkContinue', forward);
  server.on('upgrade', (request, socket, head) => {
    const fail = (code: number): void => {
      const body = marker(code);
      socket.end(`HTTP/1.1 530 Error\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`);
    };
    proxy.upgrade(request, socket, head, forwarded(fail));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    proxy,
    server,
    failures,
    close: async () => {
      server.close();
      server.closeAllConnections();
      await proxy.close(0);
    },
  };
}
