// The one form of an endpoint of an account or a zone, and its versions: ETag and If-Match (RFC 9110 §8.8.3, §13.1.1).

import type { FastifyReply, FastifyRequest, FastifySchema, RouteShorthandOptions } from 'fastify';
import { type Static, type TObject, type TProperties, type TSchema, Type } from 'typebox';
import type { Account, Credential, Scope } from '../../accounts/account.ts';
import { createKeyedQueues, type KeyedQueues } from '../../base/keyed-queues.ts';
import { Refusal, succeed } from './envelope.ts';
import type { BodyOptions } from './request-body.ts';
import { submitterOf, type V4Plugin } from './v4-app.ts';

/** The path parameter that names the account. */
export const accountPath = Type.Object({
  account_id: Type.String({
    want: 'the id or the name of an account',
    description: 'Id or name of the account',
    example: 'dev',
  }),
});

/** An object that is a component of the OpenAPI document. @param title its name: one word, in PascalCase */
export function component<Properties extends TProperties>(title: string, properties: Properties) {
  return Type.Object(properties, { title });
}

/** The same of a body, which takes no other members. */
export function bodyOf<Properties extends TProperties>(title: string, properties: Properties) {
  return Type.Object(properties, { additionalProperties: false, title });
}

type Scopes = Scope | readonly Scope[];

type Before = (request: FastifyRequest) => Promise<void>;

/** What several endpoints of one thing share. */
export interface EndpointTarget {
  /** Where they begin, behind /client/v4. */
  readonly path: string;
  readonly tag: string;
  /** The scopes that let a caller look (GET), and those for everything else; of several, one is enough. */
  readonly reads: Scopes;
  readonly edits?: Scopes;
  /** Stands behind each operationId, where the same endpoints are also at another place. */
  readonly suffix?: string;
  readonly before?: Before;
  /** Has what is not GET done, by the id of its account; absent: at once. */
  readonly pace?: KeyedQueues;
}

/** An endpoint as the OpenAPI document describes it, and what answers, with types from its schemas. `Parts` is what it works on. */
interface Described<Params extends TObject, Query extends TSchema, Body extends TSchema, Parts>
  extends Pick<FastifySchema, 'description' | 'answerType' | 'codes' | 'bodyTypes'> {
  /** Method, and what is behind the place's path: `GET`, `DELETE /:id`. */
  readonly at: string;
  readonly operationId: string;
  /** Where it is there for one account and for all, a function that takes whose it is: `of an account`. */
  readonly summary: string | ((whose: string) => string);
  /** What the path names besides the account. */
  readonly params?: Params;
  readonly query?: Query;
  readonly body?: Body;
  readonly result?: TSchema;
  /** False: HEAD is not answered. */
  readonly exposeHeadRoute?: boolean;
  /** In place of that of the place. */
  readonly before?: Before;
  /** How the body is read and judged; absent: by its schema. */
  readonly reading?: BodyOptions & Pick<RouteShorthandOptions, 'attachValidation' | 'validatorCompiler'>;
  /** Gives the result, or the reply where that is sent already. */
  answer(this: void, asked: AskedOf<Static<Params>, Static<Query>, Static<Body>>, parts: Parts): unknown;
}

/** An endpoint, whatever it is asked. */
export type ApiEndpoint<Parts> = Described<TObject, TSchema, TSchema, Parts>;

/** Makes an endpoint, whose schemas give the types of what it is asked. */
export function endpoint<
  Parts,
  Params extends TObject = TObject,
  Query extends TSchema = TSchema,
  Body extends TSchema = TSchema,
>(described: Described<Params, Query, Body, Parts>): ApiEndpoint<Parts> {
  return described;
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
  /** Does work once what was asked for here of the same account before has ended: who asks for much keeps itself waiting. */
  readonly inTurn: <T>(work: () => Promise<T>) => Promise<T>;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
}

/** What the OpenAPI document says of a change that is done at the account's pace. */
const paceNote =
  'One process does such changes of an account one after another, with a rest behind each; where 250 wait, the next gets 429.';

