// OpenDKIM from Debian, an implementation that shares nothing with ours, accepts each golden message that is accepted,
// and rejects them once altered. (That of Debian 12 knows Ed25519 too; RFC 8463.)

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { buildGolden, makeGoldenKeys, readGoldenCase } from '../support/golden-gateway.ts';
import { type OpenDkim, openDkim } from '../support/opendkim.ts';
import { projectRoot } from '../support/postern-process.ts';
import { requirePrograms } from './programs.ts';

const folder = join(projectRoot, 'test/golden');
const names = readdirSync(folder)
  .filter((name) => /^[6-9]\d-.*\.eml$/.test(name) && !name.endsWith('.sent.eml'))
  .sort();
const keys = makeGoldenKeys();
let verifier: OpenDkim | undefined;

beforeAll(() => {
  requirePrograms('opendkim');
  verifier = openDkim(keys.records);
});
afterAll(() => verifier?.remove());

async function golden(name: string): Promise<string> {
  const sent = await buildGolden(
    readFileSync(join(folder, name)),
    keys,
    readGoldenCase(folder, name.replace(/\.eml$/, '')),
  );
  if (!Buffer.isBuffer(sent)) throw new Error(`refused: ${JSON.stringify(sent)}`);
  return sent.toString('latin1');
}

async function verify(message: string) {
  const verdict = await verifier?.verify(Buffer.from(message, 'latin1'));
  return verdict ?? { signatures: [], summary: 'no verifier' };
}

const succeeded = 'verification (s=p1, d=platform.example, 2048-bit key) succeeded';
const signatures = ['platform.example rsa-sha256 p1', 'example.com rsa-sha256 s1', 'example.com ed25519-sha256 e1'];

test('there are golden messages', () => {
  expect(names.length).toBeGreaterThan(20);
});

test.each(names)('%s is accepted', async (name) => {
  expect(await verify(await golden(name))).toEqual({
    signatures: signatures.map((signature) => `pass ${signature}`),
    summary: succeeded,
  });
});

const alterations: readonly (readonly [what: string, name: string, alter: (message: string) => string])[] = [
  ['another subject', '60-plain.eml', (message) => message.replace('\r\nSubject: ', '\r\nSubject: x')],
  ['another From', '60-plain.eml', (message) => message.replace('\r\nFrom: ', '\r\nFrom: x')],
  ['a second From', '60-plain.eml', (message) => message.replace('\r\nFrom: ', '\r\nFrom: x@evil.test\r\nFrom: ')],
  ['a Reply-To put in', '60-plain.eml', (message) => `Reply-To: x@evil.test\r\n${message}`],
  ['another word in the body', '60-plain.eml', (message) => message.replace(/\S+\s*$/, 'other\r\n')],
  [
    'List-Unsubscribe taken out',
    '83-list-unsubscribe-non-ascii.eml',
    (message) => message.replace(/\r\nList-Unsubscribe:[^\r]*(?:\r\n[ \t][^\r]*)*/, ''),
  ],
  [
    'a second List-Unsubscribe',
    '83-list-unsubscribe-non-ascii.eml',
    (message) =>
      message.replace('\r\nList-Unsubscribe: ', '\r\nList-Unsubscribe: <https://evil.test>\r\nList-Unsubscribe: '),
  ],
  ['a List-Unsubscribe put in', '60-plain.eml', (message) => `List-Unsubscribe: <https://evil.test>\r\n${message}`],
  [
    'a List-Unsubscribe-Post put in',
    '83-list-unsubscribe-non-ascii.eml',
    (message) => `List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n${message}`,
  ],
];

test.each(alterations)('%s: rejected', async (_, name, alter) => {
  const message = await golden(name);
  const altered = alter(message);
  expect(altered).not.toBe(message);
  const verdict = await verify(altered);
  expect(verdict.signatures).toEqual(signatures.map((signature) => `fail ${signature}`));
  expect(verdict.summary).toMatch(/^verification \(s=p1 d=platform\.example, 2048-bit key, .*\) failed: /);
});
