// The minimal HTTP listener: /livez, /readyz and /metrics (D97). Everything else on it is a plain 404.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { ConfigurationError, errorMessage } from '../base/errors.ts';
import { randomHex } from '../base/ids.ts';
import type { Logger } from '../base/log.ts';

/** What the listener asks of the process. */
export interface HealthSources {
  /** True once every listener is up and until draining begins. */
  readonly ready: () => boolean;
  /** The Prometheus text and its content type. */
  readonly metrics: () => Promise<{ readonly contentType: string; readonly text: string }>;
  readonly log: Logger;
}

/** A running HTTP listener. */
export interface HealthServer {
  /** Binds; resolves to the address with the port that was taken. */
  listen(at: {
    readonly host: string;
    readonly port: number;
  }): Promise<{ readonly host: string; readonly port: number }>;
  close(): Promise<void>;
}

/** How long a request under way has to end once the listener closes. */
const closeGraceMs = 500;

function answer(
  response: ServerResponse,
  status: number,
  text: string,
  contentType = 'text/plain; charset=utf-8',
): void {
  response.writeHead(status, {
    'Content-Type': contentType,
    'Content-Length': Buffer.byteLength(text),
    'Cache-Control': 'no-store',
    'Ray-ID': randomHex(8), // D62: one per response of any kind
  });
  response.end(response.req.method === 'HEAD' ? undefined : text);
}

async function route(request: IncomingMessage, response: ServerResponse, sources: HealthSources): Promise<void> {
  const path = (request.url ?? '/').split('?', 1)[0];
  if (path !== '/livez' && path !== '/readyz' && path !== '/metrics') {
    answer(response, 404, 'Not found\n');
    return;
  }
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    response.setHeader('Allow', 'GET, HEAD');
    answer(response, 405, 'Method not allowed\n');
    return;
  }
  if (path === '/livez') answer(response, 200, 'live\n');
  else if (path === '/readyz')
    answer(response, sources.ready() ? 200 : 503, sources.ready() ? 'ready\n' : 'not ready\n');
  else {
    const { contentType, text } = await sources.metrics();
    answer(response, 200, text, contentType);
  }
}

/** Makes the listener; it binds nothing before `listen`. */
export function createHealthServer(sources: HealthSources): HealthServer {
  const server: Server = createServer({ maxHeaderSize: 16_384, requestTimeout: 10_000 }, (request, response) => {
    route(request, response, sources).catch((error: unknown) => {
      sources.log.error({ err: error }, 'http request failed');
      if (!response.headersSent) answer(response, 500, 'Internal error\n');
      else response.destroy();
    });
  });
  return {
    listen: ({ host, port }) =>
      new Promise((resolve, reject) => {
        server.once('error', (cause) => {
          reject(new ConfigurationError(`Cannot listen on http ${host}:${port}: ${errorMessage(cause)}`, { cause }));
        });
        server.listen({ host, port }, () => {
          server.removeAllListeners('error');
          const address = server.address();
          if (address === null || typeof address === 'string') reject(new Error('The HTTP listener has no address'));
          else resolve({ host: address.address, port: address.port });
        });
      }),
    close: () =>
      new Promise((resolve) => {
        // A connection that has asked nothing yet, or half a question, is not idle to Node, and no timeout holds any more.
        const cut = setTimeout(() => server.closeAllConnections(), closeGraceMs);
        server.close(() => {
          clearTimeout(cut);
          resolve();
        });
        server.closeIdleConnections();
      }),
  };
}
