// Connects to the first origin that takes the connection: address check, PROXY header, then TLS over a TCP connection whose handle stays
// ours: it can be reset, and its end is told from that of TLS (RFC 8446 §6.1, D84).

import { connect, type Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { setImmediate } from 'node:timers';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { errorCode, errorMessage } from '../../base/errors.ts';
import { type Connection, resetConnection } from '../../base/net/reset-connection.ts';
import { hostPort } from '../../base/net/socket-address.ts';
import type { ForwardingPlan } from '../application/application.ts';
import { isOriginsFault, type OriginAddress, unreachableReason } from '../origins/origins.ts';
import { keepAliveMs, type PeerContext } from './listener.ts';
import { type Endpoint, proxyHeader } from './proxy-header.ts';

type Done = (error?: Error | null) => void;

/** The code of the error of a TLS connection whose peer was cut off: it closed without saying so by close_notify. */
const cutOffCode = 'ERR_TLS_NO_CLOSE_NOTIFY';

/** Carries TLS records over a stream of our own: laid on a socket, TLS writes past it, and a reset below ends the process. */
export class TlsCarrier extends Duplex {
  readonly #raw: Socket;
  #watched: TLSSocket | undefined;

  /** @param raw connected and without a reader; half-open allowed */
  constructor(raw: Socket) {
    // One octet: the socket is read from only while nothing waits here, so that its end comes behind all of it.
    super({ allowHalfOpen: true, readableHighWaterMark: 1 });
    this.#raw = raw;
    raw.on('data', (chunk: Buffer) => {
      if (!this.push(chunk)) raw.pause();
    });
    raw.once('end', () => this.#judgeEnd());
    raw.on('error', (error) => this.destroy(error));
    raw.once('close', () => {
      // One that has ended both ways is closed by itself, while its last records may still wait for their reader.
      if (!raw.readableEnded || !raw.writableFinished) this.destroy();
    });
    raw.pause();
  }

  /** From now on an end of TCP before that of TLS is an error of `stream`, of the code {@link cutOffCode}. */
  mindEndOf(stream: TLSSocket): void {
    this.#watched = stream;
  }

  override _read(): void {
    this.#raw.resume();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: Done): void {
    this.#raw.write(chunk, done);
  }

  override _writev(chunks: readonly { readonly chunk: Buffer }[], done: Done): void {
    this.#raw.cork();
    for (const { chunk } of chunks.slice(0, -1)) this.#raw.write(chunk);
    this.#raw.write(chunks.at(-1)?.chunk ?? Buffer.alloc(0), done);
    this.#raw.uncork();
  }

  override _final(done: Done): void {
    this.#raw.end(() => done());
  }

  override _destroy(error: Error | null, done: Done): void {
    this.#raw.destroy();
    done(error);
  }

  /** All records have been taken by TLS: what its reader has not got yet waits there, the end of TLS behind it. */
  #judgeEnd(): void {
    const stream = this.#watched;
    if (!stream || stream.readableEnded || stream.destroyed) {
      this.push(null);
      return;
    }
    if (!stream.readableFlowing) {
      stream.once('resume', () => this.#judgeEnd());
      return;
    }
    setImmediate(() => {
      if (stream.readableLength > 0 || !stream.readableFlowing) return this.#judgeEnd();
      if (stream.readableEnded || stream.destroyed) return void this.push(null);
      const error: NodeJS.ErrnoException = new Error('The connection was cut off: it closed without close_notify');
      error.code = cutOffCode;
      stream.destroy(error);
    });
  }
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
      const stream = connectTls({
        socket: carrier,
        servername: origin.name ?? plan.name,
        // `full` is encryption without a check, by the operator's choice (D84).
        rejectUnauthorized: plan.tls === 'strict',
      });
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

/**
 * Tries the origins in order, each once for at most the connect timeout. Never rejects for a failure of an origin.
 * @param edge where the client connected to; the system is asked for it only where an origin is told
 * @param signal gives up; its reason is a text
 */
export async function connectOrigin(
  { application, client, edgePort, parts: { limits, refuseOrigin } }: PeerContext,
  edge: () => Endpoint,
  signal: AbortSignal,
): Promise<ConnectedOrigin> {
  const { plan } = application;
  const { connectTimeoutMs } = limits(plan);
  // Names that take long to resolve hold up no drain.
  if (signal.aborted) return { ok: false, wasCut: true, reason: String(signal.reason) };
  const cut = Promise.withResolvers<{ readonly origins: []; readonly why?: undefined }>();
  signal.addEventListener('abort', () => cut.resolve({ origins: [] }), { once: true });
  const { origins, why } = await Promise.race([application.origins.candidates(edgePort), cut.promise]);
  const lastBegin = performance.now() + timeoutsInAll * connectTimeoutMs;
  const header = proxyHeader(plan, client, edge);
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
