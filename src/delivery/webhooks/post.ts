// Sends one request to an endpoint, within bounds of time and octets. The address is judged when the connection is made, so
// that a name which means another address by then does not get by; redirects are not followed.

import { lookup as systemLookup } from 'node:dns';
import http, { type ClientRequest, type IncomingMessage } from 'node:http';
import https from 'node:https';
import { isIP, type LookupFunction } from 'node:net';
import { errorCode, errorMessage } from '../../base/errors.ts';
import { boundInterims } from '../../base/net/bound-interims.ts';
import { Part } from '../../base/part.ts';
import { hostOf, portOf, type RefuseAddress } from './webhook-url.ts';

/** What requests are sent with. */
export interface PosterParts {
  readonly refuse: RefuseAddress;
  /** For the whole request, until the answer's end. */
  readonly timeoutMs: number;
  /** Resolves names; absent: as the system does. */
  readonly lookup?: LookupFunction;
  /** Certificates of further authorities, PEM; absent: those that Node trusts. */
  readonly ca?: string;
  /** No certificate is verified. */
  readonly isUnverified?: boolean;
}

/** A request. */
export interface PostRequest {
  /** Whose endpoint it is: the connections of one owner are none of another's. */
  readonly owner: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Buffer;
  readonly signal: AbortSignal;
}

/** How a request ended: the HTTP status, and what Retry-After said; or why there is none. */
export type PostResult =
  | { readonly status: number; readonly retryAfter?: string | undefined }
  | { readonly error: string };

/** Octets of an answer's body that are read, so that the connection can be used again; behind them it is closed. */
const answerOctets = 16_384;
/** Open connections of all endpoints together, of one owner to one host, and of these the ones that are kept without a request. */
const connections = { maxTotalSockets: 1024, maxSockets: 64, maxFreeSockets: 16 } as const;
/** How long an unused connection is kept, in milliseconds. */
const idleMs = 15_000;

class ForbiddenAddress extends Error {}
class TimeIsOver extends Error {}

/** Makes a lookup that gives only addresses which may be called. */
function guardedLookup(port: number, refuse: RefuseAddress, lookup: LookupFunction): LookupFunction {
  return (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, found) => {
      if (error) return callback(error, '', 0);
      const addresses = Array.isArray(found) ? found : [{ address: found, family: isIP(found) }];
      const allowed = addresses.filter(({ address }) => refuse(address, port) === undefined);
      const [first] = allowed;
      // The account reads this in its log, and is not told what names of this network mean.
      if (!first) callback(new ForbiddenAddress('the name leads to no address that may be called'), '', 0);
      else if (options.all === true) callback(null, allowed);
      else callback(null, first.address, first.family);
    });
  };
}

function reasonOf(error: unknown, timeoutMs: number): string {
  if (error instanceof ForbiddenAddress) return `may not be called: ${error.message}`;
  if (error instanceof TimeIsOver) return `no answer within ${timeoutMs / 1000} s`;
  const code = errorCode(error);
  const text = error instanceof AggregateError ? errorMessage(error.errors[0]) : errorMessage(error);
  return (code === undefined || text.includes(code) ? text : `${code}: ${text}`).slice(0, 200);
}

/** Reads the rest of an answer, up to the bound. */
function finish(answer: IncomingMessage, done: () => void): void {
  let octets = 0;
  answer.on('data', (chunk: Buffer) => {
    octets += chunk.length;
    if (octets > answerOctets) answer.destroy();
  });
  answer.on('close', done);
  answer.on('error', done);
}

const agentOptions = { keepAlive: true, timeout: idleMs, ...connections };

/** Has requests of one owner wait for no connection of another's to the same host, where they may all hang. */
function keepingOwnersApart(agent: http.Agent): http.Agent {
  const nameOf = agent.getName.bind(agent);
  agent.getName = (options?: http.ClientRequestArgs & Partial<Pick<PostRequest, 'owner'>>) =>
    `${nameOf(options)}:${options?.owner}`;
  return agent;
}

