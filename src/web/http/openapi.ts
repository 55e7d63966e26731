// The OpenAPI 3.1 document, made of the schemas that judge the requests (https://spec.openapis.org/oas/v3.1.0).

import type { FastifySchema, RouteOptions } from 'fastify';
import { isRecord, type UnknownRecord as Json } from '../../base/is-record.ts';
import { type AnswerTable, maxFaults, type V4Token } from './envelope.ts';

/** A route as it was registered. */
export interface DocumentedRoute {
  readonly method: string;
  /** With `:name` parameters. */
  readonly url: string;
  readonly schema: FastifySchema;
  /** The scope that it needs; several, of which one is enough, stand with "` or `" between them. */
  readonly scope: string;
}

/** Takes what the document needs of a route. The HEAD route that stands beside each GET is left out. */
export function documentedRoutes({ method, url, schema, config }: RouteOptions): DocumentedRoute[] {
  return [method]
    .flat()
    .filter((name) => name !== 'HEAD')
    .map((name) => ({
      method: name.toLowerCase(),
      url,
      schema: schema ?? {},
      scope: [config?.scope ?? []].flat().join('` or `'),
    }));
}

/** Collects schemas whose title is one word as components, and leaves references in their places. */
class Components {
  readonly schemas = new Map<string, unknown>();
  readonly #texts = new Map<string, string>();

  refer(value: unknown): unknown {
    if (Array.isArray(value)) return value.map((item) => this.refer(item));
    if (!isRecord(value)) return value;
    const title = value['title'];
    const written = this.#members(value);
    if (typeof title !== 'string' || !/^[A-Z][A-Za-z]+$/.test(title) || !('type' in value || 'anyOf' in value)) {
      return written;
    }
    const text = JSON.stringify(written);
    const known = this.#texts.get(title);
    if (known !== undefined && known !== text) throw new Error(`Two schemas have the title ${title}`);
    this.#texts.set(title, text);
    this.schemas.set(title, written);
    return { $ref: `#/components/schemas/${title}` };
  }

  #members(value: Json): Json {
    const members: Record<string, unknown> = {};
    for (const [name, member] of Object.entries(value)) {
      if (name === 'want') continue;
      // JSON Schema 2020-12 has no `example`.
      if (name === 'example') members['examples'] = [member];
      else members[name] = name === 'properties' && isRecord(member) ? this.#named(member) : this.refer(member);
    }
    return members;
  }

  /** Members of an answer or a body: they may have the names of annotations. */
  #named(properties: Json): Json {
    return Object.fromEntries(Object.entries(properties).map(([name, member]) => [name, this.refer(member)]));
  }
}

function parametersOf(schema: unknown, place: 'path' | 'query' | 'header', components: Components): Json[] {
  if (!isRecord(schema) || !isRecord(schema['properties'])) return [];
  const required: readonly unknown[] = Array.isArray(schema['required']) ? schema['required'] : [];
  return Object.entries(schema['properties']).map(([name, property]) => {
    const { description, ...rest } = isRecord(property) ? property : {};
    return {
      name,
      in: place,
      required: required.includes(name),
      description,
      schema: components.refer(rest),
    };
  });
}

const errorItem = {
  type: 'object',
  required: ['code', 'message'],
  properties: {
    code: { type: 'integer', description: 'The number of the token.' },
    message: { type: 'string', description: 'The E_ token, a colon, and what is wrong.' },
    documentation_url: { type: 'string', description: 'The entry of this refusal in the journal, in the console.' },
    rule_url: { type: 'string', description: 'The page of the rule that the header breaks; anybody may read it.' },
    source: {
      type: 'object',
      required: ['pointer'],
      properties: {
        pointer: {
          type: 'string',
          description:
            'JSON pointer (RFC 6901) of what in the body it is about. A name of more than 100 characters is cut in it, with its length told.',
        },
      },
    },
  },
} as const;

function envelopeSchema(success: boolean, { errors, messages, result }: Readonly<Record<string, unknown>>): Json {
  return {
    type: 'object',
    required: ['success', 'errors', 'messages', 'result'],
    properties: { success: { const: success }, errors, messages, result },
  };
}

const failureSchema = envelopeSchema(false, {
  errors: {
    type: 'array',
    minItems: 1,
    maxItems: maxFaults + 1,
    description: `At most ${maxFaults} faults and 64 KiB of them; behind these an item that tells how many more there are.`,
    items: { $ref: '#/components/schemas/EnvelopeError' },
  },
  messages: { type: 'array', maxItems: 0 },
  result: { type: 'null' },
});

