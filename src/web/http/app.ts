// The HTTP app: listeners of Node, so that zones are routed before the API looks (D67, D68), which its first request loads.

import type { IncomingMessage, ServerResponse } from 'node:http';
import { ConfigurationError, Unavailable } from '../../base/errors.ts';
import { lazily } from '../../base/load/lazily.ts';
import { listenFault } from '../../base/net/own-doors.ts';
import type { SharedConnections } from '../../base/process-group.ts';
import type { ApiParts } from './api.ts';
import { failureOf, faultOf } from './envelope.ts';
import { type Answerer, createHandlers, type HttpFront, rayOf } from './front.ts';
import type { BoundHttp } from './listener/accepting.ts';
import { type ConnectionLimit, type ConnectionLimits, createConnectionLimit } from './listener/connection-limit.ts';
import type { OpenHttp } from './listener/connections.ts';
import { HttpListener, type ListenerHandlers, type ListenerTls } from './listener/listener.ts';
import { isHeadTooLarge } from './listener/request-end.ts';
import { answerPlainly, probeAnswers, sendPlain } from './plain-routes.ts';

type Probe = (typeof probeAnswers)[keyof typeof probeAnswers];

/** What answers a request of a probe or scraper as the API would; undefined where only the API can. */
function probeOf(request: IncomingMessage, { metricsToken }: ApiParts): Probe | undefined {
  const { method, url = '', headers } = request;
  if (method !== 'GET' || isHeadTooLarge(request)) return undefined;
  if (headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined) return undefined;
  if (url === '/livez' || url === '/readyz') return probeAnswers[url];
  return url === '/metrics' && !metricsToken ? probeAnswers[url] : undefined;
}

/** The API under some settings, loaded with its first request: who takes mail by SMTP alone never needs it. */
function createLateApi(parts: ApiParts, onAuthFailure: () => void) {
  let loaded: Answerer | undefined;
  const load = lazily(async () => {
    const { createApi } = await import('./api.ts');
    return (loaded = await createApi(parts, onAuthFailure));
  });
  const answerLate = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    try {
      const probe = probeOf(request, parts);
      if (!probe) return (await load())(request, response);
      sendPlain(response, await probe(parts));
    } catch (error) {
      parts.log.error({ ray: rayOf(request), method: request.method, err: error }, 'http request failed');
      if (response.headersSent) return;
      if (error instanceof Unavailable) response.setHeader('Retry-After', error.retryAfterSeconds);
      const fault = faultOf(error, rayOf(request));
      const { status, body } = failureOf(parts.answers, [fault]);
      if (request.url?.startsWith('/client/v4/') !== true) return answerPlainly(response, status, fault.message);
      const headers = { 'Content-Type': 'application/json; charset=utf-8', 'Cache-Control': 'no-store' };
      sendPlain(response, { status, headers, text: JSON.stringify(body) });
    }
  };
  return {
    /** Whether a request has asked for it. */
    isLoaded: () => loaded !== undefined,
    /** Loads it. @throws what was wrong with a route or an endpoint */
    load,
    /** Answers a request. The first one waits while the API is loaded; probes do not wait for it. */
    answer: (request: IncomingMessage, response: ServerResponse): void => {
      if (loaded) loaded(request, response);
      else void answerLate(request, response);
    },
  };
}

/** What the app is made from. */
export interface HttpAppParts extends ApiParts {
  /** Answers requests for zones, and those that are neither for a zone nor for the API (D67). Absent: these get a plain 404. */
  readonly front?: HttpFront;
  /** Milliseconds that a request has for its body; absent: 300,000. */
  readonly bodyTimeoutMs?: number;
  readonly limits: ConnectionLimits;
  /** Counts the connections of each door over all processes; absent: there is one process. */
  readonly sharedConnections?: (door: 'http' | 'admin') => SharedConnections;
  /** Where the API has a listener of its own, with its limits: the others serve only zones and health then. */
  readonly admin?: { readonly limits: ConnectionLimits };
  /** Milliseconds after which a client that takes nothing of an answer is cut; absent: 300,000. */
  readonly clientStallMs?: number;
}

/** The setting of each listener's address, with the variable that wins over it, for errors. */
const listenSettings = {
  http: 'http.listen, or POSTERN_HTTP_PORT',
  https: 'http.tlsListen, or POSTERN_HTTPS_PORT',
  admin: 'http.adminListen, or POSTERN_ADMIN_PORT',
} as const satisfies Record<keyof Answering, string>;

type Answering = Readonly<Record<'http' | 'https' | 'admin', ListenerHandlers>>;

interface Made {
  readonly answering: Answering;
  readonly api: ReturnType<typeof createLateApi>;
}

