// The one form of an endpoint here: its place, what it takes and gives, and the function that answers.

import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Static, TSchema } from 'typebox';
import type { Account, Credential, Scope } from '../accounts/account.ts';
import { succeed } from '../http/envelope.ts';
import { submitterOf, type V4App } from '../http/v4-app.ts';
import { accountPath } from './schemas.ts';

type Scopes = Scope | readonly Scope[];

/** What several endpoints of one thing share. */
export interface Place {
  /** Where they begin, behind /client/v4. */
  readonly path: string;
  readonly tag: string;
  /** The scopes that let a caller look (GET), and those for everything else; of several, one is enough. */
  readonly reads: Scopes;
  readonly edits?: Scopes;
  /** Stands behind each operationId, where the same endpoints are also at another place. */
  readonly suffix?: string;
}

/** An endpoint, as the OpenAPI document describes it. Its schemas also give the types of what it is asked. */
export interface Described<Params extends TSchema, Query extends TSchema, Body extends TSchema> {
  readonly operationId: string;
  readonly summary: string;
  readonly description?: string;
  /** Absent: the account alone, where the path names it. */
  readonly params?: Params;
  readonly query?: Query;
  readonly body?: Body;
  /** The result. */
  readonly result?: TSchema;
  /** Media type of an answer that is no envelope. */
  readonly answerType?: string;
  /** False: HEAD is not answered. */
  readonly exposeHeadRoute?: boolean;
}

/** What an endpoint is asked. */
export interface AskedOf<Params = unknown, Query = unknown, Body = unknown> {
  readonly params: Params;
  readonly query: Query;
  readonly body: Body;
  /** The account that the path names; where it names none, that of the token. */
  readonly account: Account;
  readonly credential: Credential;
  /** Name of the account that is asked about; undefined: all, since the path names none. */
  readonly of: string | undefined;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
}

/** Registers endpoints at a place. An answer is the result, or the reply where that is sent already. */
export type Register = <
  Params extends TSchema = typeof accountPath,
  Query extends TSchema = TSchema,
  Body extends TSchema = TSchema,
>(
  /** Method, and what is behind the place's path: `GET`, `DELETE /:id`. */
  method: string,
  described: Described<Params, Query, Body>,
  answer: (asked: AskedOf<Static<Params>, Static<Query>, Static<Body>>) => unknown,
) => void;

/** Gives the function that registers endpoints at a place. */
export function endpointsAt(app: V4App, { path, tag, reads, edits = reads, suffix = '' }: Place): Register {
  const isOfAccount = path.includes('/:account_id');
  return (line, { operationId, query, params, result, exposeHeadRoute = true, ...described }, answer) => {
    const [method = '', below = ''] = line.split(' ');
    app.route({
      method,
      url: path + below,
      exposeHeadRoute: exposeHeadRoute && method === 'GET',
      config: { scope: method === 'GET' ? reads : edits },
      schema: {
        ...described,
        operationId: operationId + suffix,
        tags: [tag],
        ...(params || isOfAccount ? { params: params ?? accountPath } : {}),
        ...(query ? { querystring: query } : {}),
        ...(result ? { response: { 200: result } } : {}),
      },
      async handler(request, reply) {
        const submitter = submitterOf(request);
        // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the schemas have judged them
        const asked = request as unknown as Parameters<typeof answer>[0];
        const of = isOfAccount ? submitter.account.name : undefined;
        const facts = { params: asked.params, query: asked.query, body: asked.body };
        const told = await answer({ ...submitter, ...facts, of, request, reply });
        // A reply is a promise: awaited, it is no longer there to be compared.
        return reply.sent ? reply : succeed(reply, told);
      },
    });
  };
}

/** A thing that an account sees of its own, and the operator of all. */
export interface SharedPlace {
  /** Behind the account. */
  readonly path: string;
  readonly tag: string;
  /** Stands behind the operationId of the operator's. */
  readonly suffix?: string;
}

/** Registers the same endpoints for one account, and for all: those are the operator's. */
export function endpointsOfBoth(
  app: V4App,
  { path, tag, suffix = 'OfAll' }: SharedPlace,
  register: (endpoint: Register, whose: string, isOfAccount: boolean) => void,
): void {
  const ofAccount = {
    path: `/accounts/:account_id${path}`,
    tag,
    reads: 'console:read',
    edits: 'console:edit',
  } as const;
  register(endpointsAt(app, ofAccount), 'of an account', true);
  register(endpointsAt(app, { path, tag, reads: 'admin', suffix }), 'of all accounts', false);
}
