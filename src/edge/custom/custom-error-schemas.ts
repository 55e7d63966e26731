// The shapes of requests and answers about custom errors, in the v4 API's spelling (D65).

import { createHash } from 'node:crypto';
import { type Static, Type } from 'typebox';
import type { CustomErrorRule } from '../zone/zone.ts';
import { maxRuleContentBytes, maxRules, ruleContentTypes } from './custom-error-rules.ts';
import type { InEffect } from './custom-errors.ts';
import { maxPageBytes } from './error-page.ts';

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

/** A rule as it is answered, in the configuration file's spelling. */
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

/** The body that puts rules. */
export const newRules = Type.Object(
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

/** The body that puts a page. */
export const newPage = Type.Object(
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

/** The answer about rules. */
export const rulesInEffect = Type.Object(
  { phase: Type.Enum(['http_custom_errors']), ...state, rules: Type.Array(errorRule) },
  { title: 'ErrorRules' },
);

/** The answer about a page. */
export const pageInEffect = Type.Object(
  { id: Type.Enum(['error_page']), ...state, html: Type.Union([Type.String(), Type.Null()]) },
  { title: 'ErrorPage' },
);

/** A rule as it is answered; `enabled` always stands there. */
export function shownRule({ expression, enabled = true, ...rest }: CustomErrorRule): Static<typeof errorRule> {
  return { expression, enabled, ...rest };
}

/** The version of what is in effect, for ETag. What the file says may change without a change by the API. */
export function versionOf({ source, version, value }: InEffect<unknown>): string {
  if (source === 'api') return String(version);
  return `${version}.${createHash('sha256')
    .update(JSON.stringify(value ?? null))
    .digest('hex')
    .slice(0, 16)}`;
}

/** Where something comes from, and its changes by the API, as it is answered. */
export function shownState({ source, version, updatedAt }: InEffect<unknown>): Record<string, unknown> {
  return { source, version, last_updated: updatedAt === undefined ? null : new Date(updatedAt).toISOString() };
}
