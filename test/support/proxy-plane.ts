// A data plane of a test's own: plans that it changes, origins and clients on loopback.

import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import type { DirectOrigin, ForwardingPlan } from '../../src/proxy/application/application.ts';
import { createResolver } from '../../src/proxy/origins/dns-cache.ts';
import { createOrigins, type OriginAddress, type Origins } from '../../src/proxy/origins/origins.ts';
import { DataPlane } from '../../src/proxy/plane/data-plane.ts';
import { type DataPlaneConfigured, type DataPlaneParts, readLimits } from '../../src/proxy/plane/data-plane-parts.ts';
import type { DataPlaneLimits } from '../../src/proxy/traffic/listener.ts';
import { logLines } from './log-lines.ts';

/** An address of loopback that no other test uses: every port of it is free. */
export function loopbackAddress(): string {
  const part = (from: number) => from + Math.floor(Math.random() * (250 - from));
  return `127.${part(64)}.${part(1)}.${part(2)}`;
}

/** The edge ports of the tests are bound so much higher: no privilege is needed. */
export const testOffset = 20_000;

/** A plan for one TCP port and one origin; what is given goes over it. */
export function planOf(given: Partial<ForwardingPlan> & Pick<ForwardingPlan, 'addresses'>): ForwardingPlan {
  return {
    id: 'a0'.repeat(16),
    zone: '1'.repeat(32),
    account: 'a1'.repeat(16),
    name: 'app.example.com',
    transport: 'tcp',
    ports: { first: 22, last: 22 },
    origin: { kind: 'direct', origins: [] },
    proxyProtocol: 'off',
    tls: 'off',
    firewall: { block: [], allow: [] },
    ...given,
  };
}

/** The origin part of a plan, for places where something listens. */
export function directTo(...places: readonly { readonly address: string; readonly port: number }[]) {
  const origins: DirectOrigin[] = places.map(({ address, port }) => ({ address, ports: { first: port, last: port } }));
  return { kind: 'direct', origins } as const;
}

/** What happened to the origins of the plane. */
export interface OriginLog {
  readonly failed: OriginAddress[];
  readonly succeeded: OriginAddress[];
}

const resolve = createResolver({ zones: [{ name: 'example.com', records: { origin: { A: ['127.0.0.1'] } } }] });

/** The origins of a plan, whose failures and successes a test can read; `origin.example.com` is 127.0.0.1. */
export function loggedOrigins(plan: ForwardingPlan, log: OriginLog): Origins {
  const origins = createOrigins(plan, { resolve, clock: systemClock });
  return {
    ...origins,
    succeeded(one) {
      log.succeeded.push(one);
      origins.succeeded(one);
    },
    failed(one) {
      log.failed.push(one);
      origins.failed(one);
    },
  };
}

/** A plane and what the test may do with it. */
export interface TestPlane extends Pick<DataPlane, keyof DataPlane> {
  /** Puts plans in place of those before and waits until they are applied. */
  readonly apply: (...plans: readonly ForwardingPlan[]) => Promise<void>;
  readonly origins: OriginLog;
  /** Lines of the log at level info and above. */
  readonly lines: readonly Record<string, unknown>[];
}

/** Starts a plane with some plans; it is drained when the test ends. */
export async function startPlane(
  plans: readonly ForwardingPlan[],
  given: Partial<DataPlaneParts> &
    Partial<DataPlaneConfigured['settings']> & {
      readonly drainMs?: number;
      readonly limits?: Partial<DataPlaneLimits>;
    } = {},
): Promise<TestPlane> {
  const { portOffset = testOffset, originDeny = [], originAllow = [], drainMs = 30_000, limits = {}, ...parts } = given;
  let stored = plans;
  const { log, lines } = logLines();
  const origins: OriginLog = { failed: [], succeeded: [] };
  const plane = new DataPlane({
    plans: async () => stored,
    now: () => ({ settings: { portOffset, originDeny, originAllow }, drainMs }),
    limitsOf: (plan) => ({ ...readLimits({}).limitsOf(plan), ...limits }),
    certificate: () => undefined,
    createOrigins: (plan) => loggedOrigins(plan, origins),
    clock: systemClock,
    log,
    ...parts,
  });
  onTestFinished(() => plane.drain(0));
  await plane.reconcile();
  return {
    reconcile: () => plane.reconcile(),
    renewCertificates: () => plane.renewCertificates(),
    status: (id) => plane.status(id),
    traffic: (id) => plane.traffic(id),
    totals: () => plane.totals(),
    reports: () => plane.reports(),
    open: () => plane.open(),
    drain: (withinMs) => plane.drain(withinMs),
    apply: (...next) => {
      stored = next;
      return plane.reconcile();
    },
    origins,
    lines,
  };
}

