// The pages of headers as a gateway serves them: each complete, safe, and linked.

import { afterAll, beforeAll, expect, test } from 'vitest';
import { headerCatalogue } from '../../src/pipeline/policy/header-catalogue.ts';
import { otherNames } from '../../src/pipeline/policy/header-guide.ts';
import { type PosternHere, startHere } from '../support/postern-here.ts';

let postern: PosternHere;
let origin: string;
beforeAll(async () => {
  postern = await startHere();
  origin = `http://127.0.0.1:${postern.ports['http']}`;
});
afterAll(async () => await postern?.cleanUp());

test('the index leads to a page of each header, and each tells rule and cure without a script', async () => {
  const index = await (await fetch(`${origin}/headers`)).text();
  const links = [...index.matchAll(/href="(headers\/[^"]+)"/g)].map(([, path = '']) => path);
  const names = [...Object.values(headerCatalogue).map(({ name }) => name), ...otherNames];
  expect(links.map((path) => decodeURIComponent(path.slice(8)))).toEqual(names);
  for (const path of links) {
    const answer = await fetch(`${origin}/${path}`);
    const text = await answer.text();
    expect([path, answer.status, answer.headers.get('content-type')]).toEqual([path, 200, 'text/html; charset=utf-8']);
    expect(answer.headers.get('content-security-policy')).toMatch(/^default-src 'none'; style-src 'sha256-/);
    expect(text).toMatch(/<h2>Rule<\/h2>[^]*<h2>Refused<\/h2>[^]*<h2>Cure<\/h2>/);
    expect(text).not.toContain('<script');
  }
});

test('a name is found in any case, any X- name has a page, and a name that no header can have is not found', async () => {
  const page = async (name: string) => {
    const answer = await fetch(`${origin}/headers/${name}`);
    return { status: answer.status, text: await answer.text(), etag: answer.headers.get('etag') };
  };
  const { text, etag } = await page('list-unsubscribe');
  expect(text).toContain('<h1>List-Unsubscribe</h1>');
  expect(text).toContain('&lt;https://example.com/leave?id=4711&gt;');
  expect(text).toContain('nodemailer');
  expect(text).toContain('https://www.rfc-editor.org/rfc/rfc2369');
  const again = await fetch(`${origin}/headers/List-Unsubscribe`, { headers: { 'If-None-Match': etag ?? '' } });
  expect(again.status).toBe(304);
  expect((await page('X-Shop-Order')).text).toContain('<h1>X-Shop-Order</h1>');
  expect((await page('No-Such')).text).toContain('No-Such is on no list');
  for (const name of ['%3Cb%3E', 'a%20b', 'n'.repeat(101), 'X-a.b']) expect((await page(name)).status).toBe(404);
  expect((await fetch(`${origin}/headers`, { method: 'POST' })).status).toBe(405);
});
