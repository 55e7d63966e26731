// The reverse proxy (D66): takes requests for zones that have an origin, sends them on and streams the replies back.
//
//   origin-exchange    one request and its reply: retry, streaming, how each failure ends
//   message-heads      what the origin is sent;  reply-parser  what it answers, read strictly
//   dial-origin        connecting, TLS, why an origin failed a proxy in front of us;  origin-pool  open connections

import { type IncomingMessage, ServerResponse } from 'node:http';
import { type LookupFunction, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { createSecureContext } from 'node:tls';
import { type Clock, systemClock } from '../../base/clock.ts';
import { errorMessage } from '../../base/errors.ts';
import type { Logger } from '../../base/log.ts';
import type { EdgeCode } from '../errors/catalogue.ts';
import type { ReportedFailure } from '../zone/judge-request.ts';
import type { EdgeSettings } from '../zone/zone.ts';
import { DownOrigins, explainFailure } from './dial-origin.ts';
import { type Forwarded, type ReplyHead, requestHead } from './message-heads.ts';
import { type Asked, type ExchangeParts, OriginExchange } from './origin-exchange.ts';
import { OriginPool } from './origin-pool.ts';
import { originTargets } from './origin-target.ts';

/** What the proxy is made from. */
export interface OriginProxyParts {
  readonly settings: EdgeSettings;
  readonly log: Logger;
  readonly clock?: Clock;
  /** Resolves names; absent: `dns.lookup`. */
  readonly lookup?: LookupFunction;
  /** Certificate authorities in place of Node's own and those of NODE_EXTRA_CA_CERTS; PEM. */
  readonly ca?: string | readonly string[];
  /** Seconds without an octet in either direction after which an upgraded connection closes; absent: 600. */
  readonly tunnelIdleSeconds?: number;
  /** Milliseconds after which a client that takes not an octet of the answer to an upgrade is given up; absent: 300,000. */
  readonly clientStallMs?: number;
}

/** How often one request may pass the edge. Beyond that the origin leads back to the edge, which is error 1000. */
const maxPasses = 5;
const loopCode = 1000;

/** A request to upgrade, on the bare socket of its client. */
interface Upgrade extends Pick<Asked, 'request' | 'forwarded' | 'head'> {
  readonly client: Socket;
  /** What came behind the request. */
  readonly early: Buffer;
  /** The protocol to change to; undefined: none, and the request is answered like any other. */
  readonly upgrade: string | undefined;
}

/** The reverse proxy, and everything it has open; it opens nothing before the first request. */
export class OriginProxy {
  readonly #parts: ExchangeParts;
  readonly #clientStallMs: number;
  readonly #tunnelIdleMs: number;
  readonly #responseTimeoutMs: number;
  readonly #exchanges = new Set<{ abort(): void }>();
  readonly #tunnels = new Set<Duplex>();
  readonly #whenEmpty = new Set<() => void>();

  constructor(parts: OriginProxyParts) {
    const { settings, log, clock = systemClock, lookup, ca } = parts;
    // WebSocket pings are seldom further apart than a minute.
    const { tunnelIdleSeconds = 600, clientStallMs = 300_000 } = parts;
    this.#responseTimeoutMs = settings.responseTimeoutSeconds * 1000;
    this.#clientStallMs = clientStallMs;
    this.#tunnelIdleMs = tunnelIdleSeconds * 1000;
    this.#parts = {
      pool: new OriginPool(clock, this.#responseTimeoutMs),
      dial: {
        connectTimeoutMs: settings.connectTimeoutSeconds * 1000,
        secureContext: createSecureContext(ca === undefined ? {} : { ca: typeof ca === 'string' ? ca : [...ca] }),
        sessions: new Map(),
        down: new DownOrigins({ clock, downMs: settings.originDownSeconds * 1000 }),
        ...(lookup ? { lookup } : {}),
      },
      clock,
      targetOf: originTargets(),
      log,
      onClosed: (exchange) => {
        this.#exchanges.delete(exchange);
        this.#settle();
      },
    };
  }

  /** Sends a request on and streams the answer back, with the Ray-ID; nothing is to be set in `response` before. Never throws. */
  forward(request: IncomingMessage, response: ServerResponse, forwarded: Forwarded): void {
    try {
      const { prefix } = this.#parts.targetOf(forwarded.zone, request.headers.host);
      const head = requestHead(request, forwarded, { prefix });
      if ('refused' in head) {
        response.shouldKeepAlive = false;
        forwarded.refuse(head.refused);
        return;
      }
      if (head.passes >= maxPasses) {
        forwarded.fail(loopCode);
        return;
      }
      const exchange = new OriginExchange(this.#parts, { request, response, forwarded, head });
      this.#exchanges.add(exchange);
      response.on('close', () => exchange.clientClosed());
      exchange.begin();
    } catch (error) {
      this.#parts.log.error({ ray: forwarded.rayId, error: errorMessage(error) }, 'forwarding failed');
      if (response.headersSent) response.destroy();
      else forwarded.fail(500);
    }
  }

  /** Sends a request to upgrade on. `fail` writes a whole response and ends the socket. Never throws. @param head what came behind it */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer, forwarded: Forwarded): void {
    try {
      // Nothing to do: 'close' follows every error.
      socket.on('error', () => undefined);
      if (!(socket instanceof Socket)) throw new Error('An upgraded connection that is no socket');
      const upgrade = upgradeOf(request);
      const { prefix } = this.#parts.targetOf(forwarded.zone, request.headers.host);
      const written = requestHead(request, forwarded, { upgrade, prefix });
      if ('refused' in written || written.body !== 'none') {
        forwarded.refuse('refused' in written ? written.refused : 501);
      } else if (written.passes >= maxPasses) forwarded.fail(loopCode);
      else this.#beginUpgrade({ request, client: socket, early: head, forwarded, head: written, upgrade });
    } catch (error) {
      this.#parts.log.error({ ray: forwarded.rayId, error: errorMessage(error) }, 'forwarding failed');
      socket.destroy();
    }
  }

  /** Finds out why the origin failed a proxy in front, and calls `fail`; sends it nothing of the request. @returns gives up; call it when the request has ended */
  explain(forwarded: Forwarded, reported: ReportedFailure, host: string): () => void {
    const { dial, clock, targetOf } = this.#parts;
    const giveUp = explainFailure(targetOf(forwarded.zone, host), reported, {
      dial,
      clock,
      responseTimeoutMs: this.#responseTimeoutMs,
      onFound: ({ code, cause }, fromMemory) => {
        if (!fromMemory)
          this.#parts.log.info({ ray: forwarded.rayId, zone: forwarded.zone.name, code, cause }, 'origin failed');
        forwarded.fail(code, fromMemory);
      },
    });
    const search = {
      abort: () => {
        giveUp();
        this.#exchanges.delete(search);
        this.#settle();
      },
    };
    this.#exchanges.add(search);
    return search.abort;
  }

  /** Upgraded connections and requests open now. */
  open(): number {
    return this.#exchanges.size + this.#tunnels.size;
  }

  /** Closes idle origin connections, and what is left of the others after so many milliseconds. */
  async close(withinMs: number): Promise<void> {
    const { pool } = this.#parts;
    pool.closeIdle();
    if (this.open() > 0) {
      const empty = new Promise<void>((resolve) => this.#whenEmpty.add(resolve));
      const cut = setTimeout(() => {
        for (const tunnel of this.#tunnels) tunnel.destroy();
        for (const exchange of this.#exchanges) exchange.abort();
      }, withinMs);
      await empty;
      clearTimeout(cut);
    }
    pool.closeAll();
  }

  #settle(): void {
    if (this.open() > 0) return;
    for (const tell of this.#whenEmpty) tell();
    this.#whenEmpty.clear();
  }

  #beginUpgrade(asked: Upgrade): void {
    const { request, client, forwarded, head, upgrade } = asked;
    // An answer other than 101 is written like the answer to any other request.
    const response = new ServerResponse(request);
    response.shouldKeepAlive = false;
    response.assignSocket(client);
    const onDrain = (): boolean => response.emit('drain');
    client.on('drain', onDrain);
    const onTimeout = (): void => {
      if (client.writableLength > 0) client.destroy();
    };
    client.setTimeout(this.#clientStallMs);
    client.on('timeout', onTimeout);
    response.once('finish', () => client.destroySoon());
    const release = (): void => {
      client.off('drain', onDrain);
      client.off('timeout', onTimeout);
      client.setTimeout(0);
      if (response.socket) response.detachSocket(client);
    };
    const fail = (code: EdgeCode, fromMemory?: boolean): void => {
      release();
      forwarded.fail(code, fromMemory);
    };
    const exchange = new OriginExchange(this.#parts, {
      request,
      response,
      forwarded: { ...forwarded, fail },
      head,
      ...(upgrade === undefined
        ? {}
        : {
            onSwitched: (reply: ReplyHead, origin: Socket) => {
              release();
              this.#exchanges.delete(exchange);
              this.#switchOver(asked, origin, reply);
            },
            onEarly: (piece: Buffer) => client.write(piece),
          }),
    });
    this.#exchanges.add(exchange);
    client.once('close', () => exchange.clientClosed());
    exchange.begin();
  }

  #switchOver({ client, early, forwarded }: Upgrade, origin: Socket, reply: ReplyHead): void {
    this.#tunnels.add(client);
    client.write(switchedHead(reply, forwarded.rayId), 'latin1');
    if (early.length > 0) origin.write(early);
    openTunnel(client, origin, this.#tunnelIdleMs, () => {
      this.#tunnels.delete(client);
      this.#settle();
    });
  }
}

/** Only WebSocket is passed on: another protocol (h2c) would carry requests that nobody routes or checks. */
function upgradeOf(request: IncomingMessage): string | undefined {
  const asked = request.headers.upgrade ?? '';
  return request.method === 'GET' && asked.toLowerCase() === 'websocket' ? asked : undefined;
}

function fieldLines(fields: readonly string[]): string {
  let text = '';
  for (let index = 0; index < fields.length; index += 2) text += `${fields[index]}: ${fields[index + 1]}\r\n`;
  return text;
}

function switchedHead({ reason, fields, upgrade }: ReplyHead, rayId: string): string {
  const own = fieldLines(['Connection', 'Upgrade', 'Upgrade', upgrade, 'Ray-ID', rayId]);
  return `HTTP/1.1 101 ${reason}\r\n${fieldLines(fields)}${own}\r\n`;
}

/** Joins a client and an origin; an end is passed on. When one breaks, or both are silent for `idleMs`, both are closed. */
function openTunnel(client: Socket, origin: Socket, idleMs: number, onClosed: () => void): void {
  let open = 2;
  const watch = (end: Socket, other: Socket): void => {
    // Nothing to do: every error is followed by 'close'.
    end.on('error', () => undefined);
    end.once('close', () => {
      if (!end.readableEnded || !end.writableFinished) other.destroy();
      open -= 1;
      if (open === 0) onClosed();
    });
  };
  watch(client, origin);
  watch(origin, client);
  // Every octet in either direction is read from or written to the origin's socket, so its silence is that of both.
  origin.setTimeout(idleMs, () => {
    client.destroy();
    origin.destroy();
  });
  client.pipe(origin);
  origin.pipe(client);
}
