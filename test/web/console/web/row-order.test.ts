// Where rows of the live stream come to stand in a list.

import { expect, test } from 'vitest';
import { withRows } from '../../../../src/web/console/web/text/row-order.ts';

const rows = ['09', '07', '05'].map((id) => ({ id, state: 'accepted' }));

test.each([
  ['newer than all', '10', true, ['10', '09', '07', '05']],
  ['between others', '06', true, ['09', '07', '06', '05']],
  ['among those that are not loaded', '03', true, ['09', '07', '05']],
  ['the oldest of all', '03', false, ['09', '07', '05', '03']],
  ['there already', '07', true, ['09', '07', '05']],
])('a row that is %s', (_, id, hasMore, ids) => {
  const row = { id, state: 'delivered' };
  const found = withRows(rows, [row], hasMore);
  expect(found.map((one) => one.id)).toEqual(ids);
  expect(found.includes(row)).toBe(ids.includes(id));
});

const named = (...ids: string[]) => ids.map((id) => ({ id, state: 'accepted' }));

test('rows that come together are put in their places, whatever their order', () => {
  const found = withRows(rows, [...named('10', '06', '11', '03'), { id: '07', state: 'delivered' }], true);
  expect(found.map(({ id, state }) => `${id} ${state}`)).toEqual([
    '11 accepted',
    '10 accepted',
    '09 accepted',
    '07 delivered',
    '06 accepted',
    '05 accepted',
  ]);
});
