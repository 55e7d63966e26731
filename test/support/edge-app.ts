// The edge before the API on loopback, for tests: real catalogue, negotiation and rendering, real listeners. What a zone
// lets through is told back as JSON by an origin of the test's own, so that a test sees what would have reached one.
// When the test ends, every counter has to be back at zero.

import type { IncomingMessage } from 'node:http';
import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { expect, onTestFinished } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { createEdge, type EdgeParts } from '../../src/edge/open-edge.ts';
import type { Forwarded } from '../../src/edge/origin/message-heads.ts';
import type { EdgeZone } from '../../src/edge/zone/zone.ts';
import type { HttpAppParts } from '../../src/web/http/app.ts';
import { serverCertificates } from '../../src/web/http/listener/server-certificates.ts';
import type { V4Plugin } from '../../src/web/http/v4-app.ts';
import { testCertificate } from './certificate.ts';
import { edgeError } from './edge-occurrence.ts';
import { startHttpApp } from './http-app.ts';

/** What reached the origin. */
export interface Reached {
  readonly method: string;
  readonly target: string;
  readonly hosts: readonly string[];
  readonly zone: string;
  readonly clientAddress: string;
  readonly forwardedFor: readonly string[];
  readonly scheme: string;
}

function reached(request: IncomingMessage, { zone, clientAddress, forwardedFor, scheme }: Forwarded): Reached {
  const { method = '', url: target = '', rawHeaders } = request;
  const hosts = rawHeaders.filter((_, index) => index % 2 === 1 && rawHeaders[index - 1]?.toLowerCase() === 'host');
  return { method, target, hosts, zone: zone.name, clientAddress, forwardedFor, scheme };
}

/**
 * An origin that tells what reached it; `/fail/{code}` fails, `/crash` throws, `/hang` never answers, `/after/{ms}` answers
 * its target so much later.
 */
export function tellingOrigin(): EdgeParts['origins'] & { readonly seen: Reached[] } {
  const seen: Reached[] = [];
  return {
    seen,
    forward(request, response, forwarded) {
      const told = reached(request, forwarded);
      seen.push(told);
      if (told.target === '/crash') throw new Error('secret detail');
      if (told.target === '/hang') return;
      const wait = /^\/after\/(\d+)$/.exec(told.target)?.[1];
      if (wait !== undefined) {
        setTimeout(() => response.setHeader('Ray-ID', forwarded.rayId).end(told.target), Number(wait));
        return;
      }
      const code = /^\/fail\/(\d+)$/.exec(told.target)?.[1];
      if (code !== undefined) forwarded.fail(edgeError(Number(code)).code);
      else response.setHeader('Ray-ID', forwarded.rayId).end(JSON.stringify(told));
    },
    upgrade(request, socket, head, forwarded) {
      const told = reached(request, forwarded);
      seen.push(told);
      if (told.target === '/crash') throw new Error('secret detail');
      const code = /^\/fail\/(\d+)$/.exec(told.target)?.[1];
      if (code !== undefined) {
        forwarded.fail(edgeError(Number(code)).code);
        return;
      }
      socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
      socket.write(head);
      socket.pipe(socket);
    },
    explain: (forwarded) => {
      forwarded.fail(520);
      return () => undefined;
    },
  };
}

/** Zone `example.com` of account `dev`, with an origin. */
export const exampleZone: EdgeZone = {
  id: '1'.repeat(32),
  name: 'example.com',
  account: 'a1'.repeat(16),
  hostnames: ['example.com', 'www.example.com'],
  origin: 'http://127.0.0.1:1',
};

