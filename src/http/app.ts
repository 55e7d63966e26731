// The HTTP app: Fastify behind plain node:http and node:https listeners, so that hostnames of zones can be routed before
// Fastify looks at anything (D67, D68). Under /client/v4 every answer is the v4 envelope; elsewhere what the API itself
// refuses is one line of text.
//
// How a room adds endpoints. It exports a V4Plugin, a function that registers routes on what it is given, and the
// gateway lists it in `plugins`:
//
//   export function suppressionEndpoints(parts: Parts): V4Plugin {
//     return (app) => {
//       app.get('/accounts/:account_id/email/sending/suppressions', {
//         config: { scope: 'email:suppressions' },
//         schema: { summary: 'List ...', tags: ['Suppressions'], params: accountPath, querystring: Page, response: { 200: List } },
//       }, async (request, reply) => succeed(reply, parts.list(submitterOf(request).account, request.query)));
//     };
//   }
//
// - Paths begin behind /client/v4. `config.scope` is required of every route (D85): before a body is read the token has
//   been looked up, the scope found, and `:account_id` (id or name) or the account of `:zone_id` held against the token's
//   account; then `submitterOf(request)` gives the account of the path and the token's credential.
// - Schemas are typebox; `request.body`, `query` and `params` have their types. ajv judges with allErrors, without
//   coercion, defaults or removal, so query parameters are strings. Objects that refuse unknown fields say
//   `additionalProperties: false`. An annotation `want` reads behind "must be" in errors. A schema with a `title` of one
//   PascalCase word becomes a component of that name in the OpenAPI document. `response` schemas only document.
// - Bodies are JSON without prototypes, repeated names refused; `config.bodyBytes` sets another limit than 1 MiB.
// - Answers: `succeed(reply, result, { result_info })`, `refuse(reply, faults)`, or `throw new Refusal(faults)`; a fault is
//   `{ token: 'E_NOT_FOUND', message, pointer? }`. Anything else thrown is logged and answered 500 / 10002.
// - `request.id` is the Ray-ID.

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { TLSSocket } from 'node:tls';
import Fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyRequest,
  type FastifyTypeProvider,
  type RawServerDefault,
} from 'fastify';
import type { Static, TSchema } from 'typebox';
import type { Scope, Submitter } from '../accounts/account.ts';
import type { Accounts } from '../accounts/accounts.ts';
import type { Clock } from '../base/clock.ts';
import { ConfigurationError, errorMessage } from '../base/errors.ts';
import { randomHex } from '../base/ids.ts';
import type { Logger } from '../base/log.ts';
import { createAddressLimit } from './address-limit.ts';
import { AllowedMethods } from './allowed-methods.ts';
import { type AnswerTable, refuse } from './envelope.ts';
import type { JsonDocument } from './json-reader.ts';
import {
  type BoundHttp,
  createListener,
  type HttpListener,
  type ListenerHandlers,
  type ListenerTls,
} from './listener.ts';
import { type DocumentedRoute, openApiDocument } from './openapi.ts';
import { answerPlainly, plainRoutes } from './plain-routes.ts';
import { renderReference } from './reference-page.ts';
import type { BodyOptions } from './request-body.ts';
import { type HostTable, type Route, routeRequest } from './route.ts';
import { schemaCompiler } from './schema-compiler.ts';
import { v4Routes } from './v4-routes.ts';
import { plainWhole, writeWhole } from './whole-response.ts';

export type { BoundHttp, ListenerTls } from './listener.ts';

/** Reads the types of typebox schemas. */
export interface SchemaTypes extends FastifyTypeProvider {
  validator: this['schema'] extends TSchema ? Static<this['schema']> : unknown;
  serializer: unknown;
}

/** What a plugin registers its routes on; paths are below /client/v4. */
export type V4App = FastifyInstance<RawServerDefault, IncomingMessage, ServerResponse, FastifyBaseLogger, SchemaTypes>;

/** Registers endpoints. */
export type V4Plugin = (app: V4App) => void;

declare module 'fastify' {
  interface FastifyContextConfig extends BodyOptions {
    /** What the token must be allowed to do (D85). */
    readonly scope?: Scope;
  }
  interface FastifyInstance {
    /** Every token with its answer. */
    answers: AnswerTable;
  }
  interface FastifyRequest {
    /** Who calls; absent before authorization. */
    submitter: Submitter | undefined;
    /** The body as it was read; absent where there was none. */
    document: JsonDocument | undefined;
    /** How many octets the body had; 0 where there was none. */
    bodyOctets: number;
    /** SHA-256 of them, hex: where the route wants it and the request has an Idempotency-Key. */
    bodyDigest: string | undefined;
  }
  interface FastifySchema {
    summary?: string;
    description?: string;
    tags?: readonly string[];
    /** Codes a caller may meet here besides those of every endpoint, for the OpenAPI document. */
    tokens?: readonly string[];
    /** Numbers without a token that a caller may meet here, and their statuses, for the OpenAPI document. */
    codes?: readonly { readonly number: number; readonly status: number }[];
    /** Media types of the body, for the OpenAPI document; absent: application/json. */
    bodyTypes?: readonly string[];
  }
}