/** The running app. */
export class HttpApp {
  readonly #parts: HttpAppParts;
  readonly #listeners: HttpListener[] = [];
  readonly #limit: ConnectionLimit;
  readonly #adminLimit: ConnectionLimit | undefined;
  #current: Made;
  #authFailures = 0;

  /** Binds nothing before `listen`. */
  constructor(parts: HttpAppParts) {
    this.#parts = parts;
    const { limits, trustedProxies, sharedConnections: shared } = parts;
    this.#limit = createConnectionLimit(limits, trustedProxies, shared?.('http'));
    this.#adminLimit = parts.admin && createConnectionLimit(parts.admin.limits, trustedProxies, shared?.('admin'));
    this.#current = this.#make(parts);
  }

  #make(parts: HttpAppParts): Made {
    const api = createLateApi(parts, () => (this.#authFailures += 1));
    const shared = { ...parts, front: parts.front, toApi: api.answer, hasConsole: parts.console !== undefined };
    const serves = parts.admin ? 'zones' : 'all';
    const answering = {
      http: createHandlers({ ...shared, scheme: 'http', serves }),
      https: createHandlers({ ...shared, scheme: 'https', serves }),
      admin: createHandlers({ ...shared, scheme: 'http', serves: 'api' }),
    };
    return { answering, api };
  }

  /** Prepares other parts. @returns what makes the change at once, for later requests; connections stay open */
  async prepare(parts: HttpAppParts): Promise<() => void> {
    const next = this.#make(parts);
    // Where the API is in use, what is wrong with it is found before anything changes.
    if (this.#current.api.isLoaded()) await next.api.load();
    return () => {
      this.#limit.follow(parts.limits, parts.trustedProxies);
      if (parts.admin) this.#adminLimit?.follow(parts.admin.limits, parts.trustedProxies);
      this.#current = next;
    };
  }

  /** Binds one more listener, for HTTPS where `tls` is given. @throws ConfigurationError where it cannot */
  listen(at: BoundHttp, tls?: ListenerTls): Promise<BoundHttp> {
    return this.#bind(at, tls ? 'https' : 'http', this.#limit, tls);
  }

  /** Binds the API's own listener of plain HTTP, which `limits` does not count. @throws ConfigurationError where it cannot */
  async listenAdmin(at: BoundHttp): Promise<BoundHttp> {
    if (!this.#adminLimit) throw new Error('The app was made without an admin listener');
    return await this.#bind(at, 'admin', this.#adminLimit);
  }

  async #bind(at: BoundHttp, kind: keyof Answering, limit: ConnectionLimit, tls?: ListenerTls): Promise<BoundHttp> {
    const scheme = tls ? 'https' : 'http';
    const listener = new HttpListener({
      handlers: () => this.#current.answering[kind],
      tls,
      limit,
      clientStallMs: this.#parts.clientStallMs,
      onRefused: ({ rayId, ...refused }) => this.#parts.log.info({ ray: rayId, ...refused }, 'http refused'),
    });
    try {
      const bound = await listener.listen(at);
      this.#listeners.push(listener);
      return bound;
    } catch (cause) {
      const text = `Cannot listen on ${scheme} ${at.host}:${at.port}: ${listenFault(cause, listenSettings[kind])}`;
      throw new ConfigurationError(text, { cause });
    }
  }

  /** Shows another default certificate in every TLS handshake from now on. @throws Error where it does not fit its key */
  showCertificate(shown: Pick<ListenerTls, 'cert' | 'key'>): void {
    for (const listener of this.#listeners) listener.showCertificate(shown);
  }

  /** Stops accepting on all listeners, lets requests in flight finish, and cuts those left after so many milliseconds. */
  async close(withinMs: number): Promise<void> {
    await Promise.all(this.#listeners.map((listener) => listener.close(withinMs)));
  }

  /** Failed logins since the start. */
  authFailures(): number {
    return this.#authFailures;
  }

  open(): OpenHttp {
    const each = this.#listeners.map((listener) => listener.open());
    const sum = (of: keyof OpenHttp): number => each.reduce((all, open) => all + open[of], 0);
    return {
      connections: sum('connections'),
      answers: sum('answers'),
      upgraded: sum('upgraded'),
      waitingOctets: sum('waitingOctets'),
    };
  }

  /** Connections to the API's own listener that are open now; they are among those of `open`. */
  adminConnections(): number {
    return this.#adminLimit?.open() ?? 0;
  }

  /** Connections refused since the start, by limit: `all`, `address`, and `admin_all` and `admin_address` of the API's own listener. */
  refusedConnections(): Readonly<Record<string, number>> {
    const admin = this.#adminLimit?.refused();
    return { ...this.#limit.refused(), ...(admin ? { admin_all: admin.all, admin_address: admin.address } : {}) };
  }
}
