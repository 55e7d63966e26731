// Whose a request is: the routing table of D67 and D68, Host and target in every spelling.

import { describe, expect, test } from 'vitest';
import { type HostTable, readAuthority, routeRequest } from '../../../src/web/http/route.ts';
import fc from '../../support/properties.ts';

const hosts: HostTable = {
  isZone: (host) => host === 'example.com' || host === 'www.example.com',
  apiHosts: new Set(['127.0.0.1', 'localhost', 'gateway.example']),
};

function destination(host: string, target = '/', more: { method?: string; serverName?: string } = {}): string {
  const route = routeRequest({ method: 'GET', target, rawHeaders: ['Host', host], ...more }, hosts);
  return route.destination === 'bad' ? `400 ${route.text}` : route.destination;
}

describe('by Host and path', () => {
  test.each([
    ['example.com', '/', 'zone'],
    ['example.com', '/client/v4/zones', 'zone'],
    ['example.com', '/livez', 'zone'],
    ['example.com', '/errors/522', 'zone'],
    ['www.example.com', '/', 'zone'],
    ['ftp.example.com', '/', 'unknown'],
    ['localhost', '/client/v4/zones', 'api'],
    ['nobody.example', '/client/v4/zones', 'api'],
    ['192.0.2.1', '/client/v4/zones', 'api'],
    ['nobody.example', '/client/v4', 'unknown'],
    ['nobody.example', '/client/v4x/', 'unknown'],
    ['nobody.example', '//client/v4/', 'unknown'],
    ['nobody.example', '/client%2Fv4/', 'unknown'],
    ['localhost', '/client/v4', 'api-host'],
    ['nobody.example', '/docs', 'api'],
    ['nobody.example', '/docs?a=b', 'api'],
    ['nobody.example', '/docs/', 'unknown'],
    ['nobody.example', '/openapi.json', 'api'],
    ['nobody.example', '/livez', 'api'],
    ['nobody.example', '/readyz', 'api'],
    ['nobody.example', '/metrics', 'api'],
    ['nobody.example', '/errors/522', 'reference'],
    ['nobody.example', '/errors', 'reference'],
    ['nobody.example', '/errorsx', 'unknown'],
    ['localhost', '/', 'home'],
    ['127.0.0.1:8080', '/', 'home'],
    ['LocalHost.', '/?a=b', 'home'],
    ['gateway.example', '/', 'home'],
    ['gateway.example', '//', 'api-host'],
    ['gateway.example', '/x', 'api-host'],
    ['192.0.2.1', '/', 'address'],
    ['[::1]:8080', '/', 'address'],
    ['127.0.0.2', '/', 'address'],
    ['2130706433', '/', 'unknown'],
    ['nobody.example', '/', 'unknown'],
  ])('%s %s: %s', (host, target, wanted) => {
    expect(destination(host, target)).toBe(wanted);
  });
});

describe('`/` at the loopback address that the connection was accepted at', () => {
  const at = (host: string, address: string | undefined, target = '/'): string => {
    const head = { method: 'GET', target, rawHeaders: ['Host', host], localAddress: () => address };
    const route = routeRequest(head, { isZone: hosts.isZone, apiHosts: new Set() });
    return route.destination;
  };

  test.each([
    ['127.0.0.1:8080', '127.0.0.1', 'home'],
    ['127.0.0.1', '::ffff:127.0.0.1', 'home'],
    ['[::1]:8080', '::1', 'home'],
    ['127.0.0.2', '127.0.0.1', 'address'],
    ['127.0.0.1', '192.0.2.1', 'address'],
    ['192.0.2.1', '192.0.2.1', 'address'],
    ['[2001:db8::1]', '2001:db8::1', 'address'],
    ['[::ffff:127.0.0.1]', '127.0.0.1', 'address'],
    ['127.0.0.1', undefined, 'address'],
    ['localhost', '127.0.0.1', 'unknown'],
    ['example.com', '127.0.0.1', 'zone'],
  ])('%s accepted at %s: %s', (host, address, wanted) => {
    expect(at(host, address)).toBe(wanted);
  });

  test('no other path is there', () => {
    expect(at('127.0.0.1', '127.0.0.1', '/x')).toBe('address');
  });
});

describe('a Host in every spelling', () => {
  test.each([
    'example.com',
    'EXAMPLE.com',
    'ExAmPlE.CoM.',
    'example.com:80',
    'example.com:8080',
    'example.com:65535',
    'example.com:',
    'example.com.:443',
    'EXAMPLE.COM.:',
  ])('%s is the zone', (host) => {
    const route = routeRequest({ method: 'GET', target: '/', rawHeaders: ['hOsT', host] }, hosts);
    expect(route).toMatchObject({ destination: 'zone', host: 'example.com', authority: host });
  });

  test.each([
    '',
    '.',
    ' ',
    ':80',
    'example.com:65536',
    'example.com:8o',
    'example.com:-1',
    'example.com:80:80',
    'user@example.com',
    'example.com/x',
    'example.com, other.example',
    'exa mple.com',
    'example.com\t',
    'ex\u00e4mple.com',
    '<script>',
    'a%zz',
    '[::1',
    '[]',
    '[::g]',
    '[fe80::1%25eth0]',
    '[::1]x',
    '[127.0.0.1]',
    '::1',
    'a'.repeat(255),
  ])('%j is refused', (host) => {
    expect(destination(host)).toBe('400 Bad Host header');
  });

  test.each([
    [[], '400 Bad Host header'],
    [['Host', 'example.com', 'Host', 'example.com'], '400 Bad Host header'],
    [['Host', 'example.com', 'HOST', 'other.example'], '400 Bad Host header'],
    [['X-Host', 'other.example', 'Host', 'example.com'], 'zone'],
  ])('%j', (rawHeaders, wanted) => {
    const route = routeRequest({ method: 'GET', target: '/', rawHeaders }, hosts);
    expect(route.destination === 'bad' ? `400 ${route.text}` : route.destination).toBe(wanted);
  });

  test('254 octets with the dot at the end are a name, 255 are not', () => {
    expect(readAuthority(`${'a'.repeat(253)}.`)).toBe('a'.repeat(253));
    expect(readAuthority('a'.repeat(254))).toBe('a'.repeat(254));
    expect(readAuthority('a'.repeat(255))).toBeUndefined();
  });

  test('an IPv6 address has one form', () => {
    expect(readAuthority('[0:0:0:0:0:0:0:1]:8080')).toBe('[::1]');
    expect(readAuthority('[::FFFF:192.0.2.1]')).toBe(readAuthority('[::ffff:c000:201]'));
  });
});

