// A reader finds the way through the documents: links lead somewhere, long pages begin with a table of contents, every page
// can be reached from the README, what they name is there, and every configuration that they show can be loaded.

import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { loadConfig } from '../src/app/config/config.ts';
import { toldKinds } from '../src/spool/events/mail-event.ts';
import { fencedBlocks, headings, linkTargets, markdownPages, readPage } from './support/markdown.ts';
import { scratchFolder } from './support/scratch.ts';

const root = join(import.meta.dirname, '..');
const pages = markdownPages();

/** From this many lines on a page needs a table of contents. */
const longPage = 150;

/** What a link leads to: a path from the root of the project, and the anchor. */
function resolved(page: string, target: string): { readonly path: string; readonly anchor: string } {
  const [path = '', anchor = ''] = target.split('#');
  return { path: path === '' ? page : posix.join(posix.dirname(page), path), anchor };
}

const isElsewhere = (target: string): boolean => /^[a-z]+:/.test(target);

function linksWithin(page: string) {
  return linkTargets(readPage(page))
    .filter((target) => !isElsewhere(target))
    .map((target) => ({ target, ...resolved(page, target) }));
}

test('there are pages to look at', () => {
  expect(pages).toEqual(expect.arrayContaining(['README.md', 'docs/operations.md', 'docs/adr/README.md']));
});

test.each(pages)('%s: every link inside the project leads somewhere', (page) => {
  const broken = linksWithin(page).filter(({ path, anchor }) => {
    if (!existsSync(join(root, path))) return true;
    if (anchor === '') return false;
    return !path.endsWith('.md') || headings(readPage(path)).every((heading) => heading.anchor !== anchor);
  });
  expect(broken.map(({ target }) => target)).toEqual([]);
});

test.each(pages.filter((page) => page.startsWith('docs/') && !page.startsWith('docs/adr/')))(
  '%s says at its top for whom it is',
  (page) => {
    const [, opening = ''] = readPage(page).split('\n\n', 2);
    expect(opening).toMatch(/\bfor\s+whoever\b/);
  },
);

test('docs/webhooks.md has a row for each kind of event that a webhook is told of', () => {
  const rows = [...readPage('docs/webhooks.md').matchAll(/^\| ((?:`\w+`(?:, )?)+) \|/gm)];
  const named = rows.flatMap(([, cell = '']) => [...cell.matchAll(/`(\w+)`/g)].map(([, kind]) => kind));
  expect(named).toEqual(expect.arrayContaining([...toldKinds]));
});

test('a row of the decisions is short enough to be read: what else belongs to it stands below its table', () => {
  const rows = readPage('docs/decisions.md')
    .split('\n')
    .filter((line) => line.startsWith('| D'));
  expect(rows.length).toBeGreaterThan(50);
  expect(rows.filter((row) => row.length > 600).map((row) => row.slice(0, 40))).toEqual([]);
});

