// What senders that nobody owns become (D4d): which line fits, and what * keeps.

import { expect, test } from 'vitest';
import { mapSender, senderMap, senderRule } from '../../src/accounts/sender-map.ts';

const lines = {
  '*@*': 'rest@example.com',
  '*@box.internal': '*@example.com',
  '*@*.internal': 'box@example.com',
  'root@*': 'ops@example.com',
  'root@db.internal': 'dba@example.com',
  'cron-*@*': 'cron.*@example.com',
  'www@*.lan': 'web-*@example.com',
};
const isOwned = (domain: string): boolean => ['example.com', 'other.example'].includes(domain);
const map = senderMap(lines, { repliesToOriginal: false, isOwned });

function mapped(address: string, owns = (domain: string): boolean => domain === 'example.com') {
  const [localPart = '', domain = ''] = address.split('@');
  return mapSender(map, { localPart, domain }, owns)?.address;
}

test.each([
  ['root@db.internal', 'dba@example.com', 'a whole address comes first'],
  ['ROOT@db.internal', 'dba@example.com', 'letters have no case'],
  ['root@box.internal', 'ops@example.com', 'then a local part'],
  ['app@box.internal', 'app@example.com', 'then a domain, and * keeps what it stood for'],
  ['App.One@box.internal', 'App.One@example.com', 'as it was'],
  ['app@nas.internal', 'box@example.com', 'then the longer of the others'],
  ['cron-daily@host', 'cron.daily@example.com', '* within a local part'],
  ['www@shop.lan', 'web-shop@example.com', 'the * of a domain, where the local part has none'],
  ['cron-@host', 'rest@example.com', '* stands for something'],
  ['x@y', 'rest@example.com', 'whatever is left'],
])('%s becomes %s: %s', (given, wanted) => {
  expect(mapped(given)).toBe(wanted);
});

test('nobody who owns a domain is mapped, and nothing to a domain that the account does not own', () => {
  expect(mapped('root@example.com')).toBeUndefined();
  expect(mapped('root@other.example')).toBeUndefined();
  expect(mapped('root@box.internal', () => false)).toBeUndefined();
});

test('what * stood for and cannot stand there leaves the sender to the next line', () => {
  expect(mapped('"a b"@box.internal')).toBe('box@example.com');
  expect(mapped(`${'a'.repeat(65)}@box.internal`)).toBe('box@example.com');
  expect(mapped('a..b@box.internal')).toBe('box@example.com');
});

test('domains with letters beyond ASCII are compared as A-labels on either side', () => {
  const umlauts = {
    'root@b\u00fccher.internal': 'ops@b\u00fccher.example',
    'www@*.B\u00dcCHER.lan': 'web@b\u00fccher.example',
  };
  const made = senderMap(umlauts, { repliesToOriginal: false, isOwned });
  const owns = (domain: string): boolean => domain === 'xn--bcher-kva.example';
  expect(mapSender(made, { localPart: 'root', domain: 'xn--bcher-kva.internal' }, owns)).toMatchObject({
    address: 'ops@xn--bcher-kva.example',
    domain: 'xn--bcher-kva.example',
  });
  expect(mapSender(made, { localPart: 'www', domain: 'shop.xn--bcher-kva.lan' }, owns)?.address).toBe(
    'web@xn--bcher-kva.example',
  );
});

test.each([
  ['root', 'ops@example.com', 'one @'],
  ['a@b@c', 'ops@example.com', 'one @'],
  ['*a*@b', 'ops@example.com', 'at most one \\* on either side'],
  ['@b', 'ops@example.com', 'at most one'],
  ['a@', 'ops@example.com', 'at most one'],
  ['*@b', 'example.com', 'want an address'],
  ['*@b', '*@*', 'want an address'],
  ['*@b', '"x y"@example.com', 'want an address'],
  ['*@b', '**@example.com', 'want an address'],
  ['a@b', '*@example.com', 'without \\*'],
])('%s: %s is refused', (pattern, address, fault) => {
  expect(senderRule(pattern, address)).toMatch(new RegExp(fault));
});
