// The import ranks of the house: who may import whom, read from the imports themselves.

import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { expect, test } from 'vitest';

const root = resolve(import.meta.dirname, '../src');
/** The client, a package of its own. */
const client = resolve(import.meta.dirname, '../packages/binding/src');

/**
 * A room and the rooms it may import. A room is a folder under src/; files right under src/ are rooms of their own.
 * `mail/*` stands for the room `mail` and all rooms within it; a name without it stands for that room alone.
 */
const mayImport: Record<string, readonly string[]> = {
  base: [],
  'base/postgres': ['base'],
  'base/fault': ['base'],
  'base/database': ['base', 'base/fault', 'base/postgres'],
  'base/load': ['base'],
  'base/schema': ['base'],
  'base/net': ['base'],
  'base/dns': ['base'],
  'mail/header': ['base/*'],
  'mail/address': ['mail/header', 'base/*'],
  'mail/mime': ['mail/header', 'base/*'],
  mail: ['mail/address', 'mail/header', 'mail/mime', 'base/*'],
  'http/json': ['base/*'],
  'http/listener': ['base/*'],
  'http/page': ['base/*'],
  'http/reference': ['http/page', 'base/*'],
  'http/scrape': ['accounts', 'base/*'],
  http: ['http/json', 'http/listener', 'http/page', 'http/reference', 'http/scrape', 'accounts', 'base/*'],
  accounts: ['mail/*', 'base/*'],
  policy: ['accounts', 'mail/*', 'base/*'],
  compose: ['policy', 'accounts', 'mail/*', 'base/*'],
  sign: ['compose', 'accounts', 'mail/*', 'base/*'],
  journal: ['mail/*', 'base/*'],
  'journal/store': ['journal', 'base/*'],
  'journal/reader': ['mail/*', 'base/*'],
  events: ['journal', 'mail/*', 'base/*'],
  'spool/reports': ['mail/*', 'base/*'],
  'spool/threads': ['mail/*', 'base/*'],
  spool: ['spool/reports', 'spool/threads', 'events', 'journal', 'mail/*', 'base/*'],
  'spool/core': ['spool', 'spool/reports', 'events', 'base/*'],
  'spool/search': ['spool', 'events', 'mail/*', 'base/*'],
  'spool/journal': ['spool', 'spool/postgres/server', 'events', 'journal', 'journal/store', 'mail/*', 'base/*'],
  'spool/sqlite/file': ['spool', 'spool/core', 'base/*'],
  'spool/sqlite': [
    'spool/sqlite/file',
    'spool/core',
    'spool/search',
    'spool/journal',
    'spool',
    'spool/reports',
    'spool/threads',
    'journal',
    'events',
    'mail/*',
    'base/*',
  ],
  'spool/postgres/server': ['spool/core', 'base/*'],
  'spool/postgres/events': ['spool/postgres/server', 'spool/search', 'spool/journal', 'spool', 'events', 'base/*'],
  'spool/postgres': [
    'spool/postgres/events',
    'spool/postgres/server',
    'spool/core',
    'spool/search',
    'spool/journal',
    'spool',
    'spool/reports',
    'spool/threads',
    'journal',
    'events',
    'mail/*',
    'base/*',
  ],
  figures: ['events', 'base/*'],
  backup: ['spool/*', 'base/*'],
  move: ['journal', 'spool/*', 'base/*'],
  inspect: ['spool/sqlite', 'spool/sqlite/file', 'base/*'],
  'deliver/smtp': ['mail/*', 'base/*'],
  'deliver/hop': ['mail/*', 'base/*'],
  'deliver/mx': ['deliver/smtp', 'mail/*', 'base/*'],
  'deliver/staging': ['mail/*', 'base/*'],
  deliver: [
    'deliver/hop',
    'deliver/mx',
    'deliver/staging',
    'deliver/smtp',
    'spool',
    'events',
    'accounts',
    'mail/*',
    'base/*',
  ],
  webhooks: ['events', 'base/*'],
  'feedback/report': ['mail/*', 'base/*'],
  'feedback/classify': ['events', 'base/*'],
  feedback: ['feedback/report', 'feedback/classify', 'events', 'accounts', 'mail/*', 'base/*'],
  'edge/zone': ['edge/errors', 'http/*', 'accounts', 'base/*'],
  'edge/errors': ['accounts', 'http/*', 'base/*'],
  'edge/custom': ['edge/errors', 'edge/zone', 'accounts', 'http/*', 'base/*'],
  'edge/origin': ['edge/errors', 'edge/zone', 'http/*', 'base/*'],
  'edge/export': ['edge/origin', 'edge/zone', 'base/*'],
  edge: ['edge/custom', 'edge/origin', 'edge/errors', 'edge/zone', 'accounts', 'http/*', 'base/*'],
  'proxy/application': ['base/*'],
  'proxy/store': ['proxy/application', 'base/*'],
  'proxy/rules': ['proxy/store', 'proxy/application', 'accounts', 'http/*', 'base/*'],
  'proxy/origins': ['proxy/application', 'base/*'],
  'proxy/traffic': ['proxy/origins', 'proxy/application', 'base/*'],
  'proxy/plane': [
    'proxy/traffic',
    'proxy/origins',
    'proxy/rules',
    'proxy/store',
    'proxy/application',
    'http/*',
    'base/*',
  ],
  'proxy/api': ['proxy/plane', 'proxy/rules', 'proxy/store', 'proxy/application', 'accounts', 'http/*', 'base/*'],
  'proxy/export': ['proxy/traffic', 'proxy/application', 'base/*'],
  proxy: [
    'proxy/api',
    'proxy/plane',
    'proxy/traffic',
    'proxy/origins',
    'proxy/rules',
    'proxy/store',
    'proxy/application',
    'accounts',
    'http/*',
    'base/*',
  ],
  console: ['console/files', 'accounts', 'http/*', 'base/*'],
  submit: ['policy', 'compose', 'sign', 'spool', 'events', 'journal', 'accounts', 'mail/*', 'base/*'],
  'submit.ts': ['submit', 'policy', 'compose', 'sign', 'spool', 'events', 'journal', 'accounts', 'mail/*', 'base/*'],
  notify: ['submit.ts', 'spool', 'spool/reports', 'accounts', 'mail/*', 'base/*'],
  'tls-report': ['submit.ts', 'deliver/mx', 'accounts', 'mail/*', 'base/*'],
  report: ['report/archive', 'submit.ts', 'policy', 'events', 'accounts', 'mail/*', 'base/*'],
  'report/archive': ['mail/*', 'base/*'],
  'ingress/smtp/record': ['mail/*', 'base/*'],
  'ingress/smtp': ['ingress/smtp/record', 'submit.ts', 'events', 'journal', 'accounts', 'mail/*', 'base/*'],
  'ingress/bounce': ['ingress/smtp', 'feedback', 'feedback/*', 'mail/*', 'base/*'],
  'ingress/rest': ['submit.ts', 'events', 'journal', 'accounts', 'mail/*', 'http/*', 'base/*'],
  admin: ['feedback', 'sign', 'accounts', 'mail/*', 'http/*', 'base/*'],
  'admin/webhooks': ['admin', 'webhooks', 'events', 'http/*', 'accounts', 'base/*'],
  'admin/events': ['admin', 'events', 'mail/*', 'http/*', 'accounts', 'base/*'],
  'admin/journal': [
    'admin/events',
    'admin',
    'report',
    'policy',
    'submit.ts',
    'events',
    'journal',
    'journal/reader',
    'mail/*',
    'http/*',
    'accounts',
    'base/*',
  ],
  'admin/queue': ['admin', 'admin/events', 'deliver', 'spool', 'mail/*', 'http/*', 'accounts', 'base/*'],
  'admin/console': [
    'admin',
    'admin/events',
    'admin/queue',
    'figures',
    'deliver',
    'spool',
    'mail/*',
    'http/*',
    'accounts',
    'base/*',
  ],
  config: [
    'webhooks',
    'events',
    'ingress/smtp',
    'ingress/bounce',
    'ingress/rest',
    'deliver',
    'deliver/hop',
    'deliver/mx',
    'deliver/smtp',
    'deliver/staging',
    'feedback',
    'journal',
    'edge/*',
    'proxy/*',
    'policy',
    'sign',
    'spool',
    'spool/reports',
    'tls-report',
    'accounts',
    'mail/*',
    'http/*',
    'base/*',
  ],
  'config.ts': ['config', 'base/*'],
  bootstrap: ['config.ts', 'config', 'sign', 'accounts', 'base/*'],
  'bootstrap.ts': ['bootstrap', 'config.ts', 'config', 'sign', 'accounts', 'base/*'],
  'wiring/metrics': ['*'],
  'wiring/engine': ['*'],
  'wiring/journal': ['wiring/engine', '*'],
  'wiring/console': ['*'],
  'wiring/live': ['*'],
  wiring: ['wiring/engine', 'wiring/journal', 'wiring/metrics', 'wiring/console', 'wiring/live', '*'],
  'gateway.ts': ['wiring/*', '*'],
  processes: ['gateway.ts', 'wiring/*', '*'],
  'cli/command': ['wiring', 'wiring/engine', 'config.ts', 'accounts', 'base/*'],
  'cli/queue': ['cli/command', 'wiring', 'wiring/engine', 'config.ts', 'deliver', 'spool/*', 'mail/*', 'base/*'],
  'cli/database': ['cli/command', 'wiring', 'config.ts', 'config', 'inspect', 'move', 'base/*'],
  'cli/capture': ['cli/command', 'config.ts', 'config', 'deliver', 'mail/*', 'base/*'],
  'cli/proxy': ['cli/command', 'config.ts', 'config', 'edge/*', 'proxy/*', 'base/*'],
  cli: ['cli/*', 'processes', 'gateway.ts', 'wiring/*', '*'],
  'console/files': ['http/page', 'base/*'],
  'console/web/text': [],
  'console/web/state': ['console/web/text'],
  // Of events the console has types alone: a kind without words does not compile.
  'console/web/parts': ['console/web/state', 'console/web/text', 'events'],
  'console/web/pages': ['console/web/pages/message', 'console/web/parts', 'console/web/state', 'console/web/text'],
  'console/web/pages/queue': ['console/web/parts', 'console/web/state', 'console/web/text'],
  'console/web/pages/message': ['console/web/parts', 'console/web/state', 'console/web/text'],
  'console/web': [
    'console/web/pages',
    'console/web/pages/message',
    'console/web/pages/queue',
    'console/web/parts',
    'console/web/state',
    'console/web/text',
  ],
  'main.ts': ['cli'],
};

