// The JSON body: the members of RFC 9457 and the extension members, exactly and in their order.

import { Compile } from 'typebox/schema';
import { describe, expect, test } from 'vitest';
import { allEdgeErrors } from '../../../src/edge/errors/catalogue.ts';
import { renderJson } from '../../../src/edge/errors/default-answer.ts';
import { hostileOccurrence } from '../../support/edge-arbitraries.ts';
import { edgeOccurrence } from '../../support/edge-occurrence.ts';
import fc from '../../support/properties.ts';

const text = { type: 'string', minLength: 1 };
const properties = {
  // RFC 9457 §3.1: type is a URI reference; absolute here (D62).
  type: { type: 'string', pattern: '^https?://[^ ]+/errors/[0-9]{3,4}$' },
  title: { type: 'string', pattern: '^Error [0-9]{3,4}: .+$' },
  status: { type: 'integer', minimum: 400, maximum: 599 },
  detail: text,
  instance: { type: 'string', pattern: '^[0-9a-f]{16}$' },
  error_code: { type: 'integer', minimum: 500, maximum: 1999 },
  error_name: { type: 'string', pattern: '^[a-z]+(_[a-z]+)*$' },
  error_category: { type: 'string', pattern: '^[a-z]+(_[a-z]+)*$' },
  ray_id: { type: 'string', pattern: '^[0-9a-f]{16}$' },
  timestamp: {
    type: 'string',
    pattern: '^[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]\\.[0-9]{3}Z$',
  },
  zone: text,
  platform_error: { const: true },
  retryable: { type: 'boolean' },
  retry_after: { type: 'integer', minimum: 1 },
  owner_action_required: { type: 'boolean' },
  what_you_should_do: text,
  footer: text,
};
const always = Object.keys(properties).filter((name) => name !== 'retry_after');
const schema = {
  type: 'object',
  additionalProperties: false,
  properties,
  required: always,
  oneOf: [
    { properties: { retryable: { const: true } }, required: ['retryable', 'retry_after'] },
    { properties: { retryable: { const: false } }, required: ['retryable'], not: { required: ['retry_after'] } },
  ],
};
const validator = Compile(schema);
const validate = (members: unknown): boolean => validator.Check(members);

describe.each(allEdgeErrors)('$code', (error) => {
  const occurrence = edgeOccurrence(error.code);
  const rendered = renderJson(occurrence);
  const members = JSON.parse(rendered) as Record<string, unknown>;

  test('keeps to the schema', () => {
    expect(validator.Errors(members)).toEqual([true, []]);
  });

  test('has its members in the order of the specification, compact', () => {
    const names = error.retryAfterSeconds === undefined ? always : Object.keys(properties);
    expect(Object.keys(members)).toEqual(names);
    expect(JSON.stringify(members)).toBe(rendered);
  });

  test('says what the catalogue says', () => {
    expect(members).toMatchObject({
      type: `https://docs.example.net/gateway/errors/${error.code}`,
      title: `Error ${error.code}: ${error.shortName}`,
      status: error.status,
      detail: error.detail,
      instance: occurrence.rayId,
      error_code: error.code,
      error_name: error.name,
      error_category: error.category,
      ray_id: occurrence.rayId,
      timestamp: '2026-01-15T09:30:00.250Z',
      zone: 'www.example.com',
      retryable: error.retryAfterSeconds !== undefined,
      owner_action_required: error.ownerAction,
      what_you_should_do: error.guidance,
    });
    expect(members['retry_after']).toBe(error.retryAfterSeconds);
  });
});

test('the schema finds a member too many, one too few, and retry_after at the wrong place', () => {
  const members = JSON.parse(renderJson(edgeOccurrence(522))) as Record<string, unknown>;
  const { retry_after: _, ...without } = members;
  expect(validate(members)).toBe(true);
  expect(validate(without)).toBe(false);
  expect(validate({ ...without, retryable: false })).toBe(true);
  expect(validate({ ...members, retryable: false })).toBe(false);
  expect(validate({ ...members, other: 1 })).toBe(false);
  expect(validate({ ...members, retry_after: null })).toBe(false);
});

test('without an address for its pages it says about:blank (RFC 9457 §4.2.1)', () => {
  const members = JSON.parse(renderJson(edgeOccurrence(522, { docsBaseUrl: undefined }))) as Record<string, unknown>;
  expect(members).toEqual({ ...(JSON.parse(renderJson(edgeOccurrence(522))) as object), type: 'about:blank' });
});

test("a rate limit's own time takes the place of the catalogue's", () => {
  expect(JSON.parse(renderJson(edgeOccurrence(1015, { retryAfterSeconds: 17 })))).toMatchObject({ retry_after: 17 });
});

test('no time makes an error retryable that is not', () => {
  const members: unknown = JSON.parse(renderJson(edgeOccurrence(1020, { retryAfterSeconds: 17 })));
  expect(members).toMatchObject({ retryable: false });
  expect(members).not.toHaveProperty('retry_after');
});

test('whatever comes from outside is read back as it was', () => {
  fc.assert(
    fc.property(hostileOccurrence, (occurrence) => {
      const members = JSON.parse(renderJson(occurrence)) as Record<string, unknown>;
      expect(members['zone']).toBe(occurrence.zone.toWellFormed());
      expect(members['ray_id']).toBe(occurrence.rayId.toWellFormed());
      expect(members['instance']).toBe(members['ray_id']);
      expect(members['type']).toBe(`${occurrence.docsBaseUrl?.toWellFormed()}/errors/${occurrence.error.code}`);
      expect(members['retry_after']).toBe(occurrence.retryAfterSeconds ?? occurrence.error.retryAfterSeconds);
      const names = occurrence.error.retryAfterSeconds === undefined ? always : Object.keys(properties);
      expect(Object.keys(members)).toEqual(names);
    }),
    { numRuns: 500 },
  );
});
