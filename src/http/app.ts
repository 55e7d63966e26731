// The HTTP app: Fastify behind one plain node:http listener, so that hostnames of zones can be routed before Fastify looks
// at anything (D67). Under /client/v4 every answer is the v4 envelope; elsewhere errors are one line of text.
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

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
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
import { type DocumentedRoute, openApiDocument } from './openapi.ts';
import { answerPlainly, plainRoutes } from './plain-routes.ts';
import { renderReference } from './reference-page.ts';
import type { BodyOptions } from './request-body.ts';
import { schemaCompiler } from './schema-compiler.ts';
import { v4Routes } from './v4-routes.ts';

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
  /** Asked before anything else; true where it has taken the request (D67: a zone's hostname). */
  readonly takes?: (request: IncomingMessage, response: ServerResponse, rayId: string) => boolean;
}

/** Where the app is bound. */
export interface BoundHttp {
  readonly host: string;
  readonly port: number;
}

/** The running app. */
export interface HttpApp {
  /**
   * Binds.
   * @throws ConfigurationError where it cannot
   */
  listen(at: BoundHttp): Promise<BoundHttp>;
  /** Stops accepting, lets requests in flight finish, and cuts what is left after so many milliseconds. */
  close(withinMs: number): Promise<void>;
  /** Failed logins since the start. */
  authFailures(): number;
}

/** Who calls an endpoint. */
export function submitterOf(request: FastifyRequest): Submitter {
  if (!request.submitter) throw new Error('An endpoint without a scope asks who calls');
  return request.submitter;
}

/** Header section of a request, octets. */
const maxHeaderSize = 32_768;
/** After an answer that came before the end of the body, the rest of the body is thrown away for so long. */
const lingerMs = 3000;

const rays = new WeakMap<IncomingMessage, string>();

function isApiPath(path: string): boolean {
  return path.startsWith('/client/v4/') || ['/livez', '/readyz', '/metrics', '/docs', '/openapi.json'].includes(path);
}

const hostForm = /^(?:\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(?::[0-9]{1,5})?$/;

/** RFC 9112 §3.2: one Host, and a valid one. */
function hasGoodHost(request: IncomingMessage): boolean {
  const { rawHeaders, headers } = request;
  if (headers.host === undefined || !hostForm.test(headers.host)) return false;
  let count = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    if (rawHeaders[index]?.length === 4 && rawHeaders[index]?.toLowerCase() === 'host') count += 1;
  }
  return count === 1;
}

type Listener = (request: IncomingMessage, response: ServerResponse) => void;

/** Decides whose a request is (D67). */
function route(parts: HttpAppParts, toFastify: Listener): Listener {
  return (request, response) => {
    const ray = randomHex(8); // D62: one per response of any kind
    rays.set(request, ray);
    response.setHeader('Ray-ID', ray);
    if (!hasGoodHost(request)) {
      answerPlainly(response, 400, 'Bad Host header');
      return;
    }
    if (parts.takes?.(request, response, ray) === true) return;
    const path = (request.url ?? '/').split('?', 1)[0] ?? '/';
    if (isApiPath(path)) toFastify(request, response);
    else answerPlainly(response, 404, 'Not found');
  };
}

const clientErrors: Readonly<Record<string, readonly [number, string]>> = {
  HPE_HEADER_OVERFLOW: [431, 'Request Header Fields Too Large'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'Request Timeout'],
};

/** Octets that are no HTTP: answered by hand, there is no request to answer. */
function onClientError(error: NodeJS.ErrnoException, socket: Socket): void {
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy();
    return;
  }
  const [status, reason] = clientErrors[error.code ?? ''] ?? [400, 'Bad Request'];
  const text = `${reason}\n`;
  socket.end(
    `HTTP/1.1 ${status} ${reason}\r\nRay-ID: ${randomHex(8)}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: ${text.length}\r\nConnection: close\r\n\r\n${text}`,
  );
}

function createListener(parts: HttpAppParts, toFastify: Listener): Server {
  const handle = route(parts, toFastify);
  const server = createServer(
    {
      maxHeaderSize,
      requireHostHeader: false,
      requestTimeout: 300_000,
      headersTimeout: 20_000,
      keepAliveTimeout: 30_000,
    },
    handle,
  );
  watchConnections(server);
  // RFC 9110 §10.1.1: a body is asked for only once it is wanted, by the route that takes it.
  server.on('checkContinue', handle);
  server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    rays.set(request, randomHex(8));
    response.setHeader('Ray-ID', rays.get(request) ?? '');
    answerPlainly(response, 417, 'Expectation failed');
  });
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => onClientError(error, socket));
  return server;
}

/** Open connections of a listener, and how many requests each has under way. */
const requestsUnderWay = new WeakMap<Server, Map<Socket, number>>();

/** How long a request has to be asked in full once the listener closes. */
const silentGraceMs = 500;

function watchConnections(server: Server): void {
  const counts = new Map<Socket, number>();
  requestsUnderWay.set(server, counts);
  server.on('connection', (socket: Socket) => {
    counts.set(socket, 0);
    socket.once('close', () => counts.delete(socket));
  });
  server.on('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
    counts.set(socket, (counts.get(socket) ?? 0) + 1);
    response.once('close', () => {
      const count = counts.get(socket);
      if (count !== undefined) counts.set(socket, count - 1);
    });
  });
}

function closeSilentConnections(server: Server): void {
  for (const [socket, count] of requestsUnderWay.get(server) ?? []) if (count === 0) socket.destroy();
}

/** A body nobody wants is thrown away for a while, so that the client can read why, and then cut off. */
function linger(request: IncomingMessage): void {
  if (request.complete) return;
  const cut = setTimeout(() => {
    if (!request.complete) request.socket.destroy();
  }, lingerMs);
  cut.unref();
  request.once('close', () => clearTimeout(cut));
}

/** Makes the app; it binds nothing before `listen`. */
export function createHttpApp(parts: HttpAppParts): HttpApp {
  let server: Server | undefined;
  let authFailures = 0;
  const methods = new AllowedMethods();
  const app = Fastify({
    serverFactory: (handler) => (server = createListener(parts, handler)),
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
  app.addHook('onResponse', async (request) => linger(request.raw));
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
    async listen({ host, port }) {
      try {
        await app.listen({ host, port });
      } catch (cause) {
        throw new ConfigurationError(`Cannot listen on http ${host}:${port}: ${errorMessage(cause)}`, { cause });
      }
      const address = server?.address();
      if (!address || typeof address === 'string') throw new Error('The HTTP listener has no address');
      return { host: address.address, port: address.port };
    },
    async close(withinMs) {
      const cut = setTimeout(() => server?.closeAllConnections(), withinMs);
      // A connection that has asked nothing yet, or half a question, is not idle to Node: it would hold the end back.
      const cutSilent = setTimeout(() => server && closeSilentConnections(server), Math.min(withinMs, silentGraceMs));
      await app.close();
      clearTimeout(cut);
      clearTimeout(cutSilent);
    },
    authFailures: () => authFailures,
  };
}
