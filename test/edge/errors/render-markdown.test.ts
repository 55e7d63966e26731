// The Markdown body: front matter that every YAML reader takes for the values of the JSON body, and prose.

import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { allEdgeErrors, type EdgeOccurrence } from '../../../src/edge/errors/catalogue.ts';
import { renderJson, renderMarkdown, yamlString } from '../../../src/edge/errors/default-answer.ts';
import { hostileOccurrence, hostileTexts } from '../../support/edge-arbitraries.ts';
import { edgeOccurrence } from '../../support/edge-occurrence.ts';
import fc, { anyCharacter } from '../../support/properties.ts';

const versions = ['1.1', '1.2'] as const;
const notInFrontMatter = ['type', 'title', 'instance', 'footer', 'detail', 'what_you_should_do'];

/** Front matter and prose; throws where the body is not of the two. */
function split(markdown: string): { readonly frontMatter: string; readonly prose: string } {
  const match = /^---\n((?:(?!---).*\n)*)---\n\n([^]*)$/.exec(markdown);
  if (!match) throw new Error('no front matter');
  return { frontMatter: match[1] ?? '', prose: match[2] ?? '' };
}

function frontMatterMembers(occurrence: EdgeOccurrence): [string, unknown][] {
  const members = JSON.parse(renderJson(occurrence)) as Record<string, unknown>;
  return Object.entries(members).filter(([name]) => !notInFrontMatter.includes(name));
}

describe.each(allEdgeErrors)('$code', (error) => {
  const occurrence = edgeOccurrence(error.code);
  const { frontMatter, prose } = split(renderMarkdown(occurrence));

  test.each(versions)('its front matter has the values and types of the JSON body by YAML %s', (version) => {
    const read = parse(frontMatter, { version, strict: true }) as Record<string, unknown>;
    expect(Object.entries(read)).toEqual(frontMatterMembers(occurrence));
  });

  test('its prose has the parts of the specification in their order', () => {
    expect(prose).toBe(
      `# Error ${error.code}: ${error.shortName}\n\n## What Happened\n\n${error.detail}\n\n## What You Should Do\n\n${error.guidance}\n\n---\n\nPostern generated this response at the edge; it does not come from the origin server.\n`,
    );
  });
});

test('values that could be of another type are double-quoted, others are not', () => {
  const lines = (zone: string, rayId: string): string[] =>
    renderMarkdown(edgeOccurrence(522, { zone, rayId }))
      .split('\n')
      .filter((line) => /^(?:zone|ray_id|timestamp|error_name):/.test(line));
  expect(lines('www.example.com', '8f3c1a9be2d4706f')).toEqual([
    'error_name: connection_timeout',
    'ray_id: 8f3c1a9be2d4706f',
    'timestamp: "2026-01-15T09:30:00.250Z"',
    'zone: www.example.com',
  ]);
  expect(lines('192.0.2.1', '1234567890123456').slice(1)).toEqual([
    'ray_id: "1234567890123456"',
    'timestamp: "2026-01-15T09:30:00.250Z"',
    'zone: "192.0.2.1"',
  ]);
  expect(lines('no', '12345678901234e5')).toContain('ray_id: "12345678901234e5"');
  expect(lines('no', '0b10101010101010')).toContain('ray_id: "0b10101010101010"');
  expect(lines('no', '0')).toContain('zone: "no"');
  expect(lines('[::1]', '0')).toContain('zone: "[::1]"');
});

test('text of another error stays text: an error of a name with markup', () => {
  const error = { ...edgeOccurrence(522).error, shortName: 'a *b* <c> [d](e) `f`', detail: '# g_h | i' };
  const { prose } = split(renderMarkdown(edgeOccurrence(522, { error })));
  expect(prose).toContain('# Error 522: a \\*b\\* \\<c\\> \\[d\\](e) \\`f\\`\n');
  expect(prose).toContain('\n\\# g\\_h \\| i\n');
});

describe.each(hostileTexts.map((text) => ({ text })))('the string $text', ({ text }) => {
  test.each(versions)('is that string by YAML %s', (version) => {
    expect(parse(`value: ${yamlString(text)}\n`, { version, strict: true })).toEqual({ value: text.toWellFormed() });
  });
});

test('a string stays on one line of printable ASCII', () => {
  fc.assert(
    fc.property(fc.string({ unit: anyCharacter }), (text) => {
      expect(yamlString(text)).toMatch(/^[ -~]+$/);
    }),
  );
});

test.each(versions)('hostile front matter is read back by YAML %s', (version) => {
  fc.assert(
    fc.property(hostileOccurrence, (occurrence) => {
      const markdown = renderMarkdown(occurrence);
      const read = parse(split(markdown).frontMatter, { version, strict: true }) as Record<string, unknown>;
      expect(Object.entries(read)).toEqual(frontMatterMembers(occurrence));
      // Nothing from outside reaches the prose.
      expect(split(markdown).prose).toBe(split(renderMarkdown(edgeOccurrence(occurrence.error.code))).prose);
    }),
    { numRuns: 300 },
  );
});
