// The log's output on real descriptors: a device that is always full, pipes that nobody reads, and one that is read again.

import { spawnSync } from 'node:child_process';
import { closeSync, constants, mkdtempSync, openSync, readFileSync, readSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { type LogLoss, LogOutput } from '../../src/base/log.ts';

function scratch(): string {
  const folder = mkdtempSync(join(tmpdir(), 'postern-log-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

function opened(path: string, flags: number): number {
  const fd = openSync(path, flags);
  onTestFinished(() => closeSync(fd));
  return fd;
}

/** A named pipe: what writes, and what reads without waiting. */
function pipe(): { readonly writer: number; readonly read: () => string } {
  const path = join(scratch(), 'pipe');
  expect(spawnSync('mkfifo', [path]).status).toBe(0);
  const reader = opened(path, constants.O_RDONLY | constants.O_NONBLOCK);
  const writer = opened(path, constants.O_WRONLY);
  const buffer = Buffer.alloc(1 << 20);
  const read = (): string => {
    try {
      return buffer.toString('utf8', 0, readSync(reader, buffer));
    } catch {
      return ''; // EAGAIN: nothing is there
    }
  };
  return { writer, read };
}

const line = (number: number): string => `line ${number} ${'x'.repeat(990)}\n`;

test('lines arrive whole and in order', async () => {
  const file = join(scratch(), 'log');
  const output = new LogOutput({ descriptor: opened(file, constants.O_WRONLY | constants.O_CREAT) });
  const lines = Array.from({ length: 500 }, (_, index) => `${index} ${'é'.repeat(index)}\n`);
  for (const text of lines) output.write(text);
  await output.close(5000);
  expect(readFileSync(file, 'utf8')).toBe(lines.join(''));
  expect(output.dropped()).toBe(0);
});

test('a full device costs what is over the buffer, and neither throws nor waits', async () => {
  const output = new LogOutput({ descriptor: opened('/dev/full', constants.O_WRONLY), bufferBytes: 10_000 });
  for (let number = 0; number < 100; number += 1) output.write(line(number));
  expect(output.dropped()).toBe(81);
  await output.close(50);
  output.write(line(100));
  expect(output.dropped()).toBe(82);
});

test('a pipe that nobody reads drops lines; read again, it carries on behind the last line, and tells the loss', async () => {
  const { writer, read } = pipe();
  const losses: LogLoss[] = [];
  const output = new LogOutput({ descriptor: writer, bufferBytes: 100_000, onLoss: (loss) => losses.push(loss) });
  for (let number = 0; number < 400; number += 1) {
    output.write(line(number));
    if (number % 20 === 0) await new Promise((wait) => setTimeout(wait, 5));
  }
  expect(output.dropped()).toBeGreaterThan(100);
  let text = '';
  while (losses.length === 0) {
    text += read();
    await new Promise((wait) => setTimeout(wait, 5));
  }
  text += read();
  const kept = 400 - output.dropped();
  expect(text).toBe(Array.from({ length: kept }, (_, number) => line(number)).join(''));
  expect(losses).toEqual([{ lines: output.dropped(), reason: 'slow' }]);
  output.write('later\n');
  await output.close(5000);
  expect(read()).toBe('later\n');
});

test('the end waits for a pipe that is never read only as long as it is told', async () => {
  const { writer } = pipe();
  const output = new LogOutput({ descriptor: writer });
  for (let number = 0; number < 200; number += 1) output.write(line(number));
  await output.close(100);
});