/** Sends requests with connections of its own. */
export class Poster extends Part<PosterParts> {
  readonly #lookup: LookupFunction =
    this.parts.lookup ?? ((name, options, callback) => systemLookup(name, options, callback));
  readonly #agents = {
    'http:': keepingOwnersApart(new http.Agent(agentOptions)),
    'https:': keepingOwnersApart(
      new https.Agent({
        ...agentOptions,
        ...(this.parts.ca ? { ca: this.parts.ca } : {}),
        rejectUnauthorized: this.parts.isUnverified !== true,
      }),
    ),
  };

  async post(request: PostRequest): Promise<PostResult> {
    try {
      for (let tries = 0; tries < connections.maxFreeSockets; tries += 1) {
        const result = await this.#send(request);
        if (result !== 'stale') return result;
      }
      return { error: 'the connection was closed' };
    } catch (error) {
      return { error: reasonOf(error, this.parts.timeoutMs) };
    }
  }

  /** Closes the connections that are kept open. */
  close(): void {
    for (const agent of Object.values(this.#agents)) agent.destroy();
  }

  #send({ owner, url: text, headers, body, signal }: PostRequest): Promise<PostResult | 'stale'> {
    const { refuse, timeoutMs } = this.parts;
    const url = new URL(text);
    const isSecure = url.protocol === 'https:';
    const port = portOf(url);
    const host = hostOf(url);
    // A connection to an address is made without a lookup.
    const refused = isIP(host) === 0 ? undefined : refuse(host, port);
    if (refused !== undefined) return Promise.resolve({ error: `may not be called: ${refused}` });
    const request = (isSecure ? https : http).request({
      ...{ owner, protocol: url.protocol, host, port, path: `${url.pathname}${url.search}`, method: 'POST' },
      headers: { ...headers, host: url.host, 'content-length': Buffer.byteLength(body) },
      agent: this.#agents[isSecure ? 'https:' : 'http:'],
      lookup: guardedLookup(port, refuse, this.#lookup),
      maxHeaderSize: answerOctets,
    });
    request.on('socket', (socket) => {
      // A connection that was kept open was judged by the settings of its time.
      const why = socket.remoteAddress === undefined ? undefined : refuse(socket.remoteAddress, port);
      if (why !== undefined) request.destroy(new ForbiddenAddress(why));
    });
    const result = resultOf(request, { signal, timeoutMs });
    request.end(body);
    return result;
  }
}

/** How a request ends that is about to be sent. */
function resultOf(
  request: ClientRequest,
  { signal, timeoutMs }: Pick<PostRequest, 'signal'> & Pick<PosterParts, 'timeoutMs'>,
): Promise<PostResult | 'stale'> {
  return new Promise((resolved) => {
    // By hand: a signal of its own, made of two, costs a request more than its signature.
    const end = (): void => void request.destroy(signal.reason instanceof Error ? signal.reason : new Error('ended'));
    const timer = setTimeout(() => request.destroy(new TimeIsOver()), timeoutMs).unref();
    signal.addEventListener('abort', end, { once: true });
    const settle = (result: PostResult | 'stale'): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolved(result);
    };
    if (signal.aborted) end();
    boundInterims(request);
    let answered: PostResult | undefined;
    request.on('response', (answer) => {
      const { statusCode: status = 0, headers } = answer;
      const known = { status, retryAfter: headers['retry-after'] };
      answered = known;
      finish(answer, () => settle(known));
    });
    // Nobody asked for another protocol; without a listener Node would close the connection and tell nobody.
    request.on('upgrade', ({ statusCode = 101 }, socket) => {
      socket.destroy();
      settle({ status: statusCode });
    });
    request.on('close', () => settle(answered ?? { error: 'the connection was closed' }));
    request.on('error', (error) => {
      // Who has answered has decided, whatever becomes of the rest of the answer.
      if (answered) return settle(answered);
      // The endpoint closed a connection that was kept open, while this request was on its way.
      const isStale = request.reusedSocket && errorCode(error) === 'ECONNRESET';
      settle(isStale ? 'stale' : { error: reasonOf(error, timeoutMs) });
    });
  });
}
