// Every name that a source file exports has an importer, so that nothing stays because nobody dares to delete it.

import { readdirSync, readFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { expect, test } from 'vitest';

const root = resolve(import.meta.dirname, '..');

/** What the text of a file brings in and gives out. */
interface Module {
  readonly path: string;
  /** Without comments. */
  readonly code: string;
  readonly exported: readonly string[];
  readonly types: ReadonlySet<string>;
  /** Names marked `@public`: for whoever is outside of src. */
  readonly isPublic: ReadonlySet<string>;
  /** By the path of the file they come from; `*` where any of its names may be meant. */
  readonly imported: readonly { readonly from: string; readonly name: string }[];
  /** Paths of the files of which it gives out every name. */
  readonly passedOn: readonly string[];
}

const declaration =
  /^export (?:declare )?(?:abstract )?(?:async )?(?:function\*?|const|let|class|interface|type) ([A-Za-z_$][\w$]*)/gm;
const typeDeclaration = /^export (?:declare )?(?:interface|type) (\w+)/gm;
const classDeclaration = /^export (?:abstract )?class (\w+)/gm;
const publicDeclaration = new RegExp(String.raw`@public\b(?:(?!\*/)[^])*\*/\n${declaration.source.slice(1)}`, 'gm');
const list = /^(import|export) (?:type )?\{([^}]*)\}(?: from '(\.{1,2}\/[^']+)')?/gm;
const namespace = /^import \* as (\w+) from '(\.{1,2}\/[^']+)'/gm;
const passedOn = /^export (?:type )?\* from '(\.{1,2}\/[^']+)'/gm;
const called = /\bimport\('(\.{1,2}\/[^']+)'\)/g;

/** The names in the braces of an import or export: as they are there, and as they are called here. */
function namesIn(braces: string): { readonly there: string; readonly here: string }[] {
  return braces
    .split(',')
    .map((part) => part.trim().replace(/^type /, ''))
    .filter((part) => part !== '')
    .map((part) => {
      const [there = '', here = there] = part.split(' as ');
      return { there, here };
    });
}

/** Reads a module, as `biome` formats it: an import or export of a module begins its line. */
function readModule(path: string, text: string): Module {
  const code = text.replace(/\/\*[^]*?\*\//g, '').replace(/(^|[ \t])\/\/.*$/gm, '');
  const exported = [...code.matchAll(declaration)].map(([, name = '']) => name);
  const imported: { from: string; name: string }[] = [];
  const place = (specifier: string): string => resolve(path, '..', specifier);
  for (const [, kind, braces = '', specifier] of code.matchAll(list)) {
    for (const { there, here } of namesIn(braces)) {
      if (kind === 'export') exported.push(here);
      if (specifier !== undefined) imported.push({ from: place(specifier), name: there });
    }
  }
  for (const [, name = '', specifier = ''] of code.matchAll(namespace)) {
    for (const [, member = ''] of code.matchAll(new RegExp(String.raw`\b${name}\.([\w$]+)`, 'g'))) {
      imported.push({ from: place(specifier), name: member });
    }
  }
  for (const [, specifier = ''] of code.matchAll(called)) imported.push({ from: place(specifier), name: '*' });
  const isPublic = new Set([...text.matchAll(publicDeclaration)].map(([, name = '']) => name));
  const types = new Set([...code.matchAll(typeDeclaration)].map(([, name = '']) => name));
  const onward = [...code.matchAll(passedOn)].map(([, specifier = '']) => place(specifier));
  return { path, code, exported, types, isPublic, imported, passedOn: onward };
}

function modulesIn(folder: string): Module[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !name.includes('node_modules'))
    .map((name) => join(root, folder, name))
    .map((path) => readModule(path, readFileSync(path, 'utf8')));
}

/** Whether a name stands in a text as a name of its own. */
function stands(name: string, text: string): boolean {
  return new RegExp(String.raw`(?<![\w$.])${name.replaceAll('$', String.raw`\$`)}(?![\w$])`).test(text);
}

/** Where a module's own code has a name besides declaring it: in something that it exports, or anywhere. */
function usedWithin({ code }: Module, name: string): 'exported' | 'inside' | undefined {
  const parts = code.split(/\n(?=[a-z])/);
  const others = parts.filter((part) => !new RegExp(String.raw`^export [^({=:]*\b${name}\b`).test(part));
  const users = others.filter((part) => stands(name, part));
  if (users.length === 0) return undefined;
  return users.some((part) => part.startsWith('export ')) ? 'exported' : 'inside';
}

