// What failures of a connection to PostgreSQL are told as: with Node's own codes, and with the server's.

import { expect, test } from 'vitest';
import { isOutOfReach, storeError } from '../../../src/base/database/postgres-errors.ts';
import { Unavailable } from '../../../src/base/errors.ts';

function failure(code: string): Error {
  return storeError(Object.assign(new Error(`failed by ${code}`), { code }));
}

test.each([
  'EPIPE',
  'ECONNRESET',
  'ECONNREFUSED',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENOENT',
  '57P01',
  '57P03',
  '08006',
  '53300',
  '28P01',
  '25006',
])('%s says that the server lets nobody in, whatever is asked', (code) => {
  expect(failure(code)).toBeInstanceOf(Unavailable);
  expect(isOutOfReach(failure(code))).toBe(true);
});

test.each(['57014', '55P03', '40001', '42P01', '42501', '53100', '53200'])('%s puts one request off', (code) => {
  expect(failure(code)).toBeInstanceOf(Unavailable);
  expect(isOutOfReach(failure(code))).toBe(false);
});

test.each(['22P02', '23505', 'P0001'])('%s is a fault of the request', (code) => {
  expect(failure(code)).not.toBeInstanceOf(Unavailable);
  expect(isOutOfReach(failure(code))).toBe(false);
});
