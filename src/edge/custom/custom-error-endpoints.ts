// PUT, GET and DELETE of Custom Error Rules and of the Error Page, of a zone or an account (D65).

import { hash } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type Static, type TSchema, Type } from 'typebox';
import type { Clock } from '../../base/clock.ts';
import { isRecord, member } from '../../base/is-record.ts';
import { createRestingQueues, type KeyedQueues } from '../../base/keyed-queues.ts';
import type { Logger } from '../../base/log.ts';
import { yieldToEventLoop } from '../../base/yield-to-event-loop.ts';
import {
  accountPath,
  changed,
  changedCode,
  endpoint,
  endpointsOf,
  judgeVersion,
  namesVersion,
  showVersion,
} from '../../web/http/endpoint.ts';
import { type Fault, Refusal, refusal } from '../../web/http/envelope.ts';
import { documentFaults, schemaFaults } from '../../web/http/schema-faults.ts';
import { submitterOf, type V4Plugin } from '../../web/http/v4-app.ts';
import {
  contentFault,
  expressionFaults,
  maxRuleContentBytes,
  maxRules,
  ruleContentTypes,
  ruleOf,
  spellingFaults,
} from './custom-error-rules.ts';
import type { CustomErrorOwner } from './custom-error-store.ts';
import type { CustomErrors, InEffect } from './custom-errors.ts';
import { maxPageBytes, pageFault } from './error-page.ts';
import { type ParsedExpression, parseExpression } from './expression.ts';

const contentType = Type.Enum([...ruleContentTypes], { want: `one of ${ruleContentTypes.join(', ')}` });
const statusCode = Type.Integer({
  minimum: 400,
  maximum: 599,
  want: 'a whole number, 400 to 599',
  description: 'The status of the answer; the error’s own where absent',
});
const common = {
  expression: Type.String({
    want: 'an expression such as error_code eq 522',
    description: 'Which errors and requests it answers; at most 4,096 characters',
    example: 'error_code in {522 1015} and header["accept"] contains "json"',
  }),
  enabled: Type.Optional(Type.Boolean({ want: 'true or false', description: 'true where absent' })),
  content: Type.String({
    want: 'a text',
    description: `The body of the answer, at most ${maxRuleContentBytes} octets of UTF-8`,
  }),
};

const errorRule = Type.Object(
  { ...common, contentType, statusCode: Type.Optional(statusCode) },
  { additionalProperties: false, title: 'ErrorRule' },
);

/** A rule as it is put: in either spelling (D65), of which `spellingFaults` wants one. */
const newErrorRule = Type.Object(
  {
    ...common,
    contentType: Type.Optional(contentType),
    statusCode: Type.Optional(statusCode),
    content_type: Type.Optional({ ...contentType, description: 'The same as contentType; one of both is required' }),
    status_code: Type.Optional({ ...statusCode, description: 'The same as statusCode' }),
  },
  {
    additionalProperties: false,
    title: 'NewErrorRule',
    want: 'an object with expression, content and contentType',
    example: {
      expression: 'error_code eq 522',
      content: 'Back in a moment.',
      contentType: 'text/plain',
      statusCode: 503,
    },
  },
);

const newRules = Type.Object(
  {
    rules: Type.Array(newErrorRule, {
      maxItems: maxRules,
      want: `a list of at most ${maxRules} rules`,
      description:
        'The first one that is enabled and matches answers. An empty list is no rules, whatever the file says.',
    }),
  },
  { additionalProperties: false, title: 'NewErrorRules', want: 'an object with rules' },
);

const newPage = Type.Object(
  {
    html: Type.String({
      want: 'an HTML document',
      example: '<!doctype html><title>Not available</title><p>Quote this when you ask: ::RAY_ID::</p>',
      description: `At most ${maxPageBytes} octets of UTF-8. ::RAY_ID::, ::CLIENT_IP:: and ::ERROR_BOX:: stand for the values of each error.`,
    }),
  },
  { additionalProperties: false, title: 'NewErrorPage', want: 'an object with html' },
);

const state = {
  source: Type.Enum(['api', 'file', 'none'], { description: 'Where it comes from' }),
  version: Type.Integer({ description: 'Changes by this API so far' }),
  last_updated: Type.Union([Type.String({ format: 'date-time' }), Type.Null()], {
    description: 'When this API changed it last',
  }),
};

const rulesInEffect = Type.Object(
  { phase: Type.Enum(['http_custom_errors']), ...state, rules: Type.Array(errorRule) },
  { title: 'ErrorRules' },
);

const pageInEffect = Type.Object(
  { id: Type.Enum(['error_page']), ...state, html: Type.Union([Type.String(), Type.Null()]) },
  { title: 'ErrorPage' },
);

/** The version of what is in effect, for ETag. What the file says may change without a change by the API. */
function versionOf({ source, version, value }: InEffect<unknown>): string {
  if (source === 'api') return String(version);
  return `${version}.${hash('sha256', JSON.stringify(value ?? null)).slice(0, 16)}`;
}