/** Tells who imports, be it through a file that gives out every name of another. */
function importersOf(modules: readonly Module[], source: readonly Module[]): (path: string, name: string) => boolean {
  const asked = new Set(modules.flatMap(({ imported }) => imported.map(({ from, name }) => `${from} ${name}`)));
  const isAsked = (path: string, name: string): boolean =>
    asked.has(`${path} ${name}`) ||
    asked.has(`${path} *`) ||
    source.some((module) => module.passedOn.includes(path) && isAsked(module.path, name));
  return isAsked;
}

/** Whose names are the packages' own exports. */
const doors = ['src/main.ts', 'packages/binding/src/index.ts'];

/**
 * The exports of the sources that are for nobody. A name needs an importer among the other source files, with two exceptions.
 * A type may stand in something else that its file exports: it is what its readers see of that. A name that only tests
 * and benches import must be used within its own file, such as a limit that a test wants to reach, or its docstring says
 * `@public` and for whom: otherwise a test would keep code that nothing else needs.
 */
function deadExports(source: readonly Module[], outside: readonly Module[]): string[] {
  const bySource = importersOf(source, source);
  const byOutside = importersOf(outside, source);
  const isFor = (module: Module, name: string): boolean => {
    if (bySource(module.path, name) || module.isPublic.has(name)) return true;
    const use = usedWithin(module, name);
    return byOutside(module.path, name) ? use !== undefined : use === 'exported' && module.types.has(name);
  };
  return source
    .filter(({ path }) => !doors.includes(relative(root, path)))
    .flatMap((module) => {
      const dead = module.exported.filter((name) => !isFor(module, name));
      return dead.map((name) => `${relative(root, module.path)}: ${name}`);
    });
}

test('every exported name is imported by another file', () => {
  const outside = ['test', 'bench', 'packages/policy/src'].flatMap(modulesIn);
  const dead = deadExports(['src', 'packages/binding/src'].flatMap(modulesIn), outside);
  expect(dead).toEqual([]);
});

test('a name that nobody imports, or only a test, is found', () => {
  const at = (name: string): string => join(root, 'src', name);
  const source = [
    readModule(
      at('a.ts'),
      [
        "import { used } from './b.ts';",
        "import * as all from './b.ts';",
        "export { type Passed as On } from './b.ts';",
        "export * from './c.ts';",
        'all.member();',
      ].join('\n'),
    ),
    readModule(
      at('b.ts'),
      [
        'export const used = 1;',
        'export function member() {}',
        'export interface Passed {}',
        '// dead',
        'export type dead = 1;',
        'export interface Told {}',
        'export const teller = (): Told => ({});',
        'export async function* tested() {}',
        'export const limit = 1;',
        'if (used < limit) teller();',
        '/** Hands it on. @public for tests. */',
        'export class Kept {}',
      ].join('\n'),
    ),
  ];
  source.push(readModule(at('c.ts'), 'export const through = 1;\nexport const alone = through;'));
  const outside = [
    readModule(join(root, 'test/a.test.ts'), "import { through } from '../src/a.ts';"),
    readModule(join(root, 'test/b.test.ts'), "import { Kept, limit, teller, tested } from '../src/b.ts';"),
  ];
  expect(deadExports(source, outside)).toEqual([
    'src/a.ts: On',
    'src/b.ts: dead',
    'src/b.ts: tested',
    'src/c.ts: alone',
  ]);
});

// The console in the browser is a program of its own: its types are those of the JSON that it reads.
test.each([
  ['the gateway', false],
  ['the console in the browser', true],
])('in %s the name of an exported type means one thing', (_, isBrowser) => {
  const places = new Map<string, string[]>();
  const modules = modulesIn('src').filter(({ path }) => path.includes('/src/web/console/web/') === isBrowser);
  expect(modules.length).toBeGreaterThan(10);
  for (const { path, code, types } of modules) {
    const classes = [...code.matchAll(classDeclaration)].map(([, name = '']) => name);
    for (const name of [...types, ...classes]) places.set(name, [...(places.get(name) ?? []), relative(root, path)]);
  }
  const shared = [...places].filter(([, files]) => files.length > 1);
  expect(shared).toEqual([]);
});
