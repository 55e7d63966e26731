// mbox files as streams: where messages begin, what is unquoted, and that nothing in a file makes the reader hold it.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import {
  beginsMbox,
  type MboxMessage,
  readArchive,
  readMbox,
} from '../../../src/pipeline/report/archive/archive-files.ts';
import { collectGarbage } from '../../support/heap-octets.ts';
import { scratchFolder } from '../../support/scratch.ts';

const line = 'From a@example.com Sun Nov 22 08:00:00 2026';

async function* pieces(text: string, size: number): AsyncGenerator<Buffer> {
  const octets = Buffer.from(text, 'latin1');
  for (let at = 0; at < octets.length; at += size) yield octets.subarray(at, at + size);
}

async function read(text: string, size = 65_536, most = 1_000_000): Promise<MboxMessage[]> {
  const found: MboxMessage[] = [];
  for await (const message of readMbox(pieces(text, size), most)) found.push(message);
  return found;
}

async function texts(text: string, size?: number): Promise<string[]> {
  return (await read(text, size)).map(({ octets }) => octets.toString('latin1'));
}

const three = `${line}\nSubject: 1\n\none\n\n${line}\nSubject: 2\n\n>From here\n>>From there\n> From no\n\n${line}\nSubject: 3\n\nthree\n`;

test.each([1, 2, 3, 7, 64, 999, 1006, 1007, 65_536])('messages are the same in pieces of %i octets', async (size) => {
  const padded = three.replaceAll('one', 'one '.repeat(700));
  const whole = await texts(padded);
  expect(whole).toHaveLength(3);
  expect(await texts(padded, size)).toEqual(whole);
});

test('the From line goes, quoting of mboxo and mboxrd is taken back, and the sender is known', async () => {
  const found = await read(three);
  expect(found.map(({ octets }) => octets.toString())).toEqual([
    'Subject: 1\n\none\n',
    'Subject: 2\n\nFrom here\n>From there\n> From no\n',
    'Subject: 3\n\nthree\n',
  ]);
  expect(found.map(({ sender }) => sender)).toEqual(['a@example.com', 'a@example.com', 'a@example.com']);
});

test.each([1, 2, 3, 7, 999, 1001, 1002, 65_536])(
  'line ends of CRLF do as well, in pieces of %i octets',
  async (size) => {
    const padded = three.replaceAll('one', 'one '.repeat(700));
    const plain = await texts(padded);
    const withCr = plain.map((text) => text.replaceAll('\n', '\r\n'));
    expect(await texts(padded.replaceAll('\n', '\r\n'), size)).toEqual(withCr);
  },
);

test.each([
  ['text of a body', 'From the beginning it was 10:30 somewhere'],
  ['a line that follows no empty one', `x\n${line}`],
  ['a line longer than any From line', `From a@example.com Sun Nov 22 08:00:00 2026 ${'x'.repeat(1000)}`],
])('%s begins no message', async (_, body) => {
  expect(await texts(`${line}\nSubject: 1\n\n${body}\nmore\n`)).toHaveLength(1);
});

test('a file without a From line is one message', async () => {
  expect(await texts('Subject: 1\n\nx\n')).toEqual(['Subject: 1\n\nx\n']);
  expect(beginsMbox(Buffer.from('Subject: 1\n\nx\n'))).toBe(false);
  expect(beginsMbox(Buffer.from(three))).toBe(true);
});

test('nothing is no message', async () => {
  expect(await texts('')).toEqual([]);
});

test('of a message that is too large the beginning is kept, and its size is told', async () => {
  const [first, second] = await read(
    `${line}\nSubject: 1\n\n${'x'.repeat(5000)}\n\n${line}\nSubject: 2\n\n`,
    512,
    1000,
  );
  expect([first?.octets.length, first?.size]).toEqual([1000, 5013]);
  expect(second?.octets.toString()).toBe('Subject: 2\n\n');
});

test('a line of 100 MB and binary octets take no more memory than a message may have', async () => {
  // What is no longer needed counts only once it is collected, whenever that would be.
  const held = (): number => {
    collectGarbage();
    return process.memoryUsage().arrayBuffers;
  };
  const before = held();
  let largest = 0;
  async function* hostile(): AsyncGenerator<Buffer> {
    yield Buffer.from(`${line}\nSubject: 1\n\n`);
    for (let count = 0; count < 100; count += 1) {
      if (count % 10 === 9) largest = Math.max(largest, held() - before);
      yield Buffer.alloc(1_048_576, 0x78);
    }
    yield Buffer.from([0, 255, 27, 10, 10]);
    yield Buffer.from(`${line}\nSubject: 2\n\nx\n`);
  }
  const found: MboxMessage[] = [];
  for await (const message of readMbox(hostile(), 1_000_000)) found.push(message);
  largest = Math.max(largest, held() - before);
  expect(found.map(({ size }) => size)).toEqual([104_857_600 + 16, 14]);
  expect(found[0]?.octets.length).toBe(1_000_000);
  expect(largest).toBeLessThan(64_000_000);
});

test('files and folders are read whose names are not UTF-8', async () => {
  const folder = scratchFolder();
  const maildir = Buffer.from(join(folder, 'bo\xeete'), 'latin1');
  const cur = Buffer.concat([maildir, Buffer.from('/cur')]);
  for (const path of [maildir, cur, Buffer.concat([maildir, Buffer.from('/new')])]) mkdirSync(path);
  writeFileSync(Buffer.concat([cur, Buffer.from('/\xe4:2,S', 'latin1')]), 'Subject: 1\n\nx\n');
  const found = await Array.fromAsync(readArchive([folder], { most: 1000 }));
  expect(found).toMatchObject([{ kind: 'message', name: join(folder, 'bo\ufffdte/cur/\ufffd:2,S'), size: 14 }]);
});
