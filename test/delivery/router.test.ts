// Which route a recipient takes.

import { describe, expect, test } from 'vitest';
import { routeFor, transportNames, transportOf } from '../../src/delivery/router.ts';
import type { Route } from '../../src/delivery/settings.ts';

function route(name: string, match?: Route['match']): Route {
  return { name, type: 'capture', folder: '/nowhere', platformSignature: true, ...(match ? { match } : {}) };
}

const routes = [
  route('both', { accounts: ['payg'], recipientDomains: ['partner.example', 'other.example'] }),
  route('account', { accounts: ['payg', 'shop'] }),
  route('domain', { recipientDomains: ['partner.example'] }),
  route('default'),
];

test.each([
  ['payg', 'a@partner.example', 'both'],
  ['payg', 'a@PARTNER.example', 'both'],
  ['payg', 'a@example.org', 'account'],
  ['shop', 'a@partner.example', 'account'],
  ['dev', 'a@partner.example', 'domain'],
  ['dev', '"a@example.org"@partner.example', 'domain'],
  ['dev', 'a@sub.partner.example', 'default'],
  ['dev', 'root', 'default'],
])('account %s to %s takes route %s', (account, recipient, wanted) => {
  expect(routeFor(routes, { account, recipient }).name).toBe(wanted);
});

test('no route at all is an error', () => {
  expect(() => routeFor(routes.slice(0, 3), { account: 'dev', recipient: 'a@b.example' })).toThrow(
    'No route for a message of account "dev" to domain "b.example"',
  );
});

describe('the transport of a route', () => {
  const names = (given: readonly Route[]): string[] => [...transportNames({ routes: given }).values()];
  const others = [route('a', { accounts: ['shop'] }), route('b', { recipientDomains: ['x.example'] }), route('c')];

  test('names it, and is the one that its recipients are given', () => {
    expect(names(others).map((name) => name.replace(/#[0-9a-f]{8}$/, ''))).toEqual(['a', 'b', 'c']);
    expect(transportOf({ routes: others })({ account: 'dev', address: 'a@x.example' })).toBe(names(others)[1]);
    expect(transportOf({ routes: others })({ account: 'dev', address: 'a@y.example' })).toBe(names(others)[2]);
  });

  test('stays when the route leads elsewhere, and becomes another when other mail may take it', () => {
    const [a, b, c] = names(others);
    const elsewhere = others.map((each) => ({ ...each, folder: '/elsewhere', platformSignature: false }));
    expect(names(elsewhere)).toEqual([a, b, c]);
    const wider = [
      route('a', { accounts: ['shop'] }),
      route('b', { recipientDomains: ['x.example', 'y.example'] }),
      route('c'),
    ];
    const [a2, b2, c2] = names(wider);
    expect(a2).toBe(a);
    expect(b2).not.toBe(b);
    expect(c2).not.toBe(c);
  });

  test('is one for each domain where the route goes by MX, and another when the route comes to do so', () => {
    const byMx: Route = {
      ...{ name: 'c', type: 'mx', port: 25, tls: { mode: 'none', verify: false }, tlsByDomain: new Map() },
      ...{ mtaSts: false, allowPrivate: [], connections: 2, platformSignature: true },
    };
    const [, , name = ''] = names([...others.slice(0, 2), byMx]);
    expect(name).toMatch(/^c#/);
    expect(name).not.toBe(names(others)[2]);
    const of = transportOf({ routes: [...others.slice(0, 2), byMx] });
    expect(of({ account: 'dev', address: 'a@Y.example' })).toBe(`${name}/y.example`);
    expect(of({ account: 'dev', address: '"a/b@c"@[192.0.2.1]' })).toBe(`${name}/[192.0.2.1]`);
    expect(of({ account: 'dev', address: 'a@x.example' })).toBe(names(others)[1]);
    // What leaves to another address waits for that one's next hop.
    const [redirecting] = [{ ...byMx, redirectAll: 'qa@Corp.example' }];
    const safety = { accounts: {}, withheld: { ...route('withheld'), type: 'capture', folder: '/nowhere' } } as const;
    expect(transportOf({ routes: [redirecting], safety })({ account: 'dev', address: 'a@y.example' })).toMatch(
      /\/corp\.example$/,
    );
  });
});
