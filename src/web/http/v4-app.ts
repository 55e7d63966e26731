// What a room registers its endpoints of the v4 API on. A room exports a V4Plugin, which the gateway lists in `plugins`; endpoints of
// an account or a zone are registered by `endpointsOf` (endpoint.ts), others on the app itself.
//
// - Paths begin behind /client/v4. Every route names a scope (D85), or several of which one is enough: before a body is read the
//   token has been looked up, the scope found, and `:account_id` (id or name) or the account of `:zone_id` held against the token's
//   account; then `submitterOf(request)` gives the account of the path and the token's credential.
// - Schemas are typebox; what they judge has their types. typebox tells all errors, without coercion, defaults or removal, so query
//   parameters are strings. Objects that refuse unknown fields say `additionalProperties: false`. An annotation `want` reads behind
//   "must be" in errors. A schema with a `title` of one PascalCase word becomes a component of that name in the OpenAPI document.
//   `response` schemas only document.
// - Bodies are JSON without prototypes, repeated names refused; `config.bodyBytes` sets another limit than 1 MiB.
// - What is thrown and is no Refusal is logged and answered 500 / 10002. `request.id` is the Ray-ID.

import type { IncomingMessage, ServerResponse } from 'node:http';
import type {
  FastifyBaseLogger,
  FastifyInstance,
  FastifyRequest,
  FastifyTypeProvider,
  RawServerDefault,
} from 'fastify';
import type { Static, TSchema } from 'typebox';
import type { Scope, Submitter } from '../../accounts/account.ts';
import type { BodyReservation } from '../../base/body-budget.ts';
import type { AnswerTable, Refusal, V4Number, V4Token } from './envelope.ts';
import type { JsonDocument } from './json/json-reader.ts';
import type { BodyOptions } from './request-body.ts';

/** Tells Fastify the types of typebox schemas. */
export interface SchemaTypes extends FastifyTypeProvider {
  validator: this['schema'] extends TSchema ? Static<this['schema']> : unknown;
  serializer: unknown;
}

/** What a plugin registers its routes on; paths are below /client/v4. */
export type V4App = FastifyInstance<RawServerDefault, IncomingMessage, ServerResponse, FastifyBaseLogger, SchemaTypes>;

/** Registers routes outside /client/v4, with hooks and an error handler of its own. @param onAuthFailure told of each wrong token */
export type RootPlugin = (app: V4App, onAuthFailure: () => void) => void | Promise<void>;

/** Registers endpoints. */
export type V4Plugin = (app: V4App) => void;

/** A number without a token that a caller may meet. */
export interface DocumentedCode {
  readonly number: V4Number;
  readonly status: number;
  /** Texts for people; of several codes with the same number one has to have them. */
  readonly described?: { readonly title: string; readonly when: string; readonly remedy: string };
}

declare module 'fastify' {
  interface FastifyContextConfig extends BodyOptions {
    /** What the token must be allowed to do (D85); of several, one is enough. */
    readonly scope?: Scope | readonly Scope[];
  }
  interface FastifyInstance {
    answers: AnswerTable;
  }
  interface FastifyRequest {
    /** Who calls; absent before authorization. */
    submitter: Submitter | undefined;
    /** What would keep the request out now, for answers that go on and changes that wait. Absent before authorization; may reject. */
    refusedNow: (() => Promise<Refusal | undefined>) | undefined;
    /** The document read from the body; absent where there was no body. */
    document: JsonDocument | undefined;
    /** The room in memory that the body holds until the answer is made; absent where there is no body. */
    bodyReservation: BodyReservation | undefined;
    /** How many octets the body had; 0 where there was no body. */
    bodyOctets: number;
    /** SHA-256 of the body's octets in hex, where the route wants it and the request has an Idempotency-Key. */
    bodyDigest: string | undefined;
  }
  interface FastifySchema {
    /** The name that client generators give the operation: camelCase, and unique. */
    operationId?: string;
    summary?: string;
    description?: string;
    tags?: readonly string[];
    /** Codes a caller may meet here besides those of every endpoint, for the OpenAPI document. */
    tokens?: readonly V4Token[];
    /** Numbers without a token that a caller may meet here, and their statuses, for the OpenAPI document. */
    codes?: readonly DocumentedCode[];
    /** Media type of the answer, where it is no envelope. */
    answerType?: string;
    /** Media types of the body, all of them JSON; any other is 415. Absent: application/json. */
    bodyTypes?: readonly string[];
  }
}

/** Who calls an endpoint. */
export function submitterOf(request: FastifyRequest): Submitter {
  if (!request.submitter) throw new Error('An endpoint without a scope asks who calls');
  return request.submitter;
}
