// Golden messages: test/golden/NN-name.eml leaves exactly as NN-name.sent.eml (b= values aside), and another
// implementation accepts every signature. A .case.json beside it names the credential and the reverse-path.
// UPDATE_GOLDEN=1 writes the .sent.eml anew: read the difference.

import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type HeaderRow, headerCatalogue } from '../src/pipeline/policy/header-catalogue.ts';
import { verifySignatures } from './support/dkim-verifier.ts';
import { buildGolden, makeGoldenKeys, readGoldenCase, withoutSignatureValues } from './support/golden-gateway.ts';

const folder = join(import.meta.dirname, 'golden');
const names = readdirSync(folder)
  .filter((name) => /^[6-9]\d-.*\.eml$/.test(name) && !name.endsWith('.sent.eml'))
  .map((name) => name.replace(/\.eml$/, ''))
  .sort();
const keys = makeGoldenKeys();

test('there are golden messages', () => {
  expect(names.length).toBeGreaterThan(20);
});

test.each(names)('%s', async (name) => {
  const sent = await buildGolden(readFileSync(join(folder, `${name}.eml`)), keys, readGoldenCase(folder, name));
  if (!Buffer.isBuffer(sent)) throw new Error(`refused: ${JSON.stringify(sent)}`);
  const sentFile = join(folder, `${name}.sent.eml`);
  const text = withoutSignatureValues(sent);
  if (process.env['UPDATE_GOLDEN']) writeFileSync(sentFile, text, 'latin1');
  expect(text, 'the golden file; UPDATE_GOLDEN=1 writes it anew').toBe(readFileSync(sentFile, 'latin1'));
  const verdicts = await verifySignatures(sent, keys.records);
  expect(verdicts.map(({ domain, algorithm, result }) => [domain, algorithm, result])).toEqual([
    ['platform.example', 'rsa-sha256', 'pass'],
    ['example.com', 'rsa-sha256', 'pass'],
    ['example.com', 'ed25519-sha256', 'pass'],
  ]);
});

test.each(names)('%s is 7-bit, has no bare CR or LF and no line over 998 octets', async (name) => {
  const sent = await buildGolden(readFileSync(join(folder, `${name}.eml`)), keys, readGoldenCase(folder, name));
  const text = Buffer.isBuffer(sent) ? sent.toString('latin1') : '';
  expect(text).toMatch(/^[\r\n\t\x20-\x7e]+$/);
  expect(text.replaceAll('\r\n', '')).not.toMatch(/[\r\n]/);
  expect(Math.max(...text.split('\r\n').map((line) => line.length))).toBeLessThanOrEqual(998);
});

/** Fields that someone may set and that have structure; those whose values are all ASCII words need no case. */
const structured = Object.values<HeaderRow>(headerCatalogue).filter(
  ({ syntax, value, overSmtp, name }) =>
    syntax !== 'text' &&
    (overSmtp === 'custom' || overSmtp === 'lifted' || overSmtp === 'mime') &&
    (value.kind === 'free' ||
      value.kind === 'unsubscribe-uris' ||
      (value.kind === 'one-of' && value.comments === true)) &&
    name !== 'Bcc',
);

test.each(structured.map(({ name }) => name))('%s outside ASCII has a golden message', (name) => {
  const field = new RegExp(`^${name}:.*[\\x80-\\xff]`, 'm');
  expect(names.filter((file) => field.test(readFileSync(join(folder, `${file}.eml`), 'latin1')))).not.toEqual([]);
});