/** A server of a test's own, on a free port of its own address unless told otherwise. */
export interface TestServer {
  readonly address: string;
  readonly port: number;
  /** Every connection so far. */
  readonly sockets: readonly Socket[];
  /** Stops listening and cuts what is open. */
  readonly stop: () => Promise<void>;
}

/** Listens; half-open connections are allowed. Stopped when the test ends. */
export async function tcpServer(
  serve: (socket: Socket) => void,
  at: { readonly address?: string; readonly port?: number } = {},
): Promise<TestServer> {
  const address = at.address ?? '127.0.0.1';
  const sockets: Socket[] = [];
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.push(socket);
    // Resets are part of the tests; whoever cares listens itself.
    socket.on('error', () => undefined);
    serve(socket);
  });
  server.listen(at.port ?? 0, address);
  await once(server, 'listening');
  const stop = async (): Promise<void> => {
    for (const socket of sockets) socket.destroy();
    if (server.listening) await new Promise((resolve) => server.close(resolve));
  };
  onTestFinished(stop);
  const bound = server.address() as AddressInfo;
  return { address, port: bound.port, sockets, stop };
}

/** A server that sends back what it gets and closes its half after the client's. */
export function echoServer(prefix = ''): Promise<TestServer> {
  return tcpServer((socket) => {
    if (prefix) socket.write(prefix);
    socket.pipe(socket);
  });
}

/** Connects to an edge port; half-open, errors are kept quiet. Destroyed when the test ends. */
export async function dial(address: string, edgePort: number, localAddress?: string): Promise<Socket> {
  const socket = connect({
    host: address,
    port: edgePort + testOffset,
    allowHalfOpen: true,
    ...(localAddress === undefined ? {} : { localAddress }),
  });
  onTestFinished(() => void socket.destroy());
  await once(socket, 'connect');
  socket.on('error', () => undefined);
  return socket;
}

/** How a connection ends that the gateway will not carry; the reset may be there before the connection is told. */
export function dialedEnd(address: string, edgePort: number, localAddress = '127.0.0.1'): Promise<string> {
  return endOf(connect({ host: address, port: edgePort + testOffset, localAddress }));
}

/** True if something takes connections there, whether it then keeps them or not. */
export function isOpen(address: string, edgePort: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: address, port: edgePort + testOffset });
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code === 'ECONNRESET'));
  });
}

/** Everything until the peer closes its half. @throws where the connection breaks before that */
export async function readToEnd(socket: Socket): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of socket) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

/** So many octets, as soon as they are there; the socket stays open. */
export function readOctets(socket: Socket, wanted: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let got = 0;
    const take = (chunk: Buffer): void => {
      chunks.push(chunk);
      got += chunk.length;
      if (got < wanted) return;
      socket.off('data', take);
      socket.off('close', gone);
      resolve(Buffer.concat(chunks));
    };
    const gone = (): void => reject(new Error(`closed after ${got} of ${wanted} octets`));
    socket.on('data', take);
    socket.once('close', gone);
  });
}

/** How a connection ended: by FIN, or the code of its error. */
export function endOf(socket: Socket): Promise<string> {
  return new Promise((resolve) => {
    socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    socket.once('end', () => resolve('end'));
    socket.resume();
  });
}

/** Waits until something holds; the test's own time limit ends it. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 5));
}
