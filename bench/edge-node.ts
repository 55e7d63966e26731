// What Node itself costs, for bench:edge, in a process of its own: node:http and nothing else, no log, no limits, no Ray-ID. As
// `server` it answers from memory; as `proxy` it takes each request to the origin, with http.request and pipe as anybody writes them
// first. Prints its port. Arguments: server or proxy, the port of the origin, the port where nobody listens.

import { Agent, request as ask, createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { closedPort, errorPages } from './edge-asks.ts';

const [, , kind, originPort] = process.argv;
const page = errorPages();
const bodies = new Map<string, Buffer>();
const agent = new Agent({ keepAlive: true, maxFreeSockets: 128 });

function body(path: string): Buffer {
  const made = bodies.get(path) ?? Buffer.alloc(Number(path.slice(1)), 'x');
  bodies.set(path, made);
  return made;
}

function answerError(request: IncomingMessage, response: ServerResponse, status: number): void {
  const { accept = '' } = request.headers;
  const [type, octets] = accept.includes('json')
    ? ['application/json', page.json]
    : accept.includes('markdown')
      ? ['text/markdown', page.markdown]
      : ['text/html', page.html];
  response.writeHead(status, { 'Content-Type': type, 'Content-Length': octets.length, 'Cache-Control': 'no-store' });
  response.end(octets);
}

function pass(request: IncomingMessage, response: ServerResponse): void {
  const { method, url, headers } = request;
  const port = headers.host === 'down.example' ? closedPort : Number(originPort);
  const asked = ask({ host: '127.0.0.1', port, method, path: url, headers, agent }, (reply) => {
    response.writeHead(reply.statusCode ?? 502, reply.headers);
    reply.pipe(response);
  });
  asked.on('error', () => answerError(request, response, 502));
  request.pipe(asked);
}

const server = createServer((request, response) => {
  const { url = '/' } = request;
  if (url.startsWith('/cdn-cgi/')) answerError(request, response, 522);
  else if (kind === 'proxy') pass(request, response);
  else {
    const octets = body(url);
    response.writeHead(200, { 'Content-Type': 'text/plain', ETag: '"bench"', 'Content-Length': octets.length });
    response.end(octets);
  }
});
server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port));
