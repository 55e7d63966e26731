// How far a long command is: a line every five seconds on standard error, and nothing of a short one.

import { afterEach, expect, test, vi } from 'vitest';
import { tellProgress } from '../../src/cli/command/tell-progress.ts';

afterEach(() => vi.useRealTimers());

test('a line every five seconds, of the words of then', () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  const written: string[] = [];
  const output = { write: (text: string | Uint8Array) => void written.push(String(text)) };
  const tell = tellProgress({ stdout: output, stderr: output, env: {}, cwd: '/' });
  tell('at once');
  vi.advanceTimersByTime(5000);
  tell('3 messages');
  tell('4 messages');
  vi.advanceTimersByTime(4999);
  tell('5 messages');
  vi.advanceTimersByTime(1);
  tell('6 messages');
  expect(written).toEqual(['3 messages\n', '6 messages\n']);
});
