// The import ranks of the house: who may import whom, read from the imports themselves.

import { readdirSync, readFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { expect, test } from 'vitest';

const root = resolve(import.meta.dirname, '../src');

/** A room and the rooms it may import. `main` is src/main.ts, files right under src/ are rooms of their own. */
const mayImport: Record<string, readonly string[]> = {
  base: [],
  mail: ['base'],
  http: ['accounts', 'base'],
  accounts: ['mail', 'base'],
  policy: ['accounts', 'mail', 'base'],
  compose: ['policy', 'accounts', 'mail', 'base'],
  sign: ['compose', 'accounts', 'mail', 'base'],
  spool: ['mail', 'base'],
  deliver: ['spool', 'accounts', 'mail', 'base'],
  feedback: ['spool', 'accounts', 'mail', 'base'],
  edge: ['accounts', 'http', 'base'],
  proxy: ['accounts', 'http', 'base'],
  submit: ['policy', 'compose', 'sign', 'spool', 'accounts', 'mail', 'base'],
  'ingress/smtp': ['submit', 'accounts', 'mail', 'base'],
  'ingress/rest': ['submit', 'accounts', 'mail', 'http', 'base'],
  admin: ['feedback', 'sign', 'accounts', 'mail', 'http', 'base'],
  config: [
    'ingress/smtp',
    'ingress/rest',
    'deliver',
    'feedback',
    'edge',
    'proxy',
    'policy',
    'sign',
    'spool',
    'accounts',
    'mail',
    'http',
    'base',
  ],
  bootstrap: ['config', 'sign', 'accounts', 'base'],
  binding: [],
  gateway: ['*'],
  cli: ['*'],
  main: ['*'],
};

function roomOf(file: string): string {
  const parts = relative(root, file).split('/');
  if (parts.length === 1) return (parts[0] ?? '').replace(/\.ts$/, '');
  return parts[0] === 'ingress' ? `ingress/${parts[1]}` : (parts[0] ?? '');
}

function sourceFiles(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => join(folder, name));
}

function importsOf(file: string): string[] {
  const text = readFileSync(file, 'utf8');
  const specifiers = text.matchAll(/(?:\bfrom|\bimport|\bnew URL)\s*\(?\s*'(\.{1,2}\/[^']+)'/g);
  return [...specifiers].map((match) => resolve(file, '..', match[1] ?? ''));
}

test('every import follows the ranks', () => {
  const wrong: string[] = [];
  const files = sourceFiles(root);
  expect(files.length).toBeGreaterThan(10);
  for (const file of files) {
    const room = roomOf(file);
    const allowed = mayImport[room];
    if (!allowed) {
      wrong.push(`${relative(root, file)}: no rank for room "${room}"`);
      continue;
    }
    for (const target of importsOf(file)) {
      const targetRoom = roomOf(target);
      if (targetRoom === room || allowed.includes(targetRoom)) continue;
      if (allowed.includes('*') && targetRoom !== 'main' && (targetRoom !== 'gateway' || room === 'cli')) continue;
      if (room === 'main' && targetRoom === 'cli') continue;
      wrong.push(`${relative(root, file)} imports ${targetRoom}`);
    }
  }
  expect(wrong).toEqual([]);
});

test('connections are reset in one place, which knows when that is safe', () => {
  const resets = sourceFiles(root).filter((file) => /resetAndDestroy/.test(readFileSync(file, 'utf8')));
  expect(resets.map((file) => relative(root, file))).toEqual(['base/reset-connection.ts']);
});

test('pure rooms have no sockets, files or timers', () => {
  const impure =
    /from 'node:(net|tls|fs|fs\/promises|timers|timers\/promises|http|https|child_process|worker_threads|sqlite)'|\bsetTimeout\(|\bDate\.now\(/;
  const pure = new Set(['mail', 'policy', 'compose', 'sign']);
  const wrong = sourceFiles(root).filter((file) => pure.has(roomOf(file)) && impure.test(readFileSync(file, 'utf8')));
  expect(wrong.map((file) => relative(root, file))).toEqual([]);
});

// An array of a request's own length as the arguments of a call is an exhausted stack (RangeError) at some 120,000 of them.
test('no call takes an array apart as its arguments where requests or messages, and what is stored of them, are worked on', () => {
  const web = ['http', 'ingress/rest', 'admin', 'binding', 'edge', 'proxy'];
  const mail = ['ingress/smtp', 'submit', 'mail', 'compose', 'sign', 'spool'];
  const rooms = [...web, ...mail].map((room) => join(root, room));
  const spread =
    /\.(?:push|unshift|splice|concat|min|max|apply|fromCharCode|fromCodePoint)\((?:[^(){}[\]]|\([^()]*\))*\.\.\./;
  expect(
    ['a.push(...b)', 'a.push(b,\n  ...c)', 'Math.max(0, ...b.map((c) => c))'].every((text) => spread.test(text)),
  ).toBe(true);
  const files = [...rooms.flatMap(sourceFiles), join(root, 'binding.ts')];
  const offenders = files.filter((file) => spread.test(readFileSync(file, 'utf8')));
  expect(offenders.map((file) => relative(root, file))).toEqual([]);
});
