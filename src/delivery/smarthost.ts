// The next hop of a smarthost route: one server, or several of which the first that works is used. Whoever has failed is
// passed over for a while; and a connection to a stand-in does not last, so that mail returns to the first when it is back.

import { isIP } from 'node:net';
import type { MonotonicClock } from '../base/clock.ts';
import { Part } from '../base/part.ts';
import type { SmtpReply } from '../mail/smtp-reply.ts';
import type { Smarthost, SmarthostRoute } from './settings.ts';
import { connectSmtp, type HopRefusal, type NextHop, type SmtpConnection, type TlsFault } from './smtp/smtp-client.ts';
import type { SmtpTimeouts } from './smtp/smtp-transaction.ts';
import type { NextHops } from './transport.ts';

/** How long a server that failed is passed over, in milliseconds: doubled with each failure in a row. */
const passedOver = { first: 1000, longest: 60_000 } as const;
/** A connection to a stand-in is closed after so long, in milliseconds, and the first server is tried again. */
const standInLasts = 60_000;

/** What the next hop is made from beside its route. */
export interface SmarthostParts {
  readonly hostname: string;
  readonly timeouts: SmtpTimeouts;
  readonly clock: MonotonicClock;
  /** A random number from 0 up to, not including, 1. */
  readonly random: () => number;
}

interface Server {
  readonly smarthost: Smarthost;
  failures: number;
  downUntil: number;
  /** What was wrong with its TLS when it was tried last, unless the connection was lost. */
  tlsFault: TlsFault | undefined;
}

const noAnswer: SmtpReply = { code: 451, enhanced: '4.4.1', text: 'No server of the route was tried' };

function addressOf({ host, port }: Smarthost): string {
  return `${host}:${port}`;
}

/** The servers of a route, best first. */
export function smarthostsOf(route: SmarthostRoute): readonly Smarthost[] {
  const { standby = [], localAddress: _, ...first } = route;
  return [first, ...standby].toSorted((one, other) => (one.priority ?? 0) - (other.priority ?? 0));
}

/** Makes the one next hop of a smarthost route. @param route passwords and certificates are read at each connection */
export function smarthostHops(route: SmarthostRoute, parts: SmarthostParts): NextHops {
  const hop = new SmarthostHop({ ...parts, route });
  return { find: () => Promise.resolve(hop) };
}

class SmarthostHop extends Part<SmarthostParts & { readonly route: SmarthostRoute }> implements NextHop {
  readonly #servers = smarthostsOf(this.parts.route).map((smarthost): Server => {
    return { smarthost, failures: 0, downUntil: Number.NEGATIVE_INFINITY, tlsFault: undefined };
  });
  readonly #addresses = this.#servers.map(({ smarthost }) => addressOf(smarthost));
  readonly key = this.#addresses.join(',');
  readonly label = `${this.parts.route.name} (${this.#addresses.join(', ')})`;

  async connect({ signal }: { readonly signal: AbortSignal }): Promise<SmtpConnection | HopRefusal> {
    let refusal = noAnswer;
    const said: SmtpReply[] = [];
    let tried = 0;
    for (const server of this.#inOrder()) {
      if (signal.aborted) break;
      const result = await this.#connectTo(server, signal);
      if ('connection' in result) return result.connection;
      tried += 1;
      said.push(...result.said);
      // The words of the best server are told, since it is the one to be mended.
      if (tried === 1) refusal = this.#servers.length > 1 ? named(server.smarthost, result.refused) : result.refused;
    }
    // One that is passed over may have failed for another reason.
    const [tlsFault, ...others] = this.#servers.map((server) => server.tlsFault);
    return { refused: refusal, said, ...(tlsFault && !others.includes(undefined) ? { tlsFault } : {}) };
  }

  /** Who is tried, in which order: those that are not passed over; where there is none, the one whose time ends first. */
  #inOrder(): readonly Server[] {
    const { clock, random } = this.parts;
    const now = clock.monotonic();
    const ready = this.#servers.filter(({ downUntil }) => downUntil <= now);
    if (ready.length === 0) return this.#servers.toSorted((one, other) => one.downUntil - other.downUntil).slice(0, 1);
    return ready
      .map((server) => ({ server, priority: server.smarthost.priority ?? 0, lot: random() }))
      .sort((one, other) => one.priority - other.priority || one.lot - other.lot)
      .map(({ server }) => server);
  }

  async #connectTo(server: Server, signal: AbortSignal) {
    const { hostname, timeouts, clock } = this.parts;
    const isFirst = (server.smarthost.priority ?? 0) === (this.#servers[0]?.smarthost.priority ?? 0);
    const options = { ...server.smarthost, hostname, timeouts, ...(isFirst ? {} : { lastsMs: standInLasts }) };
    let result = await connectSmtp({ ...options, ...this.#from(server, 0) }, signal);
    // A name may have addresses of the other family alone.
    if ('refused' in result && result.said.length === 0 && this.#from(server, 1)) {
      result = await connectSmtp({ ...options, ...this.#from(server, 1) }, signal);
    }
    server.tlsFault = 'connection' in result || result.wasLost ? undefined : result.tlsFault;
    if ('connection' in result) server.failures = 0;
    else {
      const wait = Math.min(passedOver.first * 2 ** server.failures, passedOver.longest);
      server.failures += 1;
      server.downUntil = clock.monotonic() + wait;
    }
    return result;
  }

  /** The address to connect from, and our name there: of those that fit the server's family the first or the second. */
  #from(
    { smarthost: { host } }: Server,
    index: number,
  ): { readonly localAddress: string; readonly hostname: string } | undefined {
    const family = isIP(host);
    const fitting = (this.parts.route.localAddress ?? []).filter(
      ({ address }) => family === 0 || isIP(address) === family,
    );
    const own = fitting[index];
    return own && { localAddress: own.address, hostname: own.hostname ?? this.parts.hostname };
  }
}

function named(smarthost: Smarthost, reply: SmtpReply): SmtpReply {
  return { ...reply, text: `${addressOf(smarthost)}: ${reply.text}` };
}
