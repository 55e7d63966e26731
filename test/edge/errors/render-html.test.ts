// The HTML page: what it shows, and that nothing from outside becomes markup. The page in a browser: test/system.

import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { allEdgeErrors, type EdgeOccurrence } from '../../../src/edge/errors/catalogue.ts';
import { errorPageSecurityPolicy, renderHtml } from '../../../src/edge/errors/default-answer.ts';
import { escapeForeignText, escapeHtml } from '../../../src/web/http/page/html-page.ts';
import { hostileOccurrence } from '../../support/edge-arbitraries.ts';
import { edgeOccurrence } from '../../support/edge-occurrence.ts';
import fc, { anyCharacter } from '../../support/properties.ts';

const tag = /<[^<>]*>/g;
const named: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'" };

/** Text as a browser would read it; every `&` must begin one of the five references. */
function unescape(html: string): string {
  return html.replace(/&([^;]{0,5};?)/g, (whole, reference: string) => {
    const character = named[reference.slice(0, -1)];
    if (character === undefined) throw new Error(`"${whole}" is no reference`);
    return character;
  });
}

/** The tags of a page with what differs between occurrences taken out. */
function tagsOf(html: string): string[] {
  return (html.match(tag) ?? []).map((found) => found.replace(/ (?:href|datetime)="[^"]*"/, ''));
}

/** Text of the first element that begins with `opening`. */
function textAfter(html: string, opening: string): string {
  const from = html.indexOf(opening) + opening.length;
  return unescape(html.slice(from, html.indexOf('<', from)));
}

describe.each(allEdgeErrors)('$code', (error) => {
  const html = renderHtml(edgeOccurrence(error.code));
  const shown = unescape(html.slice(html.indexOf('<body>')).replace(tag, ''));

  test('shows what happened, what to do, and what to quote', () => {
    for (const part of [
      `Error ${error.code}: ${error.shortName}`,
      error.detail,
      error.guidance,
      'www.example.com',
      '8f3c1a9be2d4706f',
      '2026-01-15 09:30:00 UTC',
    ]) {
      expect(shown).toContain(part);
    }
    expect(textAfter(html, '<title>')).toBe(`Error ${error.code}: ${error.shortName}`);
    expect(html).toContain(`href="https://docs.example.net/gateway/errors/${error.code}"`);
  });

  test('tells when to try again exactly where that helps', () => {
    expect(shown.includes('Try again in ')).toBe(error.retryAfterSeconds !== undefined);
  });

  test('is one small document without a script, a form or anything from elsewhere', () => {
    expect(Buffer.byteLength(html)).toBeLessThan(6000);
    expect(html).toMatch(/^<!doctype html>\n<html lang="en">/);
    expect(html.match(/<h1>/g)).toHaveLength(1);
    expect(html).not.toMatch(/<(?:script|img|iframe|object|embed|form|base|svg)|\ssrc=|\son[a-z]+=|url\(|@import/i);
    expect([...html.matchAll(/<link [^>]*>/g)].map(([link]) => link)).toEqual(['<link rel="icon" href="data:,">']);
  });

  test('opens and closes every element in order', () => {
    const open: string[] = [];
    for (const [, closes, name = ''] of html.matchAll(/<(\/?)([a-z][a-z0-9]*)[^>]*>/g)) {
      if (['meta', 'link'].includes(name)) continue;
      if (closes === '/') expect(open.pop()).toBe(name);
      else open.push(name);
    }
    expect(open).toEqual([]);
  });
});

test('the policy admits the style of the page, by its hash, and nothing else', () => {
  const css = /<style>([^]*)<\/style>/.exec(renderHtml(edgeOccurrence(522)))?.[1] ?? '';
  const hash = createHash('sha256').update(css).digest('base64');
  expect(errorPageSecurityPolicy).toBe(
    `default-src 'none'; style-src 'sha256-${hash}'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  );
});

test.each([
  [1, '1 second', '09:30:01'],
  [59, '59 seconds', '09:30:59'],
  [60, '1 minute', '09:31:00'],
  [61, '61 seconds', '09:31:01'],
  [120, '2 minutes', '09:32:00'],
  [52_200, '870 minutes', '00:00:00'],
])('a wait of %i s is "%s"', (retryAfterSeconds, words, from) => {
  const html = renderHtml(edgeOccurrence(1015, { retryAfterSeconds }));
  expect(html).toContain(`<strong>Try again in ${words}</strong>, at <time`);
  expect(html).toContain(`${from} UTC</time> or later.`);
});

test.each([
  ['a"b', 'a&quot;b'],
  ["a'b", 'a&#39;b'],
  ['<b>&amp;', '&lt;b&gt;&amp;amp;'],
  ['\u202Emoc', '\\u{202e}moc'],
  ['a\u2066b\u2069', 'a\\u{2066}b\\u{2069}'],
  ['\0\t\n\u007F\u0085', '\\u{0}\\u{9}\\u{a}\\u{7f}\\u{85}'],
  ['\u2028\u2029\u200B\uFEFF\u00AD', '\\u{2028}\\u{2029}\\u{200b}\\u{feff}\\u{ad}'],
  ['\uD800', '\\u{d800}'],
  ['\u{E0041}', '\\u{e0041}'],
  ['m\u00FCnchen', 'm\u00FCnchen'],
])('%j from outside is shown as %s', (text, shown) => {
  expect(escapeForeignText(text)).toBe(shown);
});

test.each([
  [252, 252],
  [253, 253],
  [254, 254],
  [100_000, 254],
])('a Host of %i characters is shown in %i', (length, shown) => {
  const text = escapeForeignText('a'.repeat(length));
  expect(text.length).toBe(shown);
  expect(text.endsWith('…')).toBe(length > 253);
});

test('a Host of nothing but what grows most still gives a small page', () => {
  const html = renderHtml(edgeOccurrence(522, { zone: '\u202E'.repeat(100_000) }));
  expect(Buffer.byteLength(html)).toBeLessThan(6000);
});

test('nothing from outside changes the structure of the page', () => {
  fc.assert(
    fc.property(hostileOccurrence, (occurrence) => {
      const benign: EdgeOccurrence = { ...edgeOccurrence(occurrence.error.code), error: occurrence.error };
      const page = renderHtml(occurrence);
      const head = page.indexOf('<body>');
      expect(page.slice(0, head)).toBe(renderHtml(benign).slice(0, head));
      const html = page.slice(head);
      expect(tagsOf(html)).toEqual(tagsOf(renderHtml(benign).slice(head)));
      expect(html.replace(tag, '')).not.toMatch(/[<>]/);
      expect(html.slice(0, html.indexOf('<footer>'))).not.toMatch(
        /[\u202A-\u202E\u2066-\u2069\u200B-\u200F\0-\u0008\u000B-\u001F\u007F-\u009F]/,
      );
      const cut = occurrence.zone.length > 253 ? `${occurrence.zone.slice(0, 253)}…` : occurrence.zone;
      expect(textAfter(html, '<bdi>')).toBe(
        cut.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (part) => `\\u{${(part.codePointAt(0) ?? 0).toString(16)}}`),
      );
      const href = / href="([^"]*)" rel="noreferrer"/.exec(html)?.[1] ?? '';
      expect(unescape(href)).toBe(`${occurrence.docsBaseUrl}/errors/${occurrence.error.code}`);
    }),
    { numRuns: 500 },
  );
});

test('without an address for its pages it has no link', () => {
  expect(renderHtml(edgeOccurrence(522))).toContain('<a ');
  const page = renderHtml(edgeOccurrence(522, { docsBaseUrl: undefined }));
  expect(page).not.toMatch(/<a |undefined/);
  expect(page).toMatch(/origin server\.<\/p>\n<\/footer>/);
});

test('escaping is undone by reading', () => {
  fc.assert(
    fc.property(fc.string({ unit: anyCharacter }), (text) => {
      expect(escapeHtml(text)).not.toMatch(/[<>"']/);
      expect(unescape(escapeHtml(text))).toBe(text);
    }),
  );
});
