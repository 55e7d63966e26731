// Connects to the first origin that takes the connection: address check, PROXY header, then TLS (D84).

import { connect } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { errorCode, errorMessage } from '../../base/errors.ts';
import { type Connection, resetConnection } from '../../base/net/reset-connection.ts';
import { hostPort } from '../../base/net/socket-address.ts';
import type { ForwardingPlan } from '../application/application.ts';
import { isOriginsFault, type OriginAddress, unreachableReason } from '../origins/origin.ts';
import { keepAliveMs, type ProxyListenerParts, type RunningApplication } from './listener.ts';
import { type Endpoint, proxyHeader } from './proxy-header.ts';
import { TlsCarrier } from './tls-carrier.ts';

/** What a connection to an origin is for. */
export interface OriginRequest {
  readonly edgePort: number;
  readonly client: Endpoint;
  /** Where the client connected to. The system is asked for it only where an origin is told. */
  readonly edge: () => Endpoint;
  /** Gives up; its reason is a text. */
  readonly signal: AbortSignal;
}

/** A connection to an origin, or why there is none. */
export type ConnectedOrigin =
  | { readonly ok: true; readonly end: Connection; readonly origin: OriginAddress }
  | {
      readonly ok: false;
      readonly reason: string;
      /** Given up from outside, which is nobody's failure. */
      readonly wasCut: boolean;
      /** The one tried last. */
      readonly origin?: OriginAddress;
    };

/** No attempt begins after so many connect timeouts, however many origins there are. */
const timeoutsInAll = 2;

interface ConnectAttempt {
  readonly plan: ForwardingPlan;
  readonly header: Buffer | undefined;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

function secure(carrier: TlsCarrier, origin: OriginAddress, plan: ForwardingPlan): TLSSocket {
  return connectTls({
    socket: carrier,
    servername: origin.name ?? plan.name,
    // `full` is encryption without a check, by the operator's choice (D84).
    rejectUnauthorized: plan.tls === 'strict',
  });
}

/** @throws the error of the socket or of TLS, or that it took too long */
function attempt(origin: OriginAddress, { plan, header, timeoutMs, signal }: ConnectAttempt): Promise<Connection> {
  return new Promise((resolve, reject) => {
    const raw = connect({
      host: origin.address,
      port: origin.port,
      ...(plan.sourceAddress === undefined ? {} : { localAddress: plan.sourceAddress }),
      allowHalfOpen: true,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: keepAliveMs,
      autoSelectFamily: false,
    });
    let end: Connection = { stream: raw, raw };
    let isSettled = false;
    const settle = (outcome: Error | Connection): void => {
      if (isSettled) return;
      isSettled = true;
      clearTimeout(timer);
      signal.removeEventListener('abort', abort);
      if (!(outcome instanceof Error)) return resolve(outcome);
      resetConnection(end);
      return reject(outcome);
    };
    const abort = (): void => settle(new Error(String(signal.reason)));
    const timer = setTimeout(() => settle(new Error(`no connection within ${timeoutMs} ms`)), timeoutMs);
    signal.addEventListener('abort', abort, { once: true });
    // These stay: an error between here and the splice must find a listener.
    raw.on('error', settle);
    raw.once('close', () => settle(new Error('closed before TLS was agreed on')));
    raw.once('connect', () => {
      if (header) raw.write(header);
      if (plan.tls === 'off' || plan.tls === 'flexible') return settle(end);
      const carrier = new TlsCarrier(raw);
      const stream = secure(carrier, origin, plan);
      end = { stream, raw, carrier };
      stream.on('error', settle);
      stream.once('secureConnect', () => {
        // Half an answer would be taken for the whole where the origin was cut off.
        carrier.mindEndOf(stream);
        settle(end);
      });
    });
  });
}

function whenAborted(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    else signal.addEventListener('abort', () => resolve(undefined), { once: true });
  });
}

/** Tries the origins in order, each once for at most the connect timeout. Never rejects for a failure of an origin. */
export async function connectOrigin(
  application: RunningApplication,
  request: OriginRequest,
  { limits, refuseOrigin }: ProxyListenerParts,
): Promise<ConnectedOrigin> {
  const { plan } = application;
  const { signal, edgePort } = request;
  const { connectTimeoutMs } = limits(plan);
  // Names that take long to resolve hold up no drain.
  const found = await Promise.race([application.origins.candidates(edgePort), whenAborted(signal)]);
  const { origins, why } = found ?? { origins: [] };
  const lastBegin = performance.now() + timeoutsInAll * connectTimeoutMs;
  const header = proxyHeader(plan, request.client, request.edge);
  const failures: string[] = [];
  let last: OriginAddress | undefined;
  for (const origin of origins) {
    if (signal.aborted || performance.now() > lastBegin) break;
    last = origin;
    const name = hostPort(origin.address, origin.port);
    // D84: checked on the address itself, whatever a name resolved to since the application was judged.
    const refused = refuseOrigin(origin, plan);
    if (refused !== undefined) {
      failures.push(`${name}: ${refused}`);
      continue;
    }
    try {
      const end = await attempt(origin, { plan, header, timeoutMs: connectTimeoutMs, signal });
      application.origins.succeeded(origin);
      return { ok: true, end, origin };
    } catch (error) {
      if (signal.aborted) break;
      const code = errorCode(error);
      failures.push(`${name}: ${code ?? errorMessage(error)}`);
      if (isOriginsFault(code)) application.origins.failed(origin);
    }
  }
  const tried = last && { origin: last };
  if (signal.aborted) return { ok: false, wasCut: true, reason: String(signal.reason), ...tried };
  return { ok: false, wasCut: false, reason: unreachableReason(failures, why), ...tried };
}
