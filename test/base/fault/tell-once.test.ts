// What is told of work that fails for a while.

import { expect, test } from 'vitest';
import { tellOnce } from '../../../src/base/fault/tell-once.ts';

test('each reason of a fault is told once, five at most, and once that it is over', () => {
  const told: string[] = [];
  const teller = tellOnce({ fault: (error) => told.push(String(error)), over: () => told.push('over') });
  teller.worked();
  for (const reason of ['slow', 'slow', 'refused', 'slow', 'refused']) teller.failed(new Error(reason));
  teller.worked();
  teller.worked();
  for (let index = 0; index < 9; index += 1) teller.failed(new Error(`port ${index}`));
  teller.worked();
  teller.failed(new Error('slow'));
  const ports = Array.from({ length: 5 }, (_, index) => `Error: port ${index}`);
  expect(told).toEqual(['Error: slow', 'Error: refused', 'over', ...ports, 'over', 'Error: slow']);
});
