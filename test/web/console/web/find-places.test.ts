// What a text leads to that is typed into the box that finds everything.

import { expect, test } from 'vitest';
import { findPlaces } from '../../../../src/web/console/web/text/find-places.ts';

const pages = ['Overview', 'Messages', 'Suppressions', 'Tokens'].map((label) => ({
  ...{ label, icon: 'x', pattern: `/${label.toLowerCase()}` },
}));

test.each([
  ['', ['Overview', 'Messages', 'Suppressions', 'Tokens']],
  ['ver', ['Overview', 'Messages with “ver”']],
  ['TOK', ['Tokens', 'Messages with “TOK”']],
  ['weekly report', ['Messages with “weekly report”']],
  ['a@example.net', ['Messages with “a@example.net”', 'Suppression of a@example.net']],
  [
    ' 0199c5a1-1111-7222-8333-444455556666 ',
    ['Message 0199c5a1-1111-7222-8333-444455556666', 'Messages with “0199c5a1-1111-7222-8333-444455556666”'],
  ],
  ['0199c5a1-1111', ['Messages with “0199c5a1-1111”']],
])('%j', (typed, labels) => {
  expect(findPlaces(typed, pages).map(({ label }) => label)).toEqual(labels);
});
