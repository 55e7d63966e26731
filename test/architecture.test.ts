// The import ranks of the house: who may import whom, read from the imports themselves.

import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { expect, test } from 'vitest';

const root = resolve(import.meta.dirname, '../src');
/** The client, a package of its own. */
const client = resolve(import.meta.dirname, '../packages/binding/src');

/** A room, and what it may import: its own folders one way, of other rooms what is named. */
interface Room {
  /** Rooms below it; `web/http` stands for that folder of a room and the folders within it. */
  readonly imports: readonly string[];
  /** Its folders, the lowest first: each may import those before it. `.` is the room itself; one without folders has none. */
  readonly inside?: readonly string[];
  /** Folders that may import less of other rooms than the room may, with what is left to them. */
  readonly narrower?: Readonly<Record<string, readonly string[]>>;
}

/** The rooms: the folders right under src/, the lowest first. */
const rooms: Readonly<Record<string, Room>> = {
  base: { imports: [], inside: ['.', 'load', 'schema', 'fault', 'postgres', 'database', 'dns', 'net'] },
  mail: { imports: ['base'], inside: ['header', 'address', '.', 'mime'] },
  accounts: { imports: ['mail', 'base'] },
  spool: {
    imports: ['mail', 'base'],
    inside: [
      ...['journal', 'events', 'reports', '.', 'core', 'journal/store', 'journal/reader', 'postgres/server'],
      ...['journal/writer', 'search', 'sqlite/file', 'sqlite', 'postgres/events', 'postgres'],
      ...['figures', 'backup', 'inspect', 'move'],
    ],
    narrower: { core: ['base'], figures: ['base'], backup: ['base'], inspect: ['base'], move: ['base'] },
  },
  pipeline: {
    imports: ['spool', 'accounts', 'mail', 'base'],
    inside: ['policy', 'compose', 'sign', '.', 'report/archive', 'report'],
    narrower: {
      policy: ['accounts', 'mail', 'base'],
      compose: ['mail', 'base'],
      sign: ['mail', 'base'],
      'report/archive': ['mail', 'base'],
    },
  },
  delivery: {
    imports: ['pipeline', 'spool', 'accounts', 'mail', 'base'],
    inside: [
      ...['hop', 'smtp', 'mx', 'staging', '.', 'feedback/classify', 'feedback/report', 'feedback'],
      ...['notify', 'webhooks', 'tls-report'],
    ],
    narrower: {
      hop: ['mail', 'base'],
      smtp: ['mail', 'base'],
      mx: ['mail', 'base'],
      staging: ['mail', 'base'],
      'feedback/report': ['mail', 'base'],
      webhooks: ['spool/events', 'base'],
    },
  },
  web: {
    imports: ['delivery', 'pipeline', 'spool', 'accounts', 'mail', 'base'],
    inside: [
      ...['http/json', 'http/listener', 'http/page', 'http/reference', 'http'],
      ...['headers', 'admin', 'admin/events', 'admin/queue', 'admin/console', 'admin/journal', 'admin/webhooks'],
      ...['console/files', 'console', 'console/web/text', 'console/web/state', 'console/web/parts'],
      ...['console/web/pages/message', 'console/web/pages', 'console/web'],
    ],
    narrower: {
      http: ['accounts', 'base'],
      'http/json': ['base'],
      'http/listener': ['base'],
      'http/page': ['base'],
      headers: ['pipeline', 'base'],
      console: ['accounts', 'base'],
      // A browser has none of the rooms. Of events the console has types alone: a kind without words does not compile.
      'console/web/text': ['spool/events'],
      'console/web/state': [],
      'console/web/parts': ['spool/events'],
      'console/web/pages/message': [],
      'console/web/pages': [],
      'console/web': [],
    },
  },
  doors: {
    imports: ['web/http', 'delivery/feedback', 'pipeline', 'spool', 'accounts', 'mail', 'base'],
    inside: ['smtp/record', 'smtp', 'bounce', 'rest'],
    narrower: {
      smtp: ['pipeline', 'spool/events', 'spool/journal', 'accounts', 'mail', 'base'],
      bounce: ['delivery/feedback', 'mail', 'base'],
      rest: ['web/http', 'pipeline', 'spool/events', 'spool/journal', 'accounts', 'mail', 'base'],
    },
  },
  // Neither sees mail.
  edge: { imports: ['web/http', 'base'], inside: ['errors', 'zone', 'custom', 'origin', '.', 'export'] },
  proxy: {
    imports: ['web/http', 'base'],
    inside: ['application', 'store', 'rules', 'origins', 'traffic', 'plane', 'api', '.', 'export'],
  },
  app: {
    imports: ['proxy', 'edge', 'doors', 'web', 'delivery', 'pipeline', 'spool', 'accounts', 'mail', 'base'],
    inside: [
      ...['config', 'bootstrap', 'wiring/metrics', 'wiring/engine', 'wiring/journal', 'wiring/console', 'wiring/live'],
      ...['wiring', '.', 'processes'],
    ],
  },
  cli: {
    imports: ['app', 'proxy', 'edge', 'doors', 'web', 'delivery', 'pipeline', 'spool', 'accounts', 'mail', 'base'],
    inside: ['command', 'queue', 'database', 'capture', 'proxy', '.'],
  },
};