describe('the target', () => {
  const read = (target: string, method = 'GET', host = 'example.com') =>
    routeRequest({ method, target, rawHeaders: ['Host', host] }, hosts);

  test.each([
    ['/a/b?c=d?e', { path: '/a/b', target: '/a/b?c=d?e' }],
    ['//other.example/x', { path: '//other.example/x', host: 'example.com' }],
    ['/\u00e4', { path: '/\u00e4' }],
  ])('origin-form %s', (target, wanted) => {
    expect(read(target)).toMatchObject(wanted);
  });

  // RFC 9112 §3.2.2: the target's authority counts, Host does not.
  test.each([
    ['http://example.com/x?y', { destination: 'zone', path: '/x', target: '/x?y', authority: 'example.com' }],
    ['HTTPS://EXAMPLE.com:8443', { destination: 'zone', path: '/', target: '/', authority: 'EXAMPLE.com:8443' }],
    ['http://example.com?y', { destination: 'zone', path: '/', target: '/?y' }],
    ['http://nobody.example/', { destination: 'unknown', host: 'nobody.example', authority: 'nobody.example' }],
    ['http://localhost/client/v4/zones', { destination: 'api', host: 'localhost' }],
    ['http://192.0.2.1/', { destination: 'address' }],
  ])('absolute-form %s over Host: example.com', (target, wanted) => {
    expect(read(target)).toMatchObject(wanted);
  });

  test('absolute-form names the zone though Host is another', () => {
    expect(read('http://example.com/', 'GET', 'nobody.example')).toMatchObject({
      destination: 'zone',
      authority: 'example.com',
    });
  });

  test.each([
    'http://',
    'http:///x',
    'http://user@example.com/',
    'http://user:password@example.com/',
    'http://example.com:99999/',
    'http://example.com#x',
    'http://example.com/#x',
    'http://a b/',
    'ftp://example.com/',
    'ws://example.com/',
    'example.com:80',
    '*',
    'x',
    '',
    '/a b',
    '/a\tb',
    '/a#b',
    '/a\u007fb',
    '/a\u0100b',
    '?x',
  ])('%j is refused', (target) => {
    expect(read(target)).toEqual({ destination: 'bad', text: 'Bad request target' });
  });

  test('OPTIONS asks for a whole server', () => {
    expect(read('*', 'OPTIONS')).toMatchObject({ destination: 'zone', path: '*', target: '*' });
    expect(read('http://example.com', 'OPTIONS')).toMatchObject({ destination: 'zone', target: '*' });
  });
});

describe('the name of the TLS handshake', () => {
  test.each([
    ['example.com', 'example.com', '/', 'zone'],
    ['example.com:8443', 'EXAMPLE.com', '/', 'zone'],
    ['example.com', 'www.example.com', '/', 'misdirected'],
    ['example.com', 'nobody.example', '/client/v4/zones', 'misdirected'],
    ['nobody.example', 'example.com', '/', 'misdirected'],
    ['192.0.2.1', 'example.com', '/', 'misdirected'],
    ['localhost', 'example.com', '/', 'misdirected'],
    ['localhost', 'localhost', '/', 'home'],
    ['localhost', 'example.com', '/client/v4/zones', 'api'],
    ['gateway.example', 'localhost', '/errors/522', 'reference'],
    ['example.com', '', '/', 'zone'],
  ])('Host %s, SNI %s, %s: %s', (host, serverName, target, wanted) => {
    expect(destination(host, target, { serverName })).toBe(wanted);
  });
});

test('any text is routed or refused in a moment, and what is read is clean', () => {
  const text = fc.string({ unit: fc.nat(255).map((octet) => String.fromCharCode(octet)), maxLength: 300 });
  const part = fc.oneof(
    text,
    fc.constantFrom('example.com', 'http://example.com', '/client/v4/', '[::1]', '..', '%2e', '#', '@', ':'),
  );
  const line = fc.array(part, { maxLength: 4 }).map((parts) => parts.join(''));
  fc.assert(
    fc.property(line, line, fc.constantFrom('GET', 'OPTIONS', 'CONNECT'), (host, target, method) => {
      const route = routeRequest({ method, target, rawHeaders: ['Host', host] }, hosts);
      if (route.destination === 'bad') return;
      expect(route.host).toMatch(/^[!-~]+$/);
      expect(route.host).toBe(route.host.toLowerCase());
      expect(route.target).toMatch(/^(?:\*|\/[!-"$-~\u0080-\u00ff]*)$/);
      expect(readAuthority(route.authority)).toBe(route.host);
    }),
    { numRuns: 2000 },
  );
});
