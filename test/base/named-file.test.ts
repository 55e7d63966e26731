import { execFileSync } from 'node:child_process';
import { symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readRegularFile } from '../../src/base/named-file.ts';
import { scratchFolder } from '../support/scratch.ts';

function place(name: string): string {
  return join(scratchFolder(), name);
}

test('a file is read, by a link too, up to its bound', () => {
  const file = place('file');
  writeFileSync(file, 'secret');
  const link = place('link');
  symlinkSync(file, link);
  expect(readRegularFile(link).toString()).toBe('secret');
  expect(readRegularFile(file, 6).toString()).toBe('secret');
  expect(() => readRegularFile(file, 5)).toThrow('it has 6 octets, want at most 5');
});

test.each([
  ['a pipe that nobody writes to', (file: string) => execFileSync('mkfifo', [file]), 'it is a pipe'],
  ['a device', (file: string) => symlinkSync('/dev/null', file), 'it is a device'],
  [
    'a hole of a gibibyte',
    (file: string) => {
      writeFileSync(file, '');
      truncateSync(file, 1024 ** 3);
    },
    'it has 1073741824 octets, want at most 4194304',
  ],
  ['a link to itself', (file: string) => symlinkSync(file, file), 'ELOOP'],
  ['a folder', () => undefined, 'EISDIR'],
])('%s is not', (_, make, message) => {
  const file = message === 'EISDIR' ? scratchFolder() : place('file');
  make(file);
  expect(() => readRegularFile(file)).toThrow(message);
});
