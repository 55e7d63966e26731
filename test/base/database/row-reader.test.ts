import { expect, test } from 'vitest';
import { orNull, rowReader } from '../../../src/base/database/row-reader.ts';

const read = rowReader({
  id: String,
  createdAt: Number,
  lastFailureAt: orNull(Number),
  isOn: (column) => column === 1,
});

test('members are read from the columns of their names', () => {
  expect(read({ id: 'a', created_at: 5, last_failure_at: 7, is_on: 1, other: 'left out' })).toStrictEqual({
    ...{ id: 'a', createdAt: 5, lastFailureAt: 7, isOn: true },
  });
});

test('NULL gives undefined where a column may have it', () => {
  expect(read({ id: 1, created_at: '5', last_failure_at: null, is_on: 0 })).toStrictEqual({
    ...{ id: '1', createdAt: 5, lastFailureAt: undefined, isOn: false },
  });
});
