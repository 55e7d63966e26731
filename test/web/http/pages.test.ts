// What the API says of itself: the reference at /docs, the page at `/`, the OpenAPI document. In a browser: test/system.

import { createHash } from 'node:crypto';
import { Type } from 'typebox';
import { describe, expect, test } from 'vitest';
import { succeed } from '../../../src/web/http/envelope.ts';
import { fixedDocument, hasTag } from '../../../src/web/http/page/html-page.ts';
import { renderReference } from '../../../src/web/http/reference/reference-page.ts';
import type { V4Plugin } from '../../../src/web/http/v4-app.ts';
import { ask, startHttpApp } from '../../support/http-app.ts';
import fc from '../../support/properties.ts';

const things: V4Plugin = (app) => {
  app.put(
    '/accounts/:account_id/things',
    {
      config: { scope: 'email:send' },
      schema: {
        operationId: 'putThing',
        summary: 'Put a <thing>',
        description: 'Needs `care` & "time".',
        tags: ['Things'],
        params: Type.Object({ account_id: Type.String({ example: 'dev' }) }),
        body: Type.Object({ name: Type.String({ example: 'box' }) }, { title: 'Thing' }),
        codes: [
          {
            number: 11_000,
            status: 400,
            described: { title: 'No such box', when: 'There is none.', remedy: 'Buy one.' },
          },
          { number: 11_000, status: 503 },
        ],
      },
    },
    async (_request, reply) => succeed(reply, null),
  );
};

describe.each(['/', '/docs', '/openapi.json'])('%s', (path) => {
  test('is the same octets each time, and none of them for who has them already or asks for the head alone', async () => {
    const { base } = await startHttpApp([things]);
    const first = await ask(base + path);
    const etag = first.headers.get('etag') ?? '';
    expect([first.status, first.headers.get('cache-control')]).toEqual([200, 'no-cache']);
    expect(etag).toMatch(/^"[\w-]{22}"$/);
    expect((await ask(base + path)).text).toBe(first.text);
    const head = await ask(base + path, { method: 'HEAD' });
    expect([head.status, head.text, head.headers.get('etag')]).toEqual([200, '', etag]);
    expect(head.headers.get('content-length')).toBe(String(Buffer.byteLength(first.text)));
    for (const value of [etag, `W/${etag}`, `"x", ${etag}`, '*']) {
      const held = await ask(base + path, { headers: { 'If-None-Match': value } });
      expect([value, held.status, held.text, held.headers.get('etag')]).toEqual([value, 304, '', etag]);
    }
    expect((await ask(base + path, { headers: { 'If-None-Match': '"x"' } })).status).toBe(200);
    const posted = await ask(base + path, { method: 'POST', body: 'x' });
    expect([posted.status, posted.headers.get('allow')]).toEqual([405, 'GET, HEAD']);
  });
});

