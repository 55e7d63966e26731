// Whoever reads a message that left sees the mailbox that was judged as its sender, and no other (D4b, D50): asked are
// Python's email package, in its older and its newer way of reading, and Ruby's mail library.

import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { type AcceptedFrom, comparable, hostileFrom, sendFrom } from '../support/hostile-from.ts';
import fc from '../support/properties.ts';
import { requirePrograms } from './programs.ts';

const fields = 3000;

let accepted: readonly AcceptedFrom[] = [];
beforeAll(async () => {
  requirePrograms('python3', 'ruby');
  const sent = await Promise.all(fc.sample(hostileFrom, fields).map(sendFrom));
  accepted = sent.filter((one) => one !== undefined);
  expect(accepted.length).toBeGreaterThan(fields / 5);
}, 60_000);

/** Asks a script about all of them in one process; one answer each. */
function ask(program: string, script: string): readonly unknown[] {
  const input = JSON.stringify(accepted.map(({ head }) => head.toString('base64')));
  const args = [join(import.meta.dirname, script)];
  const { stdout, stderr, status } = spawnSync(program, args, { input, encoding: 'utf8', maxBuffer: 1 << 28 });
  expect(stderr).toBe('');
  expect(status).toBe(0);
  return stdout
    .trim()
    .split('\n')
    .map((line): unknown => JSON.parse(line));
}

/** The fields that are read as something else: what was given, who was judged, who is seen. */
function misread(answers: readonly (readonly string[])[]): readonly object[] {
  expect(answers).toHaveLength(accepted.length);
  return accepted.flatMap(({ given, judged, head }, index) => {
    const seen = (answers[index] ?? []).map(comparable);
    const isSame = seen.length === 1 && seen[0] === judged;
    return isSame ? [] : [{ given, judged, seen, left: head.toString().match(/^From:.*(?:\r\n[ \t].*)*/m)?.[0] }];
  });
}

test('Python sees the mailbox that was judged, by each of its readers', () => {
  const answers = ask('/usr/bin/python3', 'read-from.py') as readonly (readonly string[])[][];
  for (const reader of [0, 1, 2]) expect(misread(answers.map((answer) => answer[reader] ?? []))).toEqual([]);
});

test('Ruby sees the mailbox that was judged', () => {
  expect(misread(ask('ruby', 'read-from.rb') as readonly (readonly string[])[])).toEqual([]);
});
