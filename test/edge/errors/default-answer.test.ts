// The whole default answer: status, headers and body in every format (D61, D62).

import { describe, expect, test } from 'vitest';
import { allEdgeErrors, type EdgeFormat } from '../../../src/edge/errors/catalogue.ts';
import { defaultAnswer, errorPageSecurityPolicy } from '../../../src/edge/errors/default-answer.ts';
import { edgeOccurrence } from '../../support/edge-occurrence.ts';

const contentTypes: Readonly<Record<EdgeFormat, string>> = {
  json: 'application/json; charset=utf-8',
  problem: 'application/problem+json; charset=utf-8',
  markdown: 'text/markdown; charset=utf-8',
  html: 'text/html; charset=utf-8',
};
const formats = Object.keys(contentTypes) as EdgeFormat[];

describe.each(formats)('%s', (format) => {
  test.each(allEdgeErrors)('$code', ({ code, status, retryAfterSeconds }) => {
    const answer = defaultAnswer(edgeOccurrence(code), format);
    expect(answer.status).toBe(status);
    expect(answer.headers).toEqual({
      'Content-Type': contentTypes[format],
      'Cache-Control': 'private, no-store',
      Vary: 'Accept',
      'X-Content-Type-Options': 'nosniff',
      ...(format === 'html' ? { 'Content-Security-Policy': errorPageSecurityPolicy } : {}),
      ...(retryAfterSeconds === undefined ? {} : { 'Retry-After': String(retryAfterSeconds) }),
    });
  });

  test("a rate limit's own time is the header's and the body's", () => {
    const { headers, body } = defaultAnswer(edgeOccurrence(1015, { retryAfterSeconds: 17 }), format);
    expect(headers['Retry-After']).toBe('17');
    const wanted = { json: '"retry_after":17,', problem: '"retry_after":17,', markdown: '\nretry_after: 17\n' };
    expect(body.toString()).toContain(format === 'html' ? 'Try again in 17 seconds' : wanted[format]);
  });

  test('one answer does not reach into the next', () => {
    const first = defaultAnswer(edgeOccurrence(1015, { zone: 'a.example', retryAfterSeconds: 17 }), format);
    const second = defaultAnswer(edgeOccurrence(1020, { zone: 'b.example' }), format);
    expect(second.headers).not.toHaveProperty('Retry-After');
    expect(second.body.includes('a.example')).toBe(false);
    expect(first.body.includes('a.example')).toBe(true);
  });
});

test('an occurrence without seconds of its own has those of the catalogue', () => {
  const { retryAfterSeconds: _, ...occurrence } = edgeOccurrence(522);
  const { headers, body } = defaultAnswer(occurrence, 'json');
  expect(headers['Retry-After']).toBe('120');
  expect(JSON.parse(body.toString())).toMatchObject({ retry_after: 120 });
});