/** Gives what registers endpoints at a place. */
export function endpointsOf<Parts>(
  { path, tag, reads, edits = reads, suffix = '', pace, ...place }: EndpointTarget,
  parts: Parts,
  endpoints: readonly ApiEndpoint<Parts>[],
): V4Plugin {
  const isOfAccount = path.includes('/:account_id');
  return (app) => {
    const queued = createKeyedQueues();
    for (const one of endpoints) {
      const { at, operationId, summary, query, params, result, exposeHeadRoute = true, ...more } = one;
      const [method = '', below = ''] = at.split(' ');
      const paced = method === 'GET' ? undefined : pace;
      const { before = place.before, reading = {}, answer: _, ...described } = more;
      const { attachValidation = false, validatorCompiler, ...bodyOptions } = reading;
      const named = isOfAccount ? Type.Object({ ...accountPath.properties, ...params?.properties }) : params;
      app.route({
        method,
        url: path + below,
        exposeHeadRoute: exposeHeadRoute && method === 'GET',
        attachValidation,
        ...(validatorCompiler ? { validatorCompiler } : {}),
        ...(before ? { onRequest: before } : {}),
        config: { scope: method === 'GET' ? reads : edits, ...bodyOptions },
        schema: {
          ...described,
          ...(paced ? { description: [described.description, paceNote].filter(Boolean).join(' ') } : {}),
          operationId: operationId + suffix,
          summary: typeof summary === 'string' ? summary : summary(isOfAccount ? 'of an account' : 'of all accounts'),
          tags: [tag],
          ...(named ? { params: named } : {}),
          ...(query ? { querystring: query } : {}),
          ...(result ? { response: { 200: result } } : {}),
        },
        async handler(request, reply) {
          const submitter = submitterOf(request);
          const of = isOfAccount ? submitter.account.name : undefined;
          // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the schema has judged it
          const facts = { params: request.params as Static<TObject>, query: request.query, body: request.body };
          const inTurn: AskedOf['inTurn'] = (work) => queued(of ?? '*', work);
          const answer = async () => one.answer({ ...submitter, ...facts, of, inTurn, request, reply }, parts);
          // A token may be revoked while its change waits.
          const change = async () => {
            const refused = await request.refusedNow?.();
            if (refused) throw refused;
            return await answer();
          };
          const told = await (paced ? paced(submitter.account.id, change) : answer());
          // A reply is a promise: awaited, it is no longer there to be compared.
          return reply.sent ? reply : succeed(reply, told);
        },
      });
    }
  };
}

/** Gives what registers the same endpoints for one account, and for all: those are the operator's. @param path behind the account's */
export function endpointsOfBoth<Parts>(
  { path, tag, suffix = 'OfAll' }: Pick<EndpointTarget, 'path' | 'tag' | 'suffix'>,
  parts: Parts,
  endpoints: readonly ApiEndpoint<Parts>[],
): V4Plugin {
  const ofAccount = {
    path: `/accounts/:account_id${path}`,
    tag,
    reads: 'console:read',
    edits: 'console:edit',
  } as const;
  const each = [ofAccount, { path, tag, reads: 'admin', suffix } as const];
  return (app) => {
    for (const place of each) endpointsOf(place, parts, endpoints)(app);
  };
}

/** What a caller may meet where If-Match is honoured, for the OpenAPI document. */
export const changedCode = { number: 10001, status: 412 } as const;

/** Gives the version of what is answered to the client. */
export function showVersion(reply: FastifyReply, version: string | number): void {
  reply.header('ETag', `"${version}"`);
}

/** Whether a request is to be done only on a version that it names. */
export function namesVersion({ headers }: FastifyRequest): boolean {
  return headers['if-match'] !== undefined;
}

/** The refusal of a request whose If-Match names another version than the present one. */
export function changed(): Refusal {
  const message = 'If-Match names another version than the present one; get it again and look at what has changed';
  return new Refusal([{ ...changedCode, message }]);
}

/** Judges If-Match. @throws Refusal 412 where no version that it names is this one; a weak tag fits nothing (RFC 9110 §8.8.3.2) */
export function judgeVersion(request: FastifyRequest, version: string | number): void {
  const wanted = request.headers['if-match'];
  if (wanted === undefined || wanted.trim() === '*') return;
  const tags = wanted.split(',').map((tag) => tag.trim());
  if (!tags.includes(`"${version}"`)) throw changed();
}
