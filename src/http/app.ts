// The HTTP app: Fastify behind plain node:http and node:https listeners, so that hostnames of zones can be routed before
// Fastify looks at anything (D67, D68). Under /client/v4 every answer is the v4 envelope; elsewhere what the API itself
// refuses is one line of text.

import { createServer } from 'node:http';
import Fastify from 'fastify';
import { createGuessing, type Guessing } from '../accounts/guessing.ts';
import { type BodyBudget, createBodyBudget, defaultBodyLimit } from '../base/body-budget.ts';
import type { Clock } from '../base/clock.ts';
import { ConfigurationError, errorMessage } from '../base/errors.ts';
import { AllowedMethods } from './allowed-methods.ts';
import { createDocuments } from './documents.ts';
import { type AnswerTable, refuse } from './envelope.ts';
import { type Answerer, createHandlers, type HttpFront, rayOf } from './front.ts';
import type { BoundHttp } from './listener/accepting.ts';
import { type ConnectionLimit, type ConnectionLimits, createConnectionLimit } from './listener/connection-limit.ts';
import type { OpenHttp } from './listener/connections.ts';
import { createListener, type HttpListener, type ListenerTls } from './listener/listener.ts';
import type { DocumentedRoute } from './openapi.ts';
import { answerPlainly, type PlainParts, plainRoutes } from './plain-routes.ts';
import type { Serves } from './route.ts';
import { schemaCompiler } from './schema-compiler.ts';
import type { SchemaTypes } from './v4-app.ts';
import { type V4Parts, v4Routes } from './v4-routes.ts';

/** What the app is made from. */
export interface HttpAppParts extends Omit<PlainParts, 'guessing'>, Omit<V4Parts, 'guessing' | 'bodies'> {
  readonly answers: AnswerTable;
  /** The room in memory for bodies, of all doors; absent: one of its own. */
  readonly bodies?: BodyBudget;
  /** The count of wrong tokens of all doors; absent: one of its own. */
  readonly guessing?: Guessing;
  readonly clock: Clock;
  /** Networks of proxies whose X-Forwarded-For is believed (D66). */
  readonly trustedProxies?: readonly string[];
  /** Answers for zones, and for what is neither a zone's nor the API's (D67). Absent: that is a plain 404. */
  readonly front?: HttpFront;
  /** Milliseconds that a request has for its body; absent: 300,000. */
  readonly bodyTimeoutMs?: number;
  /** Absent: as many connections as come. */
  readonly limits?: ConnectionLimits;
  /**
   * The API has a listener of its own (`listenAdmin`), with limits of its own: those of `listen` serve zones and health
   * alone. Absent: each of them serves everything.
   */
  readonly admin?: { readonly limits: ConnectionLimits };
  /** Milliseconds after which a client that takes nothing of an answer is cut; absent: 300,000. */
  readonly clientStallMs?: number;
}

/** The running app. */
export interface HttpApp {
  /**
   * Binds a listener, for HTTPS where there are certificates; every call one more, all with the same routes.
   * @throws ConfigurationError where it cannot
   */
  listen(at: BoundHttp, tls?: ListenerTls): Promise<BoundHttp>;
  /**
   * Binds the API's own listener: plain HTTP, no zone whatever the Host, and connections that `limits` does not count.
   * @throws ConfigurationError where it cannot; Error where the app was made without `admin`
   */
  listenAdmin(at: BoundHttp): Promise<BoundHttp>;
  /** Stops accepting on all of them, lets requests in flight finish, and cuts what is left after so many milliseconds. */
  close(withinMs: number): Promise<void>;
  /** Failed logins since the start. */
  authFailures(): number;
  /** What is open now, all listeners together. */
  open(): OpenHttp;
  /** Connections to the API's own listener that are open now; they are among those of `open`. */
  adminConnections(): number;
  /**
   * Connections refused since the start, by the limit that they were over: `all`, `address`, and those of the API's own
   * listener, `admin_all` and `admin_address`, where there is one.
   */
  refusedConnections(): Readonly<Record<string, number>>;
}

const noLimits: ConnectionLimits = { connections: Infinity, connectionsPerAddress: Infinity };

