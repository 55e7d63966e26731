// Everything under /client/v4: authorized before the body is read, answered in envelopes, a line in the log each.

import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import type { BodyBudget } from '../../base/body-budget.ts';
import { TooMuchAsked, Unavailable } from '../../base/errors.ts';
import type { Logger } from '../../base/log.ts';
import type { SchemaError } from '../../base/schema-judge.ts';
import { type AuthorizationParts, authorize, failureTeller, refusalNow } from './authorization.ts';
import { faultOf, Refusal, refuse } from './envelope.ts';
import { pathForLog } from './front.ts';
import { isHeadTooLarge, maxApiHeadOctets } from './listener/request-end.ts';
import { type DocumentedRoute, documentedRoutes } from './openapi.ts';
import type { AllowedMethods } from './plain-routes.ts';
import { admitBody, bodyLimit, readBodies } from './request-body.ts';
import { documentFaults, type JudgedPart, schemaFaults } from './schema-faults.ts';
import type { V4App, V4Plugin } from './v4-app.ts';

/** What these routes are made from. */
export interface V4Parts extends Omit<AuthorizationParts, 'onFailure'> {
  readonly bodies: BodyBudget;
  readonly log: Logger;
  /** False while the process starts or ends: endpoints answer 503 with Retry-After then (D97). */
  readonly takesRequests: () => boolean;
  readonly plugins: readonly V4Plugin[];
}

interface V4Record {
  readonly methods: AllowedMethods;
  /** Every route is added here, for the OpenAPI document. */
  readonly routes: DocumentedRoute[];
  readonly onAuthFailure: () => void;
}

const restartSeconds = 5;
const defaultBodyBytes = 1_048_576;

/** Answers a request that comes while the process starts or stops (D97). */
export function putOff(reply: FastifyReply): FastifyReply {
  const message = 'The gateway is starting or stopping; try again';
  return refuse(reply, [{ token: 'E_INTERNAL_SERVER_ERROR', message, status: 503 }], restartSeconds);
}

function pathOf(request: FastifyRequest): string {
  return request.url.split('?', 1)[0] ?? '/';
}

function notFound(request: FastifyRequest, reply: FastifyReply, methods: AllowedMethods): FastifyReply {
  const allowed = methods.of(pathOf(request));
  if (allowed.length === 0) {
    const message = `There is no ${JSON.stringify(pathOf(request).slice(0, 200))} here`;
    return refuse(reply, [{ token: 'E_NOT_FOUND', message }]);
  }
  const message = `${request.method.slice(0, 20)} is not taken here, only ${allowed.join(', ')}`;
  return refuse(reply.header('Allow', allowed.join(', ')), [{ token: 'E_METHOD_NOT_ALLOWED', message }]);
}

type Invalid = FastifyError & { readonly validation: SchemaError[]; readonly validationContext: JudgedPart };

function isInvalid(error: unknown): error is Invalid {
  return error instanceof Error && 'validation' in error && Array.isArray(error.validation);
}

/** Answers a thrown error in the envelope, and logs it where it was not expected. @param error a Refusal, a schema's, or another */
export function answerError(log: Logger, error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  if (error instanceof Refusal) {
    const [first] = error.faults;
    if (first && 'token' in first && first.token === 'E_UNAUTHORIZED') {
      reply.header('WWW-Authenticate', 'Bearer realm="postern"'); // RFC 9110 §11.6.1
    }
    return refuse(reply, error.faults, error.retryAfterSeconds);
  }
  if (isInvalid(error)) {
    const repeated = request.document ? documentFaults(request.document) : [];
    return refuse(reply, [...repeated, ...schemaFaults(error.validation, error.validationContext)]);
  }
  if (error instanceof TooMuchAsked) return refuse(reply, [faultOf(error, request.id)], error.retryAfterSeconds);
  const facts = { session: request.id, method: request.method, path: pathForLog(request.url) };
  if (error instanceof Unavailable) {
    log.warn({ ...facts, reason: error.message }, 'put off');
    return refuse(reply, [faultOf(error, request.id)], error.retryAfterSeconds);
  }
  if (request.raw.destroyed && !request.raw.complete) {
    log.info({ session: request.id, client: request.ip }, 'client went away');
  } else {
    log.error({ ...facts, err: error }, 'failed');
  }
  return refuse(reply, [faultOf(error, request.id)]);
}

/** Registers the endpoints of the plugins. */
export function v4Routes(root: V4App, parts: V4Parts, { methods, routes, onAuthFailure }: V4Record): void {
  const { log } = parts;
  const authorization = { ...parts, onFailure: failureTeller({ log, onAuthFailure }, pathOf) };
  void root.register(
    async (app: V4App) => {
      app.addHook('onRoute', (route) => {
        const { url, config, method } = route;
        if (config?.scope === undefined) throw new Error(`Route ${String(method)} ${url} names no scope`);
        for (const documented of documentedRoutes(route)) routes.push(documented);
      });
      app.addHook('onRequest', async (request, reply) => {
        reply.header('Cache-Control', 'no-store');
        if (isHeadTooLarge(request.raw)) {
          const message = `The target or the header section is over ${maxApiHeadOctets} octets`;
          return refuse(reply, [{ token: 'E_CONTENT_TOO_LARGE', message, status: 431 }]);
        }
        if (request.is404) return notFound(request, reply, methods);
        if (!parts.takesRequests()) return putOff(reply);
        const { scope } = request.routeOptions.config;
        if (scope === undefined) throw new Error('A route without a scope was called');
        request.submitter = await authorize(request, scope, authorization);
        request.refusedNow = () => refusalNow(request, scope, authorization);
        const { bodyTypes: types } = request.routeOptions.schema ?? {};
        admitBody(request, reply, { bodies: parts.bodies, limit: bodyLimit(request, defaultBodyBytes), types });
        return undefined;
      });
      app.addHook('onResponse', (request, reply, done) => {
        const { account, credential } = request.submitter ?? {};
        const whose = { client: request.ip, account: account?.name, credential: credential?.name };
        const path = pathOf(request).slice(0, 200);
        const asked = { session: request.id, method: request.method, path, status: reply.statusCode };
        log.info({ ...asked, ...whose, ms: Math.round(reply.elapsedTime) }, 'request');
        done();
      });
      app.setNotFoundHandler(async (request, reply) => notFound(request, reply, methods));
      app.setErrorHandler(async (error, request, reply) => answerError(log, error, request, reply));
      readBodies(app, defaultBodyBytes);
      for (const plugin of parts.plugins) plugin(app);
    },
    { prefix: '/client/v4' },
  );
}
