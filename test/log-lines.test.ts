// Every line that the program logs stands in the table of docs/watching.md, so that whoever greps for one finds what it means.

import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { expect, test } from 'vitest';
import { kindNames } from '../src/spool/events/mail-event.ts';

const root = join(import.meta.dirname, '../src');

/** What a call of a log gives as its text where that is no literal, and the texts that it may be. */
const spoken: Readonly<Record<string, readonly string[]>> = {
  'event.kind': kindNames.filter((kind) => kind !== 'refused' && kind !== 'webhook_disabled'),
  'refusedTexts[event.stage]': ['sender refused', 'recipient refused', 'refused'],
  // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the text of a source
  '`${what} ${done}`': ['the Custom Error Rules', 'the Error Page'].flatMap((what) => [
    `${what} put`,
    `${what} taken back`,
  ]),
  'act.said': ['webhook changed', 'webhook removed'],
  // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the text of a source
  '`proxy application ${done}`': ['created', 'changed', 'removed'].map((done) => `proxy application ${done}`),
  "kind === 'connect' ? 'proxy connection opened' : 'proxy connection refused'": [
    'proxy connection opened',
    'proxy connection refused',
  ],
  // Warnings, as `postern config check` tells them.
  line: [],
  // What the tender of PostgreSQL's spool cannot do for now.
  words: ['events cannot be filed for now', 'partitions could not be changed', 'the spool cannot tidy up for now'],
  // What `logErrors` was given, whose calls are looked at too.
  what: [],
};

/** The arguments of a call whose opening parenthesis ends at `start`, as they are written. */
function argumentsAt(source: string, start: number): string[] {
  const found: string[] = [];
  let depth = 0;
  let quote = '';
  let from = start;
  for (let at = start; at < source.length; at += 1) {
    const character = source[at] ?? '';
    if (quote !== '') {
      if (character === '\\') at += 1;
      else if (character === quote) quote = '';
    } else if (character === "'" || character === '`' || character === '"') quote = character;
    else if ('([{'.includes(character)) depth += 1;
    else if (')]}'.includes(character) && depth > 0) depth -= 1;
    else if (character === ',' || character === ')') {
      if (depth > 0) continue;
      found.push(source.slice(from, at).trim());
      from = at + 1;
      if (character === ')') return found.filter((text) => text !== '');
    }
  }
  throw new Error(`A call without an end: ${source.slice(start, start + 200)}`);
}

/** The texts of a source's log lines; a text that is made in an unknown way is given as it is written. */
function textsOf(source: string): string[] {
  return [
    ...source.matchAll(/\b(?:trace|debug|info|warn|error|fatal|(?<!function )logErrors)\(|\blog\[.*?\]\(/g),
  ].flatMap((call) => {
    if (!call[0].startsWith('log') && !/(?:\b|#)log\.$/.test(source.slice(Math.max(0, call.index - 20), call.index)))
      return [];
    const text = argumentsAt(source, call.index + call[0].length).at(-1) ?? '';
    const literal = /^'([^']*)'$/.exec(text)?.[1];
    return literal === undefined ? (spoken[text] ?? [text]) : [literal];
  });
}

const logged = readdirSync(root, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts'))
  .map((name) => join(root, name))
  .flatMap((file) =>
    textsOf(readFileSync(file, 'utf8').replaceAll(/^\s*(?:\/\/|\/?\*).*$/gm, '')).map((text) => ({
      file: relative(root, file),
      text,
    })),
  );

const section = /^## Logs\n([^]*?)^## /m.exec(readFileSync(join(root, '../docs/watching.md'), 'utf8'))?.[1] ?? '';
const rows = [...section.matchAll(/^\| (.+?) \| (?:debug|info|warn|error|fatal)(?:, (?:info|warn|error))* \|/gm)].map(
  ([, texts = '']) => texts,
);

/** Whether a row tells of a text: rows hold several, between commas, and a text may have a comma of its own. */
function tells(row: string, text: string): boolean {
  return `, ${row}, `.includes(`, ${text}, `);
}

test('every log line is in the table of docs/watching.md', () => {
  expect(logged.length).toBeGreaterThan(80);
  const missing = logged.filter(({ text }) => !rows.some((row) => tells(row, text)));
  expect(missing.map(({ file, text }) => `${file}: ${text}`)).toEqual([]);
});

test('the table has no line that is logged no more', () => {
  expect(rows.length).toBeGreaterThan(40);
  const texts = [...new Set(logged.map(({ text }) => text))].toSorted((one, other) => other.length - one.length);
  const left = rows.map((row) =>
    texts.reduce(
      (rest, text) => (tells(rest, text) ? `, ${rest}, `.replace(`, ${text}, `, ', ').slice(2, -2) : rest),
      row,
    ),
  );
  expect(left.filter((rest) => rest.replaceAll(/[, ]/g, '') !== '')).toEqual([]);
});