/** What the app is made from. */
export interface HttpAppParts {
  readonly answers: AnswerTable;
  readonly accounts: Pick<Accounts, 'authenticate' | 'authenticateGlobalKey' | 'find'>;
  /** Id of the account that a zone belongs to (32 hex, lower case); absent: there are no zones. */
  readonly accountOfZone?: (zone: string) => string | undefined;
  readonly clock: Clock;
  readonly log: Logger;
  /** True once every listener is up and until draining begins. */
  readonly ready: () => boolean;
  /** The Prometheus text and its content type. */
  readonly metrics: () => Promise<{ readonly contentType: string; readonly text: string }>;
  /** Networks of proxies whose X-Forwarded-For is believed (D66). */
  readonly trustedProxies?: readonly string[];
  readonly plugins: readonly V4Plugin[];
  /** Answers for zones, and for what is neither a zone's nor the API's (D67). Absent: that is a plain 404. */
  readonly front?: HttpFront;
}

/** A request on its way to the front: its Ray-ID is set in the response already. */
export interface Arrival {
  /** One for each response of any kind (D62). */
  readonly rayId: string;
  readonly scheme: 'http' | 'https';
  readonly route: Exclude<Route, { readonly destination: 'bad' }>;
}

/** What stands before the API. */
export interface HttpFront {
  readonly hosts: HostTable;
  /** Answers. The request has one Host, that of the route, and a target in origin-form or `*`. */
  answer(request: IncomingMessage, response: ServerResponse, arrival: Arrival): void;
  /** Whether a request to upgrade is taken as one; if not it comes to `answer` as any other. */
  takesUpgrade(request: IncomingMessage, arrival: Pick<Arrival, 'route'>): boolean;
  /** Answers a request to upgrade; `head` is what came behind it. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer, arrival: Arrival): void;
}

/** The running app. */
export interface HttpApp {
  /**
   * Binds a listener, for HTTPS where there are certificates; every call one more, all with the same routes.
   * @throws ConfigurationError where it cannot
   */
  listen(at: BoundHttp, tls?: ListenerTls): Promise<BoundHttp>;
  /** Stops accepting on all of them, lets requests in flight finish, and cuts what is left after so many milliseconds. */
  close(withinMs: number): Promise<void>;
  /** Failed logins since the start. */
  authFailures(): number;
}

/** Who calls an endpoint. */
export function submitterOf(request: FastifyRequest): Submitter {
  if (!request.submitter) throw new Error('An endpoint without a scope asks who calls');
  return request.submitter;
}

/** A request to the API has its body to send within so long. */
const apiBodyTimeoutMs = 300_000;

const rays = new WeakMap<IncomingMessage, string>();

type Answerer = (request: IncomingMessage, response: ServerResponse) => void;

/** The name the TLS handshake asked for; Node says `false` or nothing where there was none. */
function serverNameOf({ socket }: IncomingMessage): string | undefined {
  if (!(socket instanceof TLSSocket)) return undefined;
  const { servername } = socket;
  return typeof servername === 'string' ? servername : undefined;
}

/** Replaces what the client wrote by what it was read as, so that nobody behind this reads it in another way. */
function settle(request: IncomingMessage, { authority, target }: { authority: string; target: string }): void {
  request.url = target;
  request.headers.host = authority;
  const { rawHeaders } = request;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    if (rawHeaders[index]?.toLowerCase() === 'host') rawHeaders[index + 1] = authority;
  }
}

const noHosts: HostTable = { isZone: () => false, apiHosts: new Set() };

function cutSlowBody(request: IncomingMessage, response: ServerResponse): void {
  if (request.complete) return;
  const cut = setTimeout(() => {
    if (request.complete) return;
    if (response.headersSent) request.socket.destroy();
    else writeWhole(request.socket, plainWhole(408, 'Request Timeout', { rayId: rays.get(request) ?? '' }));
  }, apiBodyTimeoutMs);
  cut.unref();
  request.once('close', () => clearTimeout(cut));
}