/** What fits a head. */
const mostRooms = 12;

/** The room of a file, and its folder within the room. Files right under src/ are in no room. */
function placeOf(file: string): { readonly room: string; readonly folder: string } {
  const [room = '', ...folder] = relative(root, dirname(file)).split('/');
  return { room, folder: folder.join('/') || '.' };
}

/** The folder of a file, from src/ on. */
function folderOf(file: string): string {
  return relative(root, dirname(file));
}

function isWithin(folder: string, entry: string): boolean {
  return folder === entry || folder.startsWith(`${entry}/`);
}

/** Says what is wrong with an import; undefined: nothing. */
function faultOf(file: string, target: string): string | undefined {
  const [from, to] = [placeOf(file), placeOf(target)];
  const room = rooms[from.room];
  const said = `${relative(root, file)} imports ${folderOf(target) || relative(root, target)}`;
  if (!room) return `${relative(root, file)} is in no room`;
  const inside = room.inside ?? ['.'];
  const place = inside.indexOf(from.folder);
  if (place === -1) return `${relative(root, file)}: its folder has no rank in ${from.room}`;
  if (from.room === to.room) return inside.indexOf(to.folder) <= place ? undefined : said;
  const entries = room.narrower?.[from.folder] ?? room.imports;
  return entries.some((entry) => isWithin(folderOf(target), entry)) ? undefined : said;
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
  const files = sourceFiles(root).filter((file) => folderOf(file) !== '');
  expect(files.length).toBeGreaterThan(10);
  const wrong = files.flatMap((file) =>
    importsOf(file)
      // The version stands in package.json.
      .filter((target) => target !== resolve(root, '../package.json'))
      .map((target) => faultOf(file, target))
      .filter((fault) => fault !== undefined),
  );
  expect(wrong).toEqual([]);
});

test('main.ts imports commands alone', () => {
  expect(importsOf(join(root, 'main.ts')).filter((target) => !isWithin(folderOf(target), 'cli'))).toEqual([]);
});

test('rooms are few, they import downwards, and every folder has its rank', () => {
  const names = Object.keys(rooms);
  expect(names.length).toBeLessThanOrEqual(mostRooms);
  const upwards = names.flatMap((name, at) =>
    (rooms[name]?.imports ?? []).filter((entry) => !names.slice(0, at).includes(entry.split('/')[0] ?? '')),
  );
  expect(upwards).toEqual([]);
  const folders = new Set(sourceFiles(root).map(folderOf));
  folders.delete('');
  const ranked = names.flatMap((name) =>
    (rooms[name]?.inside ?? ['.']).map((folder) => (folder === '.' ? name : `${name}/${folder}`)),
  );
  expect([...folders].filter((folder) => !ranked.includes(folder))).toEqual([]);
  expect(ranked.filter((folder) => !folders.has(folder))).toEqual([]);
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
  const folders = new Set(sourceFiles(root).map(folderOf));
  folders.delete('');
  expect([...folders, ...Object.keys(rooms)].filter((folder) => !told.has(folder))).toEqual([]);
});

test('connections are reset in one place, which knows when that is safe', () => {
  const resets = sourceFiles(root).filter((file) => /resetAndDestroy/.test(readFileSync(file, 'utf8')));
  expect(resets.map((file) => relative(root, file))).toEqual(['base/net/reset-connection.ts']);
});

test('one file imports smtp-server, and in its room no other names an underscore member', () => {
  const adapter = 'doors/smtp/smtp-library.ts';
  const imports = /(?:\bfrom|\bimport)\s*\(?\s*'smtp-server(?:\/[^']*)?'/;
  const privateMember = /\._[a-z]|\['_[a-z]|\b(?:override|get|set) _[a-z]/i;
  const source = (file: string): string => readFileSync(file, 'utf8');
  const importers = sourceFiles(root).filter((file) => imports.test(source(file)));
  expect(importers.map((file) => relative(root, file))).toEqual([adapter]);
  const reaching = sourceFiles(join(root, 'doors/smtp')).filter((file) => privateMember.test(source(file)));
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
    'spool/journal/writer',
    'spool/sqlite',
    'spool/sqlite/file',
    'spool/backup',
    'spool/move',
    'spool/inspect',
  ]);
  const speakers = sourceFiles(root).filter((file) => speaks.test(readFileSync(file, 'utf8')));
  const others = speakers.filter((file) => !owners.has(folderOf(file))).map((file) => relative(root, file));
  expect(others).toEqual([]);
});

test('pure rooms have no sockets, files or timers', () => {
  const impure =
    /from 'node:(net|tls|fs|fs\/promises|timers|timers\/promises|http|https|child_process|worker_threads|sqlite)'|\bsetTimeout\(|\bDate\.now\(/;
  const pure = ['mail', 'pipeline/policy', 'pipeline/compose', 'pipeline/sign'];
  const wrong = sourceFiles(root).filter(
    (file) => pure.some((folder) => isWithin(folderOf(file), folder)) && impure.test(readFileSync(file, 'utf8')),
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
  const web = ['web/http', 'doors/rest', 'web/admin', 'edge', 'proxy'];
  const mail = ['doors/smtp', 'pipeline', 'mail', 'spool'];
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