/** Starts both listeners; they are closed when the test ends. */
export async function startEdge(
  given: Partial<Omit<EdgeParts, 'settings'>> & {
    readonly settings?: Partial<EdgeParts['settings']>;
    readonly app?: Partial<HttpAppParts>;
    readonly plugins?: readonly V4Plugin[];
    readonly https?: boolean;
  } = {},
) {
  const origin = tellingOrigin();
  const { plugins = [], https = false, settings: givenSettings, app: appParts, ...parts } = given;
  const settings = {
    maxHeaderBytes: 32_768,
    afterCloseSeconds: 60,
    trustedProxies: [],
    limits: { requests: 1000, requestsPerZone: 1000, requestsPerAddress: 1000 },
    ...givenSettings,
  };
  const front = createEdge({
    zones: [exampleZone],
    settings,
    apiHosts: ['127.0.0.1', 'localhost'],
    customAnswer: () => undefined,
    origins: origin,
    docsBaseUrl: () => 'http://docs.example',
    clock: systemClock,
    log: silentLog,
    ...parts,
  });
  // Run in the opposite order: the app is closed before this looks.
  onTestFinished(() => expect(front.open(), 'requests to the edge still counted after the test').toBe(0));
  const { app, port } = await startHttpApp(plugins, { front, trustedProxies: settings.trustedProxies, ...appParts });
  if (!https) return { app, port, tlsPort: 0, origin, front, certificates: new Map<string, string>() };
  const hosts = ['example.com', 'www.example.com', 'mx.example'];
  const made = await Promise.all(
    hosts.map(async (host) => [host, await testCertificate([host, '127.0.0.1'])] as const),
  );
  const pairs = new Map(made.map(([host, { cert, key }]) => [host, { certificate: cert, privateKey: key }]));
  const { port: tlsPort } = await app.listen({ host: '127.0.0.1', port: 0 }, serverCertificates(pairs, 'example.com'));
  return { app, port, tlsPort, origin, front, certificates: new Map(made.map(([host, { cert }]) => [host, cert])) };
}

/** An answer as it came over the wire. */
export interface RawAnswer {
  readonly status: number;
  readonly statusLine: string;
  /** Names in lower case; the last of each. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** Everything that came, further answers too; one character an octet. */
  readonly all: string;
}

/** Reads the first answer of what came. */
export function readAnswer(all: string): RawAnswer {
  const end = all.indexOf('\r\n\r\n');
  const [statusLine = '', ...lines] = all.slice(0, end < 0 ? all.length : end).split('\r\n');
  const headers: Record<string, string> = {};
  for (const line of lines) {
    const colon = line.indexOf(':');
    headers[line.slice(0, colon).toLowerCase()] = line.slice(colon + 1).trim();
  }
  return {
    status: Number(statusLine.split(' ')[1]),
    statusLine,
    headers,
    body: end < 0 ? '' : all.slice(end + 4),
    all,
  };
}

function collect(socket: Socket): Promise<string> {
  return new Promise((resolve) => {
    let all = '';
    socket.setEncoding('latin1');
    socket.on('data', (text: string) => (all += text));
    // A connection that is cut has said what it had to say.
    socket.on('error', () => resolve(all));
    socket.on('close', () => resolve(all));
    onTestFinished(() => void socket.destroy());
  });
}

/** Writes octets (one character each), and reads until the other side closes; `Connection: close` is the caller's. */
export async function speak(port: number, text: string): Promise<RawAnswer> {
  const socket = connect(port, '127.0.0.1', () => socket.write(text, 'latin1'));
  return readAnswer(await collect(socket));
}

/** The same by TLS, with the name asked for in the handshake; '' for none. */
export async function speakTls(port: number, text: string, servername: string): Promise<RawAnswer> {
  const socket = connectTls({ port, host: '127.0.0.1', servername, rejectUnauthorized: false }, () => {
    socket.write(text, 'latin1');
  });
  return readAnswer(await collect(socket));
}

/** A request that ends its connection. */
export function get(host: string, target = '/', lines: readonly string[] = [], method = 'GET'): string {
  return [`${method} ${target} HTTP/1.1`, `Host: ${host}`, ...lines, 'Connection: close', '', ''].join('\r\n');
}
