// PUT, GET and DELETE of Custom Error Rules and of the Error Page, of a zone or an account (D65).

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
import { contentFault, expressionFaults, maxRules, ruleOf, spellingFaults } from './custom-error-rules.ts';
import * as schema from './custom-error-schemas.ts';
import type { CustomErrorOwner } from './custom-error-store.ts';
import type { CustomErrors, InEffect } from './custom-errors.ts';
import { maxPageBytes, pageFault } from './error-page.ts';
import { type ParsedExpression, parseExpression } from './expression.ts';

/** What the endpoints work on. */
export interface CustomErrorEndpointsParts {
  readonly customErrors: CustomErrors;
  readonly clock: Clock;
  readonly log: Logger;
}

/** JSON may write each octet as six, `\u0001`; a hundred rules of the largest size, expressions too, are no more than a page. */
const bodyBytes = maxPageBytes * 6 + 100_000;

function textFault(value: unknown, pointer: string, judge: (text: string) => string | undefined): Fault[] {
  const text = typeof value === 'string' ? judge(value) : undefined;
  if (text === undefined) return [];
  const place = pointer.slice(1).replaceAll('/', '.');
  return [{ token: 'E_VALIDATION_ERROR', message: `${place} ${text}`, pointer }];
}

/** What is wrong with the rules of a body beside their shape. */
async function rulesFaults(body: unknown): Promise<Fault[]> {
  const rules = member(body, 'rules');
  if (!Array.isArray(rules) || rules.length > maxRules) return [];
  const expressions = rules.map((rule: unknown) => member(rule, 'expression'));
  const texts = expressions.map((text) => (typeof text === 'string' ? text : ''));
  const parsed: ParsedExpression[] = [];
  for (const text of texts) {
    await yieldToEventLoop();
    parsed.push(parseExpression(text));
  }
  const faults = expressionFaults(texts, parsed);
  return [
    ...textFault('', '/rules', () => faults.all),
    ...rules.flatMap((rule: unknown, index) => [
      ...textFault(expressions[index], `/rules/${index}/expression`, () => {
        const fault = faults.each[index];
        return fault && `cannot be read: ${fault}`;
      }),
      ...textFault(member(rule, 'content'), `/rules/${index}/content`, contentFault),
      ...spellingFaultsOf(rule, `/rules/${index}`),
    ]),
  ];
}

/** D65: each member in one of its spellings. */
function spellingFaultsOf(rule: unknown, pointer: string): Fault[] {
  if (!isRecord(rule)) return [];
  return spellingFaults((name) => Object.hasOwn(rule, name)).map(({ member: name, kind, other }) =>
    kind === 'missing'
      ? { token: 'E_FIELD_MISSING', message: `"${name}" is missing`, pointer: `${pointer}/${name}` }
      : {
          token: 'E_VALIDATION_ERROR',
          message: `${pointer.slice(1).replaceAll('/', '.')}.${name} stands beside ${other}, which means the same`,
          pointer: `${pointer}/${name}`,
        },
  );
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
  account: {
    path: '/accounts/:account_id',
    params: accountPath,
    of: 'an account',
    noun: 'Account',
  },
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
  /** What it is, in summaries. */
  readonly what: string;
  /** What it is, in operationIds. */
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
    if (before) judgeVersion(request, schema.versionOf(before));
    if (!(await put(owner, done === 'put' ? request : undefined, before?.version))) throw changed();
    const { account } = submitterOf(request);
    log.info({ session: request.id, account: account.name, [level]: owner.id }, `${what} ${done}`);
    return owner;
  };
}

/** Answers with what is in effect, and its version. */
async function answer({ read }: Kind, reply: FastifyReply, owner: CustomErrorOwner): Promise<object> {
  const { found, shown } = await read(owner);
  showVersion(reply, schema.versionOf(found));
  return shown;
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
  const get = endpoint({
    at: 'GET',
    ...common,
    operationId: `get${thing}`,
    summary: `Show ${what} of ${of}`,
    description: 'What is in effect, and where it comes from.',
    answer: ({ request, reply }) => answer(kind, reply, ownerOf(request, level)),
  });
  const put = endpoint({
    at: 'PUT',
    ...changing,
    body,
    operationId: `put${thing}`,
    summary: `Put ${what} of ${of}`,
    description: describe,
    reading: { bodyBytes, ownBodyFaults: true, attachValidation: true },
    ...(mayPut ? { before: mayPut } : {}),
    answer: async ({ request, reply }) => answer(kind, reply, await change(request, 'put')),
  });
  const takeBack = endpoint({
    at: 'DELETE',
    ...changing,
    operationId: `delete${thing}`,
    summary: `Take ${what} of ${of} back`,
    description: 'What the configuration file says counts again; the answer is what is then in effect.',
    answer: async ({ request, reply }) => answer(kind, reply, await change(request, 'taken back')),
  });
  return endpointsOf({ path: path + kind.path, tag: 'Custom errors', reads: 'edge:edit', pace }, undefined, [
    get,
    put,
    takeBack,
  ]);
}

/** D65. */
async function refuseOnFreePlan(request: FastifyRequest): Promise<void> {
  if (submitterOf(request).account.plan !== 'free') return;
  throw refusal('E_FORBIDDEN', 'Plan free has no Custom Error Rules; an Error Page it may have');
}

function isRules(body: unknown): body is Static<typeof schema.newRules> {
  return Array.isArray(member(body, 'rules'));
}

async function rulesOf(request: FastifyRequest): Promise<Static<typeof schema.newRules>['rules']> {
  const { body } = request;
  judge(request, await rulesFaults(body));
  if (!isRules(body)) throw new Error('A body without rules passed the schema');
  return body.rules;
}

function pageOf(request: FastifyRequest): string {
  judge(request, textFault(member(request.body, 'html'), '/html', pageFault));
  return String(member(request.body, 'html'));
}

function kindsOf(customErrors: CustomErrors): readonly Kind[] {
  return [
    {
      path: '/rulesets/phases/http_custom_errors/entrypoint',
      what: 'the Custom Error Rules',
      noun: 'ErrorRules',
      result: schema.rulesInEffect,
      body: schema.newRules,
      describe: 'They count in place of those of the configuration file, until they are taken back. Not on plan free.',
      read: async (owner) => {
        const found = await customErrors.rules(owner);
        const rules = found.value.map(schema.shownRule);
        return { found, shown: { phase: 'http_custom_errors', ...schema.shownState(found), rules } };
      },
      mayPut: refuseOnFreePlan,
      put: async (owner, request, ifVersion) =>
        customErrors.putRules(owner, request && (await rulesOf(request)).map(ruleOf), ifVersion),
    },
    {
      path: '/custom_pages/error_page',
      what: 'the Error Page',
      noun: 'ErrorPage',
      result: schema.pageInEffect,
      body: schema.newPage,
      describe: 'It is served for every error that no rule answers, in place of the configuration file’s.',
      read: async (owner) => {
        const found = await customErrors.page(owner);
        return { found, shown: { id: 'error_page', ...schema.shownState(found), html: found.value ?? null } };
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