describe.each(['/', '/docs'])('%s', (path) => {
  test('may run nothing, load nothing and be framed by nobody; its own style alone is let in', async () => {
    const { base } = await startHttpApp([things]);
    const page = await ask(base + path);
    const policy = page.headers.get('content-security-policy') ?? '';
    const style = /<style>([^]*?)<\/style>/.exec(page.text)?.[1] ?? '';
    const hash = createHash('sha256').update(style).digest('base64');
    expect(policy).toBe(
      `default-src 'none'; style-src 'sha256-${hash}'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
    );
    expect(page.headers.get('x-content-type-options')).toBe('nosniff');
    expect(page.text).not.toMatch(/<(?:script|img|iframe|object|form)|\son\w+=|\sstyle=|@import|url\(/i);
    expect(page.text).not.toMatch(/(?:href|src)="(?:\w+:)?\/\//);
  });
});

test('the page at `/` names what lives here, by links that hold below any base URL, and no version', async () => {
  const { base } = await startHttpApp([]);
  const { text } = await ask(`${base}/`);
  const links = [...text.matchAll(/<a href="([^"]+)"/g)].map(([, link]) => link);
  expect(links).toEqual(['docs', 'openapi.json', 'headers', 'errors', 'livez', 'readyz', 'metrics']);
  expect(text).toContain('/client/v4/');
  expect(text.slice(text.indexOf('<body>'))).not.toMatch(/\d+\.\d+\.\d+|[Nn]ode|127\.0\.0\.1/);
});

test('the reference links errors to what they mean, and tells every status of each', async () => {
  const { base } = await startHttpApp([things]);
  const { text } = await ask(`${base}/docs`);
  expect(text).toContain('<a href="#error-E_VALIDATION_ERROR">E_VALIDATION_ERROR (10001)</a>');
  expect(text).toContain('<a href="#error-11000">11000</a>');
  expect(text).toContain('<dt id="error-11000"><code>11000</code> <span>No such box, status 400 or 503</span>');
  expect(text).toContain('<code>E_CONTENT_TOO_LARGE</code> <span>status 400 or 413, code 10200</span>');
  expect(text).toContain('<p>There is none. Buy one.</p>');
  expect(text).toContain('<section class="operation" id="putThing">\n<h3>Put a &lt;thing&gt;</h3>');
  expect(text).toContain('<p>Needs <code>care</code> &amp; &quot;time&quot;.</p>');
});

test('whatever a document holds is text: a page of it has the elements of the page alone', () => {
  const hostile = fc.oneof(
    fc.string({ unit: 'grapheme', maxLength: 20 }),
    fc.constantFrom(
      '<script>alert(1)</script>',
      '"><img src=x onerror=x>',
      "' onload='x",
      '&lt;',
      '`<b>`',
      '</pre>',
      '$ref',
    ),
  );
  const schema = fc.record({
    type: fc.oneof(fc.constantFrom('object', 'string', 'array'), hostile),
    description: hostile,
    title: hostile,
    enum: fc.array(hostile, { maxLength: 2 }),
    examples: fc.array(fc.oneof(hostile, fc.dictionary(hostile, hostile, { maxKeys: 2 })), { maxLength: 2 }),
    properties: fc.dictionary(hostile, fc.record({ description: hostile, $ref: hostile }), { maxKeys: 2 }),
  });
  const document = fc.record({
    info: fc.record({ title: hostile, description: hostile }),
    paths: fc.dictionary(
      hostile,
      fc.dictionary(
        hostile,
        fc.record({
          operationId: hostile,
          summary: hostile,
          description: hostile,
          tags: fc.tuple(hostile),
          parameters: fc.array(
            fc.record({ name: hostile, in: hostile, description: hostile, schema, required: fc.boolean() }),
          ),
          requestBody: fc.record({ content: fc.record({ 'application/json': fc.record({ schema }) }) }),
          responses: fc.dictionary(hostile, fc.record({ description: hostile }), { maxKeys: 2 }),
        }),
        { maxKeys: 2 },
      ),
      { maxKeys: 2 },
    ),
    components: fc.record({
      schemas: fc.dictionary(hostile, schema, { maxKeys: 2 }),
      securitySchemes: fc.dictionary(hostile, fc.record({ name: hostile, description: hostile }), { maxKeys: 2 }),
    }),
  });
  const known =
    /^<\/?(?:section|h[1-4]|p|dl|dt|dd|code|span|strong|a|b|ul|li|nav|details|summary|pre|div|main|header|wbr|body|html)(?: (?:class|id|href|name|aria-label)="[^"<>]*"| open)*>$/;
  fc.assert(
    fc.property(document, hostile, (value, word) => {
      const error = { key: word, number: 1, statuses: [400], title: word, when: word, remedy: word };
      const page = renderReference(value, [error]);
      const body = page.slice(page.indexOf('</head>') + 8);
      expect((body.match(/<[^>]*>/g) ?? []).filter((tag) => !known.test(tag))).toEqual([]);
      // Only names that the page makes itself stand in its attributes.
      const names = [...body.matchAll(/ (?:id|name)="([^"]*)"/g)].map(([, name = '']) => name);
      expect(names.filter((name) => !/^[\w-]*$/.test(name))).toEqual([]);
    }),
    { numRuns: 200 },
  );
});

test.each([
  [undefined, false],
  ['', false],
  ['*', true],
  [' * ', true],
  ['"*"', false],
  ['x', false],
  ['"', false],
  ['W/"x" , "y"', false],
])('If-None-Match %j: held %s', (value, held) => {
  expect(hasTag(value, fixedDocument('text'))).toBe(held);
});
