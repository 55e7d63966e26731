// Which HTML is not parsed for a preview, because a browser would stand still over it.

import { expect, test } from 'vitest';
import { isTooDeep } from '../../../../src/web/console/web/text/visible-text.ts';

test.each(['<b>', '<div><b>\r\n', '<table><tr><td>', '<DIV class="a"></x>', '<a href=x><div></a>', '<b><table></b>'])(
  'thousands of %j that nothing closes are too deep',
  (piece) => {
    expect(isTooDeep(piece.repeat(20))).toBe(false);
    expect(isTooDeep(piece.repeat(5000))).toBe(true);
    // Closed at last, it was as deep before.
    expect(isTooDeep(piece.repeat(5000) + '</b></div>'.repeat(5000))).toBe(true);
  },
);

test.each([
  '<p>one',
  '<li>one',
  '<tr><td>one',
  '<br><img src=x>',
  '<div><b>one</b></div>',
  '1 < 2 ',
  '<B>one</b>',
  '<!-- -->',
])('many of %j are an ordinary message', (piece) => {
  expect(isTooDeep(`<table><ul>${piece.repeat(20_000)}</ul></table>`)).toBe(false);
});

test('it is judged in one pass, however its tags begin', () => {
  for (const piece of ['<', '<a', '</', '<a ', '< ', '<aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'])
    expect(typeof isTooDeep(piece.repeat(20_000))).toBe('boolean');
});
