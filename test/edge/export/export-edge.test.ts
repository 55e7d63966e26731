// The export of zones: what of a zone could be read as a directive is left out, and every difference is told.
// test/system/edge-behind-a-proxy.test.ts runs what is exported.

import { describe, expect, test } from 'vitest';
import { caddyEdge } from '../../../src/edge/export/caddy.ts';
import { type EdgeExportSettings, exportEdge } from '../../../src/edge/export/export-edge.ts';
import { haproxyEdge } from '../../../src/edge/export/haproxy.ts';
import { nginxEdge } from '../../../src/edge/export/nginx.ts';
import type { EdgeZone } from '../../../src/edge/zone/zone.ts';
import { exampleZone } from '../../support/edge-app.ts';

const writers = { nginx: nginxEdge, haproxy: haproxyEdge, caddy: caddyEdge };

const settings: EdgeExportSettings = {
  listen: { host: '0.0.0.0', port: 80 },
  tlsListen: { host: '::', port: 443 },
  postern: { host: '127.0.0.1', port: 8080 },
  certificateFolder: (name) => (name.startsWith('www.') ? undefined : '/certs/tls/all'),
  caFile: '/etc/ca.pem',
  edge: { connectTimeoutSeconds: 15, responseTimeoutSeconds: 100, trustedProxies: ['127.0.0.1/32'] },
};

const secure: EdgeZone = { ...exampleZone, origin: 'https://origin.example:8443' };

describe.each(Object.entries(writers))('%s', (_, writer) => {
  test.each<readonly [string, Partial<EdgeZone>, Partial<EdgeExportSettings>]>([
    ['its id', { id: '1; x' }, {}],
    ['one of its hostnames', { hostnames: ['a.example; deny all'] }, {}],
    ['one of its hostnames', { name: 'a\nb' }, {}],
    ['its lists of addresses', { block: ['192.0.2.1;'] }, {}],
    ['its lists of addresses', { allow: ['all'] }, {}],
    ['the host of its origin', { origin: 'http://a;b.example/' }, {}],
    ['the host of its origin', { origin: 'http://a$b.example/' }, {}],
    ['the path of its origin', { origin: 'http://a.example/$host' }, {}],
    ['the path of its origin', { origin: 'http://a.example/a;b' }, {}],
    ['the path of a certificate', {}, { certificateFolder: () => '/certs/tls/a b' }],
    ['the path of a certificate', {}, { caFile: '/etc/ca{}.pem' }],
  ])('%s cannot be written: %j', (what, zone, more) => {
    const { text, gaps } = exportEdge(writer, [{ ...secure, ...zone }], { ...settings, ...more });
    expect(gaps.filter(({ leftOut }) => leftOut)).toMatchObject([{ text: `${what} cannot be written safely` }]);
    const lines = text.split('\n').filter((line) => !line.startsWith('#'));
    expect(lines.join('\n')).not.toMatch(/example\.com|a\.example|b\.example/);
  });

  test('every gap stands in the text as a comment', () => {
    const zone = { ...secure, rateLimit: { requests: 1, perSeconds: 1 } };
    const untrusting = { ...settings, edge: { ...settings.edge, trustedProxies: [] } };
    const { text, gaps } = exportEdge(writer, [zone], untrusting);
    const told = gaps.map(({ text: gap }) => gap);
    expect(told).toEqual(
      expect.arrayContaining([
        expect.stringMatching(/^edge\.trustedProxies is empty/),
        expect.stringMatching(/^rateLimit is not exported/),
        'no certificate, so no HTTPS, for www.example.com',
      ]),
    );
    for (const gap of told) expect(text).toMatch(new RegExp(`^# .*${RegExp.escape(gap)}$`, 'm'));
    expect(text).toContain('origin.example:8443');
  });

  test('a certificate is verified where the zone has it verified', () => {
    const strict = exportEdge(writer, [secure], settings).text;
    const full = exportEdge(writer, [{ ...secure, origin: { url: 'https://origin.example', tls: 'full' } }], settings);
    expect(strict).toMatch(/\/etc\/ca\.pem/);
    expect(full.text).not.toMatch(/\/etc\/ca\.pem/);
  });
});

test('an origin with a path: HAProxy leaves it out, nginx and Caddy put the path before', () => {
  const zone = { ...exampleZone, origin: 'http://127.0.0.1:3000/app' };
  expect(exportEdge(haproxyEdge, [zone], settings).gaps).toContainEqual(
    expect.objectContaining({ zone: 'example.com', leftOut: true }),
  );
  expect(exportEdge(nginxEdge, [zone], settings).text).toContain(
    `proxy_pass http://postern_origin_${zone.id}/app$request_uri;`,
  );
  expect(exportEdge(caddyEdge, [zone], settings).text).toContain('rewrite /app{uri}');
});
