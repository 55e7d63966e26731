// What is told of each header is true: the good examples pass and the bad ones are refused, the cures are settings that cure, who
// sends it is what docs/mailers.md says, and docs/headers.md tells the same.

import { readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect, test } from 'vitest';
import { check } from '../src/pipeline/policy/check.ts';
import { headerCatalogue } from '../src/pipeline/policy/header-catalogue.ts';
import { guideOf, otherNames, senderNotes } from '../src/pipeline/policy/header-guide.ts';
import { renderHeadersPage } from './support/headers-page.ts';
import { context, restSubmission, smtpSubmission } from './support/policy-fixtures.ts';

const names = [...Object.values(headerCatalogue).map(({ name }) => name), ...otherNames];

/** Whether an example is refused, and for the header that it is about: everything else of the message passes. */
function isRefused(example: string): boolean {
  const member = /^"headers": (.*)$/.exec(example)?.[1];
  if (member !== undefined) {
    const headers = Object.entries(JSON.parse(member) as Record<string, string>);
    return !check(restSubmission(headers), context).ok;
  }
  const from = /^From:/m.test(example) ? '' : 'From: app@example.com\r\n';
  return !check(smtpSubmission(Buffer.from(`${from}${example.replaceAll('\n', '\r\n')}\r\n\r\nHi\r\n`)), context).ok;
}

test.each(names)('%s: good examples pass and bad ones are refused', (name) => {
  const guide = guideOf(name);
  if (!guide) throw new Error(`Nothing is told of ${name}`);
  expect(guide.name).toBe(name);
  expect(guide.good.filter(isRefused)).toEqual([]);
  expect(guide.bad.length).toBeGreaterThan(0);
  expect(guide.bad.filter((example) => !isRefused(example))).toEqual([]);
  expect([guide.rule, ...guide.cure].filter((text) => !/^\S.*\.$/.test(text))).toEqual([]);
});

test('names are found in any case, others are told of too, and what no header can be named is not', () => {
  expect(guideOf('list-unsubscribe')?.name).toBe('List-Unsubscribe');
  expect(guideOf('user-agent')).toMatchObject({
    name: 'User-Agent',
    senders: [expect.stringMatching(/^s-nail/), expect.anything(), expect.anything()],
  });
  expect(guideOf('x-cron-env')).toMatchObject({
    name: 'X-Cron-Env',
    senders: [expect.stringMatching(/^cron/), expect.anything()],
  });
  expect(guideOf('X-Anything')).toMatchObject({ name: 'X-Anything', reference: { text: 'non-standard' } });
  expect(guideOf('ARC-Seal')?.rule).toMatch(/^The platform alone writes it/);
  expect(guideOf('Foo')).toMatchObject({ name: 'Foo', bad: ['Foo: 4711'], good: ['X-Foo: 4711'] });
  for (const name of ['', 'a b', 'a:b', '<script>', 'b\u00fc', 'n'.repeat(101), 'X-a.b'])
    expect(guideOf(name)).toBeUndefined();
});

test('who sends a header is what docs/mailers.md says', () => {
  const mailers = readFileSync(resolve(import.meta.dirname, '../docs/mailers.md'), 'utf8');
  const rows = mailers.split('\n').filter((line) => line.startsWith('| '));
  for (const { names: of, who, mailer, credential } of senderNotes) {
    const told = rows.filter((row) => {
      const [, first = '', ...cells] = row.split('|').map((cell) => cell.trim());
      return (
        of.every((name) => first.includes(name)) && cells.slice(0, 3).join('|') === [who, mailer, credential].join('|')
      );
    });
    expect([of, told.length]).toEqual([of, 1]);
  }
});

test('docs/headers.md is what the pages tell', () => {
  const file = resolve(import.meta.dirname, '../docs/headers.md');
  const wanted = renderHeadersPage();
  if (process.env['UPDATE_DOCS'] === '1') writeFileSync(file, wanted);
  const command = 'UPDATE_DOCS=1 npx vitest run --project unit test/header-guide.test.ts';
  expect(readFileSync(file, 'utf8') === wanted, `docs/headers.md is out of date; write it anew with: ${command}`).toBe(
    true,
  );
});