/** The tokens that every endpoint may answer with. */
const everywhere = [
  'E_VALIDATION_ERROR',
  'E_UNAUTHORIZED',
  'E_FORBIDDEN',
  'E_NOT_FOUND',
  'E_METHOD_NOT_ALLOWED',
  'E_RATE_LIMIT_EXCEEDED',
  'E_INTERNAL_SERVER_ERROR',
] as const;
const ofWrites = ['E_NO_ROOM'] as const;
const ofBodies = ['E_FIELD_MISSING', 'E_CONTENT_TOO_LARGE', 'E_UNSUPPORTED_MEDIA_TYPE'] as const;
/** Statuses that differ from the token's own (D45). */
const moreStatuses: Readonly<Partial<Record<V4Token, readonly number[]>>> = {
  E_CONTENT_TOO_LARGE: [413],
  E_IDEMPOTENCY_CONFLICT: [422],
};

/** Every HTTP status that a token is answered with: that of the table, then those of certain endpoints (D45). */
export function statusesOf(token: V4Token, answers: AnswerTable): readonly number[] {
  return [answers[token].httpStatus, ...(moreStatuses[token] ?? [])];
}

function failures(route: DocumentedRoute, answers: AnswerTable): Record<string, Json> {
  const tokens = new Set<V4Token>([
    ...everywhere,
    ...(route.method === 'get' ? [] : ofWrites),
    ...(route.schema.body ? ofBodies : []),
    ...(route.schema.tokens ?? []),
  ]);
  const told = [
    ...[...tokens].flatMap((token) =>
      statusesOf(token, answers).map((status) => ({ status, text: `${token} (${answers[token].number})` })),
    ),
    ...(route.schema.codes ?? []).map(({ number, status }) => ({ status, text: String(number) })),
  ];
  const content = { 'application/json': { schema: { $ref: '#/components/schemas/Failure' } } };
  const retryAfter = { 'Retry-After': { description: 'Seconds.', schema: { type: 'integer' } } };
  return Object.fromEntries(
    [...Map.groupBy(told, ({ status }) => status)].map(([status, list]) => {
      const description = `${list.map(({ text }) => text).join(', ')}.`;
      return [status, { description, headers: status === 429 ? retryAfter : undefined, content }];
    }),
  );
}

function bodyContent(schema: FastifySchema, components: Components): Json {
  const body = components.refer(schema.body);
  return Object.fromEntries((schema.bodyTypes ?? ['application/json']).map((type) => [type, { schema: body }]));
}

function operationOf(route: DocumentedRoute, components: Components, answers: AnswerTable): Json {
  const { schema, scope } = route;
  const response: unknown = isRecord(schema.response) ? schema.response[200] : undefined;
  const result = components.refer(response ?? {});
  const success = envelopeSchema(true, { errors: { type: 'array', maxItems: 0 }, messages: { type: 'array' }, result });
  return {
    operationId: schema.operationId,
    summary: schema.summary,
    description: [schema.description, `Scope: \`${scope}\`.`].filter(Boolean).join('\n\n'),
    tags: schema.tags ?? [],
    security: [{ bearer: [] }, { globalKeyEmail: [], globalKey: [] }],
    parameters: [
      ...parametersOf(schema.params, 'path', components),
      ...parametersOf(schema.querystring, 'query', components),
      ...parametersOf(schema.headers, 'header', components),
    ],
    requestBody: schema.body ? { required: true, content: bodyContent(schema, components) } : undefined,
    responses: {
      200: {
        description: 'Done.',
        content: schema.answerType
          ? { [schema.answerType]: { schema: { type: 'string' } } }
          : { 'application/json': { schema: success } },
      },
      ...failures(route, answers),
    },
  };
}

/** Makes the document. @param routes in order @param answers give statuses @throws Error where a title stands for two things */
export function openApiDocument(routes: readonly DocumentedRoute[], answers: AnswerTable): Json {
  const components = new Components();
  const paths: Record<string, Record<string, unknown>> = {};
  for (const route of routes) {
    const path = route.url.replace(/:([A-Za-z_]+)/g, '{$1}');
    paths[path] = { ...paths[path], [route.method]: operationOf(route, components, answers) };
  }
  const schemas = Object.fromEntries([...components.schemas].sort(([one], [other]) => (one < other ? -1 : 1)));
  return {
    openapi: '3.1.0',
    info: {
      title: 'Postern',
      version: '4',
      description:
        'The HTTP interface of Postern. Every answer is the v4 envelope and carries a Ray-ID header; a failure names every fault, each with its token, number and place. Null in an optional field of a body is the same as leaving the field out, but for the proxy applications, where PATCH removes what is null.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/' }],
    tags: [...new Set(routes.flatMap(({ schema }) => schema.tags ?? []))].map((name) => ({ name })),
    paths,
    components: {
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer', description: 'An API token of the account.' },
        globalKeyEmail: {
          type: 'apiKey',
          in: 'header',
          name: 'X-Auth-Email',
          description: 'The account’s e-mail address.',
        },
        globalKey: { type: 'apiKey', in: 'header', name: 'X-Auth-Key', description: 'The account’s global key.' },
      },
      schemas: { ...schemas, EnvelopeError: errorItem, Failure: failureSchema },
    },
  };
}