interface CustomErrorEndpointsParts {
  readonly customErrors: CustomErrors;
  readonly clock: Clock;
  readonly log: Logger;
}

function faultsAt(pointer: string, text: string | undefined): Fault[] {
  if (text === undefined) return [];
  return [{ token: 'E_VALIDATION_ERROR', message: `${pointer.slice(1).replaceAll('/', '.')} ${text}`, pointer }];
}

/** What is wrong with the rules of a body beside their shape. */
async function rulesFaults(body: unknown): Promise<Fault[]> {
  const rules = member(body, 'rules');
  if (!Array.isArray(rules) || rules.length > maxRules) return [];
  const texts = rules
    .map((rule: unknown) => member(rule, 'expression'))
    .map((text) => (typeof text === 'string' ? text : ''));
  const parsed: ParsedExpression[] = [];
  for (const text of texts) {
    await yieldToEventLoop();
    parsed.push(parseExpression(text));
  }
  const faults = expressionFaults(texts, parsed);
  return [
    ...faultsAt('/rules', faults.all),
    ...rules.flatMap((rule: unknown, index) => {
      const pointer = `/rules/${index}`;
      const content = member(rule, 'content');
      // What is no text at all is a fault of the shape.
      const unread = typeof member(rule, 'expression') === 'string' ? faults.each[index] : undefined;
      return [
        ...faultsAt(`${pointer}/expression`, unread && `cannot be read: ${unread}`),
        ...faultsAt(`${pointer}/content`, typeof content === 'string' ? contentFault(content) : undefined),
        ...(isRecord(rule) ? spellingFaults((name) => Object.hasOwn(rule, name)) : []).flatMap((fault): Fault[] => {
          const at = `${pointer}/${fault.member}`;
          if (fault.kind === 'twice') return faultsAt(at, `stands beside ${fault.other}, which means the same`);
          return [{ token: 'E_FIELD_MISSING', message: `"${fault.member}" is missing`, pointer: at }];
        }),
      ];
    }),
  ];
}

/** Refuses a body by everything that is wrong with it at once. */
function judge(request: FastifyRequest, more: readonly Fault[]): void {
  const { document, validationError } = request;
  const faults = [
    ...(document ? documentFaults(document) : []),
    ...(validationError ? schemaFaults(validationError.validation, 'body') : []),
    ...more,
  ];
  if (faults.length > 0) throw new Refusal(faults);
}

const places = {
  zone: {
    path: '/zones/:zone_id',
    params: Type.Object({
      zone_id: Type.String({ want: 'the id of a zone', description: 'Id of the zone', example: '1'.repeat(32) }),
    }),
    of: 'a zone',
    noun: 'Zone',
  },
  account: { path: '/accounts/:account_id', params: accountPath, of: 'an account', noun: 'Account' },
} as const;

/** Whose custom errors a path is about; authorization has found the account. */
function ownerOf(request: FastifyRequest, level: CustomErrorOwner['level']): CustomErrorOwner {
  if (level === 'account') return { level, id: submitterOf(request).account.id };
  return { level, id: String(member(request.params, 'zone_id')).toLowerCase() };
}

/** Rules or a page: how they are described, read and put. */
interface Kind {
  /** Behind the zone or the account. */
  readonly path: string;
  /** What it is, in summaries and, below, in operationIds. */
  readonly what: string;
  readonly noun: 'ErrorRules' | 'ErrorPage';
  readonly result: TSchema;
  readonly body: TSchema;
  readonly describe: string;
  /** What is in effect, and how it is answered. */
  readonly read: (owner: CustomErrorOwner) => Promise<{ readonly found: InEffect<unknown>; readonly shown: object }>;
  /** Asked before the body is read. */
  readonly mayPut?: (request: FastifyRequest) => Promise<void>;
  /** Puts the body of a request, which fits the schema; without one takes back. @returns false where another version is there */
  readonly put: (owner: CustomErrorOwner, request: FastifyRequest | undefined, ifVersion?: number) => Promise<boolean>;
}

/** Makes what changes the custom errors of a level, of the version that If-Match names. */
function changerOf(level: CustomErrorOwner['level'], { what, read, put }: Kind, { log }: CustomErrorEndpointsParts) {
  /** @throws Refusal 412 where that is not the present one */
  return async (request: FastifyRequest, done: 'put' | 'taken back'): Promise<CustomErrorOwner> => {
    const owner = ownerOf(request, level);
    const before = namesVersion(request) ? (await read(owner)).found : undefined;
    if (before) judgeVersion(request, versionOf(before));
    if (!(await put(owner, done === 'put' ? request : undefined, before?.version))) throw changed();
    const { account } = submitterOf(request);
    log.info({ session: request.id, account: account.name, [level]: owner.id }, `${what} ${done}`);
    return owner;
  };
}