/** Decides whose a request is (D67). */
function createHandlers(parts: HttpAppParts, scheme: 'http' | 'https', toFastify: Answerer): ListenerHandlers {
  const { front } = parts;
  const hosts = front?.hosts ?? noHosts;
  const routeOf = (request: IncomingMessage): Route => {
    const { method = 'GET', url = '/', rawHeaders } = request;
    const serverName = serverNameOf(request);
    return routeRequest(
      { method, target: url, rawHeaders, ...(serverName === undefined ? {} : { serverName }) },
      hosts,
    );
  };
  return {
    request(request, response) {
      const rayId = randomHex(8); // D62: one per response of any kind
      rays.set(request, rayId);
      response.setHeader('Ray-ID', rayId);
      const route = routeOf(request);
      if (route.destination === 'bad') {
        // What the sender took for one request may be two: nothing more is read from it.
        response.shouldKeepAlive = false;
        answerPlainly(response, 400, route.text);
        return;
      }
      settle(request, route);
      // RFC 9112 §6.1: where its body ends nobody can say.
      if (hasUnknownCoding(request)) {
        response.shouldKeepAlive = false;
        answerPlainly(response, 501, 'Transfer-Encoding is not taken, but for chunked');
      } else if (isUnknownExpectation(request)) answerPlainly(response, 417, 'Expectation failed');
      else if (route.destination === 'api') {
        cutSlowBody(request, response);
        toFastify(request, response);
      } else if (front) front.answer(request, response, { rayId, scheme, route });
      else answerPlainly(response, 404, 'Not found');
    },
    takesUpgrade(request) {
      const route = routeOf(request);
      return route.destination !== 'bad' && front !== undefined && front.takesUpgrade(request, { route });
    },
    upgrade(request, socket, head) {
      const rayId = randomHex(8);
      const route = routeOf(request);
      if (route.destination === 'bad' || !front || hasUnknownCoding(request)) {
        writeWhole(socket, plainWhole(400, 'Bad request to upgrade', { rayId }));
        return;
      }
      settle(request, route);
      front.upgrade(request, socket, head, { rayId, scheme, route });
    },
    connect(request, socket) {
      const rayId = randomHex(8);
      const route = routeOf(request);
      if (route.destination === 'bad') writeWhole(socket, plainWhole(400, route.text, { rayId }));
      else writeWhole(socket, plainWhole(405, 'Method not allowed', { rayId, headers: { Allow: tunnelFreeMethods } }));
    },
  };
}

/** What is allowed where CONNECT is not (D66). */
export const tunnelFreeMethods = 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS';

function hasUnknownCoding({ headers }: IncomingMessage): boolean {
  const coding = headers['transfer-encoding'];
  return coding !== undefined && coding.trim().toLowerCase() !== 'chunked';
}

/** RFC 9110 §10.1.1: nothing but 100-continue is known. */
function isUnknownExpectation({ headers }: IncomingMessage): boolean {
  return headers.expect !== undefined && headers.expect.trim().toLowerCase() !== '100-continue';
}

/** Makes the app; it binds nothing before `listen`. */
export function createHttpApp(parts: HttpAppParts): HttpApp {
  const listeners: HttpListener[] = [];
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
    genReqId: (request) => rays.get(request) ?? '',
    trustProxy: parts.trustedProxies && parts.trustedProxies.length > 0 ? [...parts.trustedProxies] : false,
    return503OnClosing: false,
    routerOptions: { maxParamLength: 500 },
    frameworkErrors: (_error, request, reply) => {
      const message = 'The path has a percent-encoding that is none';
      if (request.raw.url?.startsWith('/client/v4/') === true) {
        void refuse(reply, [{ token: 'E_VALIDATION_ERROR', message }]);
      } else answerPlainly(reply.raw, 400, message);
    },
  }).withTypeProvider<SchemaTypes>();
  app.decorate('answers', parts.answers);
  app.decorateRequest('submitter', undefined);
  app.decorateRequest('document', undefined);
  app.decorateRequest('bodyOctets', 0);
  app.decorateRequest('bodyDigest', undefined);
  app.setValidatorCompiler(schemaCompiler());
  app.setSerializerCompiler(() => (data) => JSON.stringify(data));
  const routes: DocumentedRoute[] = [];
  let documents: { readonly json: string; readonly page: string } | undefined;
  const openApi = (): { readonly json: string; readonly page: string } => {
    if (!documents) {
      const document = openApiDocument(routes, parts.answers);
      documents = { json: `${JSON.stringify(document, null, 2)}\n`, page: renderReference(document) };
    }
    return documents;
  };
  plainRoutes(app, { ...parts, openApi }, methods);
  v4Routes(app, {
    ...parts,
    routes,
    methods,
    addressLimit: createAddressLimit(parts.clock),
    onAuthFailure: () => (authFailures += 1),
  });
  return {
    async listen(at, tls) {
      await app.ready();
      if (!toFastify) throw new Error('Fastify has no handler');
      const scheme = tls ? 'https' : 'http';
      const listener = createListener(createHandlers(parts, scheme, toFastify), tls);
      try {
        const bound = await listener.listen(at);
        listeners.push(listener);
        return bound;
      } catch (cause) {
        const text = `Cannot listen on ${scheme} ${at.host}:${at.port}: ${errorMessage(cause)}`;
        throw new ConfigurationError(text, { cause });
      }
    },
    async close(withinMs) {
      await Promise.all([...listeners.map((listener) => listener.close(withinMs)), app.close()]);
    },
    authFailures: () => authFailures,
  };
}