/** Makes the app; it binds nothing before `listen`. */
export function createHttpApp(parts: HttpAppParts): HttpApp {
  const listeners: HttpListener[] = [];
  const limit = createConnectionLimit(parts.limits ?? noLimits, parts.trustedProxies);
  const adminLimit = parts.admin && createConnectionLimit(parts.admin.limits, parts.trustedProxies);
  let toFastify: Answerer | undefined;
  let authFailures = 0;
  const methods = new AllowedMethods();
  const app = Fastify({
    // Fastify answers; it never listens itself.
    serverFactory: (handler) => {
      toFastify = handler;
      return createServer();
    },
    logger: false,
    genReqId: (request) => rayOf(request),
    trustProxy: parts.trustedProxies && parts.trustedProxies.length > 0 ? [...parts.trustedProxies] : false,
    return503OnClosing: false,
    routerOptions: { maxParamLength: 500 },
    frameworkErrors: (_error, request, reply) => {
      const message = 'The path has a percent-encoding that is none';
      if (request.raw.url?.startsWith('/client/v4/') === true) {
        const path = request.raw.url.slice(0, 200);
        parts.log.info(
          { session: request.id, method: request.method, path, status: 400, client: request.ip },
          'request',
        );
        void refuse(reply, [{ token: 'E_VALIDATION_ERROR', message }]);
      } else answerPlainly(reply.raw, 400, message);
    },
  }).withTypeProvider<SchemaTypes>();
  app.decorate('answers', parts.answers);
  app.decorateRequest('submitter', undefined);
  app.decorateRequest('document', undefined);
  app.decorateRequest('bodyHold', undefined);
  app.decorateRequest('bodyOctets', 0);
  app.decorateRequest('bodyDigest', undefined);
  app.setValidatorCompiler(schemaCompiler);
  app.setSerializerCompiler(() => (data) => JSON.stringify(data));
  const routes: DocumentedRoute[] = [];
  const { guessing = createGuessing(), bodies = createBodyBudget(defaultBodyLimit()) } = parts;
  const onAuthFailure = (): number => (authFailures += 1);
  const documents = createDocuments(routes, parts.answers);
  plainRoutes(app, { ...parts, guessing }, { documents, methods, onAuthFailure });
  v4Routes(app, { ...parts, guessing, bodies }, { routes, methods, onAuthFailure });
  const bind = async (
    at: BoundHttp,
    { tls, serves, limit }: { tls?: ListenerTls | undefined; serves: Serves; limit: ConnectionLimit },
  ): Promise<BoundHttp> => {
    await app.ready();
    if (!toFastify) throw new Error('Fastify has no handler');
    const scheme = tls ? 'https' : 'http';
    const listener = createListener({
      handlers: createHandlers({ ...parts, front: parts.front, scheme, serves, toFastify }),
      tls,
      limit,
      clientStallMs: parts.clientStallMs,
      onRefused: ({ rayId, ...refused }) => parts.log.info({ ray: rayId, ...refused }, 'http refused'),
    });
    try {
      const bound = await listener.listen(at);
      listeners.push(listener);
      return bound;
    } catch (cause) {
      const text = `Cannot listen on ${scheme} ${at.host}:${at.port}: ${errorMessage(cause)}`;
      throw new ConfigurationError(text, { cause });
    }
  };
  return {
    listen: (at, tls) => bind(at, { tls, serves: adminLimit ? 'zones' : 'all', limit }),
    async listenAdmin(at) {
      if (!adminLimit) throw new Error('The app was made without an admin listener');
      return bind(at, { serves: 'api', limit: adminLimit });
    },
    async close(withinMs) {
      await Promise.all([...listeners.map((listener) => listener.close(withinMs)), app.close()]);
    },
    authFailures: () => authFailures,
    open: () => {
      const each = listeners.map((listener) => listener.open());
      const sum = (of: (open: OpenHttp) => number): number => each.reduce((all, open) => all + of(open), 0);
      return {
        connections: sum(({ connections }) => connections),
        answers: sum(({ answers }) => answers),
        upgraded: sum(({ upgraded }) => upgraded),
        waitingOctets: sum(({ waitingOctets }) => waitingOctets),
      };
    },
    adminConnections: () => adminLimit?.open() ?? 0,
    refusedConnections: () => {
      const admin = adminLimit?.refused();
      return { ...limit.refused(), ...(admin ? { admin_all: admin.all, admin_address: admin.address } : {}) };
    },
  };
}
