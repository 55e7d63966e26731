// Where rows of the live stream come to stand in a list.

import { expect, test } from 'vitest';
import { isNewer, withRow, withRows, withWaiting } from '../../../../src/web/console/web/text/row-order.ts';

const rows = ['09', '07', '05'].map((id) => ({ id, state: 'accepted' }));

test.each([
  ['newer than all', '10', true, ['10', '09', '07', '05']],
  ['between others', '06', true, ['09', '07', '06', '05']],
  ['among those that are not loaded', '03', true, ['09', '07', '05']],
  ['the oldest of all', '03', false, ['09', '07', '05', '03']],
  ['there already', '07', true, ['09', '07', '05']],
])('a row that is %s', (_, id, hasMore, ids) => {
  const row = { id, state: 'delivered' };
  const found = withRow(rows, row, hasMore);
  expect(found.map((one) => one.id)).toEqual(ids);
  expect(found.includes(row)).toBe(ids.includes(id));
  expect(isNewer(rows, row)).toBe(id === '10');
  expect(isNewer([], row)).toBe(true);
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

test('of rows that wait the newest are kept, and each is counted once', () => {
  const first = withWaiting({ rows: [], count: 0 }, named('11', '12', '13', '14'), 3);
  expect([first.rows.map(({ id }) => id), first.count]).toEqual([['14', '13', '12'], 4]);
  // One that is kept and one that was only counted change.
  const changed = withWaiting(first, named('13', '11'), 3);
  expect([changed.rows.map(({ id }) => id), changed.count]).toEqual([['14', '13', '12'], 4]);
  const more = withWaiting(changed, named('15'), 3);
  expect([more.rows.map(({ id }) => id), more.count]).toEqual([['15', '14', '13'], 5]);
});