/** The links of the list that stands before the first section, or under a section called "Contents". */
function contentsOf(page: string): readonly string[] {
  const [opening = ''] = readPage(page).split(/^## (?!Contents$)/m);
  return linkTargets(opening).filter((target) => target.startsWith('#'));
}

// The changelog is read from its top, and its sections are the versions.
const long = pages.filter((page) => readPage(page).split('\n').length > longPage && page !== 'CHANGELOG.md');

test.each(long)('%s is long: its table of contents names every section, in order', (page) => {
  const sections = headings(readPage(page)).filter(({ level, text }) => level === 2 && text !== 'Contents');
  const named = new Set(contentsOf(page));
  expect(sections.map(({ anchor }) => `#${anchor}`).filter((anchor) => !named.has(anchor))).toEqual([]);
  const order = [...named].filter((anchor) => sections.some((section) => `#${section.anchor}` === anchor));
  expect(order).toEqual(sections.map(({ anchor }) => `#${anchor}`));
});

test.each(pages)('%s: every row of a table has as many cells as its head', (page) => {
  // A bar inside a cell is written with a backslash, also in code.
  const cells = (line: string): number => line.replaceAll('\\|', '').split('|').length;
  const ragged = [...readPage(page).matchAll(/^\|.*\|\n\|[-:| ]+\|\n(?:\|.*\n)+/gm)].flatMap(([table]) => {
    const [head = '', ...rows] = table.trimEnd().split('\n');
    return rows.filter((row) => cells(row) !== cells(head));
  });
  expect(ragged).toEqual([]);
});

test('every page can be reached from the README', () => {
  const reached = new Set(['README.md']);
  for (const page of reached) {
    for (const { path } of linksWithin(page)) if (path.endsWith('.md') && pages.includes(path)) reached.add(path);
  }
  expect(pages.filter((page) => !reached.has(page))).toEqual([]);
});

const scripts = Object.keys(
  (JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { readonly scripts: object }).scripts,
);

test.each(pages)('%s: npm scripts and files that it names are there', (page) => {
  const text = readPage(page);
  const run = [...text.matchAll(/\bnpm run (?:-s )?([a-z:]+)/g)].map(([, script = '']) => script);
  expect(run.filter((script) => !scripts.includes(script))).toEqual([]);
  // `src/mail`, `test/golden/edge/<code>.json`, `certs/...`: a path in backticks that begins with a folder of the project.
  const named = [...text.matchAll(/`((?:src|test|bench|docs|config|deploy|packages|\.ci)\/[^`\s]*)`/g)]
    .map(([, path = '']) => path)
    .filter((path) => !/[<{*]/.test(path) && !path.endsWith('/dist'));
  expect(named.filter((path) => !existsSync(join(root, path)))).toEqual([]);
});

type Tree = Readonly<Record<string, unknown>>;
const isTree = (value: unknown): value is Tree => typeof value === 'object' && value !== null && !Array.isArray(value);

/** The shipped configuration with what a page shows: entries of a list that have a name are completed, or come before. */
function merged(shipped: unknown, shown: unknown): unknown {
  if (isTree(shipped) && isTree(shown)) {
    const keys = Object.entries(shown).map(([key, value]) => [key, merged(shipped[key], value)]);
    return { ...shipped, ...Object.fromEntries(keys) };
  }
  if (!Array.isArray(shipped) || !Array.isArray(shown) || !shown.every((entry) => isTree(entry) && 'name' in entry))
    return shown;
  const entries: readonly Tree[] = shipped.filter(isTree);
  const same = (one: Tree) => (other: Tree) => one['name'] === other['name'];
  const named = shown.filter(isTree);
  const left = entries.filter((entry) => !named.some(same(entry)));
  return [...named.map((entry) => merged(entries.find(same(entry)), entry)), ...left];
}

const examples = pages.flatMap((page) =>
  fencedBlocks(readPage(page))
    .filter(({ language }) => language === 'yaml')
    .map(({ line, text }) => ({ where: `${page}:${line}`, text })),
);

test('there are configurations to load', () => {
  expect(examples.length).toBeGreaterThan(8);
});

test.each(examples)('the configuration at $where loads', ({ text }) => {
  const shipped: unknown = parse(readFileSync(join(root, 'config/postern.yaml'), 'utf8'));
  const cwd = scratchFolder();
  writeFileSync(join(cwd, 'postern.yaml'), stringify(merged(shipped, parse(text))));
  // A day on which every `until` of the pages lies ahead, and not too far.
  const clock = { now: () => Date.parse('2026-11-22T12:00:00Z') };
  expect(() => loadConfig({ file: 'postern.yaml', env: {}, cwd, clock })).not.toThrow();
});

const answers = pages.flatMap((page) =>
  fencedBlocks(readPage(page))
    .filter(({ language }) => language === 'json')
    .map(({ line, text }) => ({ where: `${page}:${line}`, text })),
);

test.each(answers)('the JSON at $where is JSON, whole or line by line', ({ text }) => {
  const lines = text.startsWith('{"') ? text.trim().split('\n') : [text];
  for (const line of lines) expect(JSON.parse(line)).toEqual(expect.any(Object));
});
