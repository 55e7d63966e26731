// The API: Fastify, which never listens itself. Under /client/v4 answers are v4 envelopes, elsewhere refusals a line of text.

import { createServer } from 'node:http';
import Fastify from 'fastify';
import type { TSchema } from 'typebox';
import { createDocuments } from './documents.ts';
import { type AnswerTable, refuse } from './envelope.ts';
import { type Answerer, rayOf } from './front.ts';
import type { DocumentedRoute } from './openapi.ts';
import { AllowedMethods, answerPlainly, type PlainParts, plainRoutes } from './plain-routes.ts';
import { compileJudge } from './schema-faults.ts';
import type { RootPlugin, SchemaTypes, V4App, V4Plugin } from './v4-app.ts';
import { type V4Parts, v4Routes } from './v4-routes.ts';

/** What the API is made from. */
export interface ApiParts extends PlainParts, Omit<V4Parts, 'plugins'> {
  /** The endpoints under /client/v4, or what loads them. */
  readonly plugins: readonly V4Plugin[] | (() => Promise<readonly V4Plugin[]>);
  readonly answers: AnswerTable;
  /** Networks of proxies whose X-Forwarded-For is believed (D66). */
  readonly trustedProxies: readonly string[];
  /** The console's routes, served on the API's own hosts; absent: it is not served. */
  readonly console?: RootPlugin;
  /** The pages of headers; absent: there are none. */
  readonly headerPages?: RootPlugin;
}

/** Characters that an id or a name in a path may have. */
const longestPart = 500;

/** Stands where Fastify would ask for a compiler before one is set. */
function neverAsked(): never {
  throw new Error('Every route is made after the compilers of its schemas were set');
}

/** Makes the routes of the API. @param onAuthFailure told of each wrong token @returns what answers a request */
export async function createApi(parts: ApiParts, onAuthFailure: () => void): Promise<Answerer> {
  let toFastify: Answerer | undefined;
  const methods = new AllowedMethods();
  const app = Fastify({
    // Fastify answers; it never listens itself.
    serverFactory: (handler) => {
      toFastify = handler;
      return createServer();
    },
    logger: false,
    genReqId: (request) => rayOf(request),
    trustProxy: parts.trustedProxies.length > 0 ? [...parts.trustedProxies] : false,
    return503OnClosing: false,
    routerOptions: { maxParamLength: longestPart },
    // Fastify loads a hundred modules for its own compilers, though those set below are used.
    schemaController: { compilersFactory: { buildValidator: neverAsked, buildSerializer: neverAsked } },
    frameworkErrors: (error, request, reply) => {
      const isLong = error.code === 'FST_ERR_MAX_PARAM_LENGTH';
      const message = isLong
        ? `A part of the path has more than ${longestPart} characters`
        : 'The path has a percent-encoding that is none';
      if (request.raw.url?.startsWith('/client/v4/') === true) {
        const { id: session, method, ip: client } = request;
        parts.log.info({ session, method, path: request.raw.url.slice(0, 200), status: 400, client }, 'request');
        void refuse(reply, [{ token: 'E_VALIDATION_ERROR', message }]);
      } else answerPlainly(reply.raw, 400, message);
    },
  }).withTypeProvider<SchemaTypes>();
  app.setValidatorCompiler<TSchema>(({ schema }) => compileJudge(schema));
  app.setSerializerCompiler(() => (data) => JSON.stringify(data));
  app.decorate('answers', parts.answers);
  for (const name of ['submitter', 'refusedNow', 'document', 'bodyReservation', 'bodyDigest'] as const)
    app.decorateRequest(name, undefined);
  app.decorateRequest('bodyOctets', 0);
  const routes: DocumentedRoute[] = [];
  const documents = createDocuments(routes, parts.answers);
  plainRoutes(app, parts, { documents, methods, onAuthFailure });
  const plugins = typeof parts.plugins === 'function' ? await parts.plugins() : parts.plugins;
  v4Routes(app, { ...parts, plugins }, { routes, methods, onAuthFailure });
  for (const pages of [parts.console, parts.headerPages])
    if (pages) void app.register(async (scope: V4App) => await pages(scope, onAuthFailure));
  await app.ready();
  if (!toFastify) throw new Error('Fastify has no handler');
  return toFastify;
}