function endpointsFor(
  level: CustomErrorOwner['level'],
  kind: Kind,
  parts: CustomErrorEndpointsParts,
  pace: KeyedQueues,
): V4Plugin {
  const { what, result, body, describe, mayPut } = kind;
  const { path, params, of, noun } = places[level];
  const thing = `${noun}${kind.noun}`;
  const common = { params, result };
  const changing = { ...common, codes: [changedCode] };
  const change = changerOf(level, kind, parts);
  /** Answers with what is in effect, and its version. */
  const answer = async (reply: FastifyReply, owner: CustomErrorOwner): Promise<object> => {
    const { found, shown } = await kind.read(owner);
    showVersion(reply, versionOf(found));
    const { source, version, updatedAt } = found;
    const changedOn = updatedAt === undefined ? null : new Date(updatedAt).toISOString();
    return { ...shown, source, version, last_updated: changedOn };
  };
  const get = endpoint({
    at: 'GET',
    ...common,
    operationId: `get${thing}`,
    summary: `Show ${what} of ${of}`,
    description: 'What is in effect, and where it comes from.',
    answer: ({ request, reply }) => answer(reply, ownerOf(request, level)),
  });
  const put = endpoint({
    at: 'PUT',
    ...changing,
    body,
    operationId: `put${thing}`,
    summary: `Put ${what} of ${of}`,
    description: describe,
    // JSON may write each octet as six, `\u0001`; a hundred rules of the largest size, expressions too, are no more than a page.
    reading: { bodyBytes: maxPageBytes * 6 + 100_000, ownBodyFaults: true, attachValidation: true },
    ...(mayPut ? { before: mayPut } : {}),
    answer: async ({ request, reply }) => answer(reply, await change(request, 'put')),
  });
  const takeBack = endpoint({
    at: 'DELETE',
    ...changing,
    operationId: `delete${thing}`,
    summary: `Take ${what} of ${of} back`,
    description: 'What the configuration file says counts again; the answer is what is then in effect.',
    answer: async ({ request, reply }) => answer(reply, await change(request, 'taken back')),
  });
  const place = { path: path + kind.path, tag: 'Custom errors', reads: 'edge:edit', pace } as const;
  return endpointsOf(place, undefined, [get, put, takeBack]);
}

/** D65. */
async function refuseOnFreePlan(request: FastifyRequest): Promise<void> {
  if (submitterOf(request).account.plan !== 'free') return;
  throw refusal('E_FORBIDDEN', 'Plan free has no Custom Error Rules; an Error Page it may have');
}

async function rulesOf(request: FastifyRequest): Promise<Static<typeof newRules>['rules']> {
  judge(request, await rulesFaults(request.body));
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what does not fit the schema was refused
  return (request.body as Static<typeof newRules>).rules;
}

function pageOf(request: FastifyRequest): string {
  const html = member(request.body, 'html');
  judge(request, faultsAt('/html', typeof html === 'string' ? pageFault(html) : undefined));
  return String(html);
}

function kindsOf(customErrors: CustomErrors): readonly Kind[] {
  return [
    {
      path: '/rulesets/phases/http_custom_errors/entrypoint',
      what: 'the Custom Error Rules',
      noun: 'ErrorRules',
      result: rulesInEffect,
      body: newRules,
      describe: 'They count in place of those of the configuration file, until they are taken back. Not on plan free.',
      read: async (owner) => {
        const found = await customErrors.rules(owner);
        // `enabled` always stands there.
        const rules = found.value.map(({ expression, enabled = true, ...rest }) => ({ expression, enabled, ...rest }));
        return { found, shown: { phase: 'http_custom_errors', rules } };
      },
      mayPut: refuseOnFreePlan,
      put: async (owner, request, ifVersion) =>
        customErrors.putRules(owner, request && (await rulesOf(request)).map(ruleOf), ifVersion),
    },
    {
      path: '/custom_pages/error_page',
      what: 'the Error Page',
      noun: 'ErrorPage',
      result: pageInEffect,
      body: newPage,
      describe: 'It is served for every error that no rule answers, in place of the configuration file’s.',
      read: async (owner) => {
        const found = await customErrors.page(owner);
        return { found, shown: { id: 'error_page', html: found.value ?? null } };
      },
      put: async (owner, request, ifVersion) => customErrors.putPage(owner, request && pageOf(request), ifVersion),
    },
  ];
}

/** The endpoints of custom errors, of zones and of accounts. */
export function customErrorEndpoints(parts: CustomErrorEndpointsParts): V4Plugin {
  // To judge and prepare the largest rules takes a tenth of a second in which nobody is served.
  const pace = createRestingQueues(parts.clock);
  return (app) => {
    for (const level of ['zone', 'account'] as const)
      for (const kind of kindsOf(parts.customErrors)) endpointsFor(level, kind, parts, pace)(app);
  };
}
