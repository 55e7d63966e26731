// Capture writes exactly the octets that would have left.

import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Maildir } from '../../src/delivery/capture.ts';
import { headFor } from '../../src/delivery/job.ts';

let folder = '';

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'postern-capture-'));
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

const parts = [Buffer.from('Return-Path: <a@b.example>\r\n'), Buffer.from('Subject: x\r\n\r\n'), Buffer.from('.body')];

test('a message stands in new, whole, and nothing is left in tmp', async () => {
  const maildir = new Maildir(join(folder, 'deep', 'capture'));
  await maildir.write('0199-a', parts);
  expect(readFileSync(join(folder, 'deep/capture/new/0199-a.eml'), 'latin1')).toBe(
    'Return-Path: <a@b.example>\r\nSubject: x\r\n\r\n.body',
  );
  expect(readdirSync(join(folder, 'deep/capture/tmp'))).toEqual([]);
  expect(readdirSync(join(folder, 'deep/capture/cur'))).toEqual([]);
  expect(statSync(join(folder, 'deep/capture/new/0199-a.eml')).mode & 0o077).toBe(0);
});

test('the same message again replaces itself', async () => {
  const maildir = new Maildir(folder);
  await Promise.all([maildir.write('same', parts), maildir.write('same', parts), maildir.write('other', parts)]);
  expect(readdirSync(join(folder, 'new')).toSorted()).toEqual(['other.eml', 'same.eml']);
});

test('a folder that cannot be made is an error, and is tried again', async () => {
  const path = join(folder, 'capture');
  writeFileSync(path, 'a file');
  const maildir = new Maildir(path);
  await expect(maildir.write('a', parts)).rejects.toThrow(/EEXIST|ENOTDIR/);
  rmSync(path);
  await maildir.write('a', parts);
  expect(readdirSync(join(path, 'new'))).toEqual(['a.eml']);
});

test('a message that cannot be moved leaves nothing behind', async () => {
  const maildir = new Maildir(folder);
  await maildir.write('first', parts);
  rmSync(join(folder, 'new'), { recursive: true });
  await expect(maildir.write('second', parts)).rejects.toThrow('ENOENT');
  expect(readdirSync(join(folder, 'tmp'))).toEqual([]);
});

test('the platform’s signature is cut out where the route says so', () => {
  const content = { head: Buffer.from('aaPLATFORMbb'), body: Buffer.alloc(0) };
  const entry = { platformSignature: { start: 2, end: 10 } };
  const head = (platformSignature: boolean, from: { platformSignature?: { start: number; end: number } } = entry) =>
    Buffer.concat(headFor(content, from, { platformSignature })).toString();
  expect(head(true)).toBe('aaPLATFORMbb');
  expect(head(false)).toBe('aabb');
  expect(head(false, {})).toBe('aaPLATFORMbb');
});