function roomOf(file: string): string {
  const path = relative(root, file);
  return path.includes('/') ? dirname(path) : path;
}

function covers(entry: string, room: string): boolean {
  if (entry === '*')
    return (
      room !== 'main.ts' &&
      room !== 'gateway.ts' &&
      room !== 'processes' &&
      !['wiring', 'cli'].some((top) => room === top || room.startsWith(`${top}/`))
    );
  if (!entry.endsWith('/*')) return entry === room;
  const top = entry.slice(0, -2);
  return room === top || room.startsWith(`${top}/`);
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

/** The most files of one room: what a newcomer can hold. */
const mostFiles = 20;

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
      if (targetRoom === room || allowed.some((entry) => covers(entry, targetRoom))) continue;
      wrong.push(`${relative(root, file)} imports ${targetRoom}`);
    }
  }
  expect(wrong).toEqual([]);
});

test('the ranks have no circle', () => {
  const rooms = Object.keys(mayImport);
  const below = (room: string): readonly string[] =>
    rooms.filter((other) => other !== room && (mayImport[room] ?? []).some((entry) => covers(entry, other)));
  const reaches = (from: string, to: string, seen = new Set<string>()): boolean =>
    below(from).some((room) => {
      if (room === to) return true;
      if (seen.has(room)) return false;
      seen.add(room);
      return reaches(room, to, seen);
    });
  expect(rooms.filter((room) => reaches(room, room))).toEqual([]);
});

