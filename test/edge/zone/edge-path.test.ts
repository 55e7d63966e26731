// Paths of a zone that are the edge's own, in every spelling that an origin might read as /cdn-cgi/.

import { expect, test } from 'vitest';
import { readEdgePath } from '../../../src/edge/zone/judge-request.ts';
import fc from '../../support/properties.ts';

test.each([
  ['/cdn-cgi/error/522', { kind: 'error', code: 522 }],
  ['/cdn-cgi/error/100', { kind: 'error', code: 100 }],
  ['/cdn-cgi/error/1015', { kind: 'error', code: 1015 }],
  ['/cdn-cgi/error/9999', { kind: 'error', code: 9999 }],
])('%s', (path, wanted) => {
  expect(readEdgePath(path)).toEqual(wanted);
});

test.each([
  '/cdn-cgi',
  '/cdn-cgi/',
  '/cdn-cgi/trace',
  '/cdn-cgi/error',
  '/cdn-cgi/error/',
  '/cdn-cgi/error/22',
  '/cdn-cgi/error/022',
  '/cdn-cgi/error/0522',
  '/cdn-cgi/error/10150',
  '/cdn-cgi/error/522/',
  '/cdn-cgi/error/+522',
  '/cdn-cgi/error/5%32',
  '/cdn-cgi/error/abc',
  '/CDN-CGI/error/522',
  '/Cdn-Cgi/trace',
  '//cdn-cgi/trace',
  '///cdn-cgi/trace',
  '/./cdn-cgi/trace',
  '/a/../cdn-cgi/trace',
  '/../cdn-cgi/trace',
  '/a/b/../../cdn-cgi/trace',
  '/cdn%2dcgi/trace',
  '/cdn%2Dcgi/trace',
  '/%63dn-cgi/trace',
  '/%43dn-cgi/trace',
  '/cdn%252dcgi/trace',
  '/cdn-cgi%2ftrace',
  '/%2fcdn-cgi/trace',
  '/%2e/cdn-cgi/trace',
  '/a/%2e%2e/cdn-cgi/trace',
  '/a%2f..%2fcdn-cgi/trace',
  '/a%252f%252e%252e%252fcdn-cgi/trace',
  '/\\cdn-cgi\\trace',
  '/%5ccdn-cgi/trace',
  '/cdn-cgi;x=y/trace',
  '/;x/cdn-cgi/trace',
  '/a/..;x/cdn-cgi/trace',
  '/cdn-cgi%00/trace',
  '/cdn-cgi%20/trace',
  '/cdn-cgi%3fx',
  '/cdn-cgi/../trace',
  '/cdn-cgi/%2e%2e/trace',
])('%s is reserved', (path) => {
  expect(readEdgePath(path)).toEqual({ kind: 'reserved' });
});

test.each([
  '/',
  '*',
  '/cdn',
  '/cdn-cgix/trace',
  '/x/cdn-cgi/error/522',
  '/cdn-cg%zz',
  '/%',
  '/%2',
  '/a/./cdn-cgi',
  '/error/522',
])('%s is the origin’s', (path) => {
  expect(readEdgePath(path)).toEqual({ kind: 'origin' });
});

test('however /cdn-cgi/ is encoded, it is reserved', () => {
  const encoded = fc.array(fc.constantFrom('raw', 'hex', 'HEX', 'twice'), { minLength: 7, maxLength: 7 }).map((ways) =>
    'cdn-cgi'
      .split('')
      .map((character, index) => {
        const hex = character.charCodeAt(0).toString(16);
        const forms: Readonly<Record<string, string>> = {
          raw: character,
          hex: `%${hex}`,
          HEX: `%${hex.toUpperCase()}`,
          twice: `%25${hex}`,
        };
        return forms[ways[index] ?? 'raw'];
      })
      .join(''),
  );
  const before = fc
    .array(fc.constantFrom('/', '/.', '/%2e', '/a/..', '/%61/%2e%2e', '\\', '/b/c/../%2E.'), { maxLength: 5 })
    .map((steps) => steps.join(''));
  fc.assert(
    fc.property(before, encoded, fc.constantFrom('', '/', '/trace', '%2ftrace', '/%2e'), (prefix, name, rest) => {
      expect(readEdgePath(`${prefix}/${name}${rest}`).kind).toBe('reserved');
    }),
  );
});
