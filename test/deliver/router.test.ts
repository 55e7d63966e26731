// Which route a recipient takes.

import { expect, test } from 'vitest';
import { routeFor } from '../../src/deliver/router.ts';
import type { Route } from '../../src/deliver/settings.ts';

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
