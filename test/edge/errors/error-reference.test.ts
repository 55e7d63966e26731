// The reference pages, their index, and the part of docs/errors.md: each of every code, all from the catalogue.

import { describe, expect, test } from 'vitest';
import { allEdgeErrors } from '../../../src/edge/errors/catalogue.ts';
import { renderJson } from '../../../src/edge/errors/default-answer.ts';
import { errorReferenceIndex, errorReferencePage } from '../../../src/edge/errors/error-reference.ts';
import { edgeOccurrence } from '../../support/edge-occurrence.ts';
import { chosenCodes, renderEdgeErrors } from '../../support/errors-sections.ts';

function textOf(html: string): string {
  return html.slice(html.indexOf('<body>')).replace(/<[^<>]*>/g, '');
}

describe.each(allEdgeErrors)('$code', (error) => {
  const page = errorReferencePage(error.code);
  const html = page?.body.toString() ?? '';

  test('has a page that tells everything of it', () => {
    expect(page?.status).toBe(200);
    const shown = textOf(html);
    for (const part of [
      `Error ${error.code}: ${error.shortName}`,
      error.detail,
      error.guidance,
      error.ownerGuidance,
      `HTTP status${error.status}`,
      `Name${error.name}`,
      `Category${error.category}`,
      error.retryAfterSeconds === undefined ? 'RetryNo' : `RetryYes, after ${error.retryAfterSeconds} seconds`,
      `Who has to act${error.ownerAction ? 'The operator of the site' : 'The '}`,
    ]) {
      expect(shown).toContain(part);
    }
  });

  test('its page is where `type` points', () => {
    const docsBaseUrl = 'https://docs.example.net/gateway';
    const { type } = JSON.parse(renderJson(edgeOccurrence(error.code, { docsBaseUrl }))) as { readonly type: string };
    const href = / href="(errors\/[^"]*)">/g;
    const links = [...errorReferenceIndex().body.toString().matchAll(href)].map(
      ([, link = '']) => new URL(link, `${docsBaseUrl}/errors`).href,
    );
    expect(links.filter((link) => link === type)).toEqual([type]);
    const back = / href="(\.\.\/[^"]*)"/.exec(html)?.[1] ?? '';
    expect(new URL(back, type).href).toBe(`${docsBaseUrl}/errors`);
  });

  test('stands once in the first column of docs/errors.md, marked where its class is chosen', () => {
    const cells = renderEdgeErrors()
      .split('\n')
      .map((line) => /^\| (\d+(?: \*)?) \|/.exec(line)?.[1])
      .filter((cell) => cell !== undefined && Number.parseInt(cell, 10) === error.code);
    const isChosen = chosenCodes[error.category]?.includes(error.code) === true;
    expect(cells).toEqual([isChosen ? `${error.code} *` : String(error.code)]);
  });
});

test.each([0, 200, 404, 501, 999, 1021, 12_005])('%i has no page', (code) => {
  expect(errorReferencePage(code)).toBeUndefined();
});

test('pages and index may be cached, run nothing and load nothing', () => {
  for (const page of [errorReferenceIndex(), errorReferencePage(522)]) {
    expect(page?.headers).toMatchObject({
      'Content-Type': 'text/html; charset=utf-8',
      'Cache-Control': 'public, max-age=3600',
      'X-Content-Type-Options': 'nosniff',
    });
    expect(page?.headers['Content-Security-Policy']).toMatch(
      /^default-src 'none'; style-src 'sha256-[^']+'; img-src data:;/,
    );
    expect(page?.body.toString()).not.toMatch(/<(?:script|img|iframe|form)|\ssrc=|\son[a-z]+=|url\(|@import/i);
  }
});