test('no room has more files than a newcomer can hold, and every room of the ranks exists', () => {
  const count = new Map<string, number>();
  for (const file of sourceFiles(root)) count.set(roomOf(file), (count.get(roomOf(file)) ?? 0) + 1);
  expect([...count].filter(([, files]) => files > mostFiles)).toEqual([]);
  expect(Object.keys(mayImport).filter((room) => !count.has(room))).toEqual([]);
});

// D49: it runs where there is no Node, and is installed without the gateway.
test('the client imports nothing but its own files, and nothing of the gateway imports the client', () => {
  const specifiers = (file: string) =>
    [...readFileSync(file, 'utf8').matchAll(/(?:\bfrom|\bimport)\s*\(?\s*'([^',]+)'/g)].map((match) => match[1] ?? '');
  const files = sourceFiles(client);
  expect(files.flatMap(specifiers).length).toBeGreaterThan(10);
  expect(files.flatMap(specifiers).filter((name) => !/^\.\/[a-z-]+\.ts$/.test(name))).toEqual([]);
  const users = sourceFiles(root).filter((file) =>
    specifiers(file).some((name) => /packages\/|postern-client/.test(name)),
  );
  expect(users.map((file) => relative(root, file))).toEqual([]);
});

test('docs/architecture.md has a sentence about every room', () => {
  const page = readFileSync(resolve(root, '../docs/architecture.md'), 'utf8');
  const rows = page.split('\n').filter((line) => line.startsWith('| `'));
  const told = new Set(
    rows.flatMap((row) => [...(row.split('|')[1] ?? '').matchAll(/`([^`]+)`/g)].map(([, name]) => name)),
  );
  expect(Object.keys(mayImport).filter((room) => !told.has(room))).toEqual([]);
});

test('connections are reset in one place, which knows when that is safe', () => {
  const resets = sourceFiles(root).filter((file) => /resetAndDestroy/.test(readFileSync(file, 'utf8')));
  expect(resets.map((file) => relative(root, file))).toEqual(['base/net/reset-connection.ts']);
});

test('one file imports smtp-server, and in its room no other names an underscore member', () => {
  const adapter = 'ingress/smtp/smtp-library.ts';
  const imports = /(?:\bfrom|\bimport)\s*\(?\s*'smtp-server(?:\/[^']*)?'/;
  const privateMember = /\._[a-z]|\['_[a-z]|\b(?:override|get|set) _[a-z]/i;
  const source = (file: string): string => readFileSync(file, 'utf8');
  const importers = sourceFiles(root).filter((file) => imports.test(source(file)));
  expect(importers.map((file) => relative(root, file))).toEqual([adapter]);
  const reaching = sourceFiles(join(root, 'ingress/smtp')).filter((file) => privateMember.test(source(file)));
  expect(reaching.map((file) => relative(root, file))).toEqual([adapter]);
});

test('properties have the seed of the run: one file of the tests imports fast-check', () => {
  const tests = join(root, '../test');
  const importers = sourceFiles(tests).filter((file) =>
    /(?:\bfrom|\bimport)\s*\(?\s*'fast-check'/.test(readFileSync(file, 'utf8')),
  );
  expect(importers.map((file) => relative(tests, file))).toEqual(['support/properties.ts']);
});

// A statement on the thread of all sessions makes every one of them wait for a lock, or for the disk.
test('SQLite is spoken to by the threads that own a file alone; everybody else asks a Database', () => {
  const speaks = /DatabaseSync|StatementSync|node:sqlite|database\/sqlite-file\.ts/;
  // A backup, a move and a look are a command's, in a process of its own that serves nobody.
  const owners = new Set([
    'base/database',
    'spool/search',
    'spool/journal',
    'spool/sqlite',
    'spool/sqlite/file',
    'spool/threads',
    'backup',
    'move',
    'inspect',
  ]);
  const speakers = sourceFiles(root).filter((file) => speaks.test(readFileSync(file, 'utf8')));
  const others = speakers.filter((file) => !owners.has(roomOf(file))).map((file) => relative(root, file));
  expect(others).toEqual([]);
});

test('pure rooms have no sockets, files or timers', () => {
  const impure =
    /from 'node:(net|tls|fs|fs\/promises|timers|timers\/promises|http|https|child_process|worker_threads|sqlite)'|\bsetTimeout\(|\bDate\.now\(/;
  const pure = new Set(['mail', 'policy', 'compose', 'sign']);
  const wrong = sourceFiles(root).filter(
    (file) => pure.has(roomOf(file).split('/')[0] ?? '') && impure.test(readFileSync(file, 'utf8')),
  );
  expect(wrong.map((file) => relative(root, file))).toEqual([]);
});

test('members that are private have names with #, which nothing outside of the class can reach', () => {
  const word = /^\s+private (?!constructor\b)/m;
  const wrong = sourceFiles(root).filter((file) => word.test(readFileSync(file, 'utf8')));
  expect(wrong.map((file) => relative(root, file))).toEqual([]);
});

// An array of a request's own length as the arguments of a call is an exhausted stack (RangeError) at some 120,000 of them.
test('no call takes an array apart as its arguments where requests or messages, and what is stored of them, are worked on', () => {
  const web = ['http', 'ingress/rest', 'admin', 'edge', 'proxy'];
  const mail = ['ingress/smtp', 'submit', 'mail', 'compose', 'sign', 'spool'];
  const rooms = [...web, ...mail].map((room) => join(root, room));
  const spread =
    /\.(?:push|unshift|splice|concat|min|max|apply|fromCharCode|fromCodePoint)\((?:[^(){}[\]]|\([^()]*\))*\.\.\./;
  expect(
    ['a.push(...b)', 'a.push(b,\n  ...c)', 'Math.max(0, ...b.map((c) => c))'].every((text) => spread.test(text)),
  ).toBe(true);
  const files = [...rooms, client].flatMap(sourceFiles);
  const offenders = files.filter((file) => spread.test(readFileSync(file, 'utf8')));
  expect(offenders.map((file) => relative(root, file))).toEqual([]);
});
