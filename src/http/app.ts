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
import { createGuessing, type Guessing } from '../accounts/guessing.ts';
import { type BodyBudget, type BodyHold, createBodyBudget, defaultBodyLimit } from '../base/body-budget.ts';
import type { Clock } from '../base/clock.ts';
import { ConfigurationError, errorMessage } from '../base/errors.ts';
import type { Logger } from '../base/log.ts';
import { AllowedMethods } from './allowed-methods.ts';
import { type AnswerTable, refuse } from './envelope.ts';
import { type Answerer, createHandlers, type HttpFront, rayOf } from './front.ts';
import type { JsonDocument } from './json/json-reader.ts';
import { type ConnectionLimits, type ConnectionRefusal, createConnectionLimit } from './listener/connection-limit.ts';
import type { OpenHttp } from './listener/connections.ts';
import { type BoundHttp, createListener, type HttpListener, type ListenerTls } from './listener/listener.ts';
import { type DocumentedRoute, openApiDocument } from './openapi.ts';
import { answerPlainly, plainRoutes } from './plain-routes.ts';
import { renderReference } from './reference-page.ts';
import type { BodyOptions } from './request-body.ts';
import { schemaCompiler } from './schema-compiler.ts';
import type { V4Number, V4Token } from './v4-code.ts';
import { v4Routes } from './v4-routes.ts';

export type { Arrival, HttpFront } from './front.ts';
export type { BoundHttp, ListenerTls } from './listener/listener.ts';

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
    /** The room in memory of the body, until the answer is made; absent where there is no body. */
    bodyHold: BodyHold | undefined;
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
    tokens?: readonly V4Token[];
    /** Numbers without a token that a caller may meet here, and their statuses, for the OpenAPI document. */
    codes?: readonly { readonly number: V4Number; readonly status: number }[];
    /** Media types of the body, all of them JSON; any other is 415. Absent: application/json. */
    bodyTypes?: readonly string[];
  }
}

/** What the app is made from. */
export interface HttpAppParts {
  readonly answers: AnswerTable;
  readonly accounts: Pick<Accounts, 'authenticate' | 'authenticateGlobalKey' | 'find'>;
  /** Id of the account that a zone belongs to (32 hex, lower case); absent: there are no zones. */
  readonly accountOfZone?: (zone: string) => string | undefined;
  /** The room in memory for bodies, of all doors; absent: one of its own. */
  readonly bodies?: BodyBudget;
  /** The count of wrong tokens of all doors; absent: one of its own. */
  readonly guessing?: Guessing;
  readonly clock: Clock;
  readonly log: Logger;
  /** True once every listener is up and until draining begins. */
  readonly ready: () => boolean;
  /** False while the process starts or ends: endpoints answer 503 with Retry-After then (D97). Absent: always true. */
  readonly takesRequests?: () => boolean;
  /** The Prometheus text and its content type. */
  readonly metrics: () => Promise<{ readonly contentType: string; readonly text: string } | undefined>;
  /** Networks of proxies whose X-Forwarded-For is believed (D66). */
  readonly trustedProxies?: readonly string[];
  readonly plugins: readonly V4Plugin[];
  /** Answers for zones, and for what is neither a zone's nor the API's (D67). Absent: that is a plain 404. */
  readonly front?: HttpFront;
  /** Milliseconds that a request has for its body; absent: 300,000. */
  readonly bodyTimeoutMs?: number;
  /** Absent: as many connections as come. */
  readonly limits?: ConnectionLimits;
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
  /** Stops accepting on all of them, lets requests in flight finish, and cuts what is left after so many milliseconds. */
  close(withinMs: number): Promise<void>;
  /** Failed logins since the start. */
  authFailures(): number;
  /** What is open now, all listeners together. */
  open(): OpenHttp;
  /** Connections refused since the start, by the limit that they were over. */
  refusedConnections(): Readonly<Record<ConnectionRefusal, number>>;
}

/** Who calls an endpoint. */
export function submitterOf(request: FastifyRequest): Submitter {
  if (!request.submitter) throw new Error('An endpoint without a scope asks who calls');
  return request.submitter;
}

const noLimits: ConnectionLimits = { connections: Infinity, connectionsPerAddress: Infinity };

/** Makes the app; it binds nothing before `listen`. */
export function createHttpApp(parts: HttpAppParts): HttpApp {
  const listeners: HttpListener[] = [];
  const limit = createConnectionLimit(parts.limits ?? noLimits, parts.trustedProxies);
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
  app.setValidatorCompiler(schemaCompiler());
  app.setSerializerCompiler(() => (data) => JSON.stringify(data));
  const routes: DocumentedRoute[] = [];
  // As octets: answers that wait to be read share them, however many there are.
  let documents: { readonly json: Buffer; readonly page: Buffer } | undefined;
  const openApi = (): { readonly json: Buffer; readonly page: Buffer } => {
    if (!documents) {
      const document = openApiDocument(routes, parts.answers);
      const json = Buffer.from(`${JSON.stringify(document, null, 2)}\n`);
      documents = { json, page: Buffer.from(renderReference(document)) };
    }
    return documents;
  };
  plainRoutes(app, { ...parts, openApi }, methods);
  v4Routes(app, {
    ...parts,
    routes,
    methods,
    guessing: parts.guessing ?? createGuessing(),
    bodies: parts.bodies ?? createBodyBudget(defaultBodyLimit()),
    onAuthFailure: () => (authFailures += 1),
  });
  return {
    async listen(at, tls) {
      await app.ready();
      if (!toFastify) throw new Error('Fastify has no handler');
      const scheme = tls ? 'https' : 'http';
      const listener = createListener({
        handlers: createHandlers({ ...parts, front: parts.front, scheme, toFastify }),
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
    refusedConnections: () => limit.refused(),
  };
}
