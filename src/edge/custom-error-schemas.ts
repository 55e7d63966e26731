// The shapes of requests and answers about custom errors, in the v4 API's spelling (D65).

import { type Static, Type } from 'typebox';
import { maxRuleContentBytes, maxRules, ruleContentTypes } from './custom-error-rules.ts';
import type { InEffect } from './custom-errors.ts';
import { maxPageBytes } from './error-page.ts';
import type { CustomErrorRule } from './zone.ts';

const errorRule = Type.Object(
  {
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
    content_type: Type.Enum([...ruleContentTypes], { want: `one of ${ruleContentTypes.join(', ')}` }),
    status_code: Type.Optional(
      Type.Integer({
        minimum: 400,
        maximum: 599,
        want: 'a whole number, 400 to 599',
        description: 'The status of the answer; the error’s own where absent',
      }),
    ),
  },
  { additionalProperties: false, title: 'ErrorRule', want: 'an object with expression, content and content_type' },
);

/** The body that puts rules. */
export const newRules = Type.Object(
  {
    rules: Type.Array(errorRule, {
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

type RuleBody = Static<typeof errorRule>;

/** A rule of a body that fits the schema. */
export function ruleOf({ content_type: contentType, status_code: statusCode, ...rest }: RuleBody): CustomErrorRule {
  return { ...rest, contentType, ...(statusCode === undefined ? {} : { statusCode }) };
}

/** A rule as it is answered; `enabled` always stands there. */
export function shownRule({ expression, enabled = true, content, contentType, statusCode }: CustomErrorRule): RuleBody {
  const status = statusCode === undefined ? {} : { status_code: statusCode };
  return { expression, enabled, content, content_type: contentType, ...status };
}

/** Where something comes from, and its changes by the API, as it is answered. */
export function shownState({ source, version, updatedAt }: InEffect<unknown>): Record<string, unknown> {
  return { source, version, last_updated: updatedAt === undefined ? null : new Date(updatedAt).toISOString() };
}
