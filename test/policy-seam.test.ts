// What the policy package has in place of Node and of the gateway's libraries gives what those give.

import { isAscii, isUtf8 } from 'node:buffer';
import { readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { domainToASCII } from 'node:url';
import iconv from 'iconv-lite';
import ipaddr from 'ipaddr.js';
import { expect, test } from 'vitest';
import charsets from '../packages/policy/src/seam/charsets.ts';
import addresses from '../packages/policy/src/seam/ip-address.ts';
import { Octets } from '../packages/policy/src/seam/octets.ts';
import * as platform from '../packages/policy/src/seam/platform.ts';
import { compileSchema } from '../packages/policy/src/seam/schema-judge.ts';
import { compileSchema as compileReal, type SchemaError } from '../src/base/schema-judge.ts';
import { SendRawRequest, SendRequest } from '../src/doors/rest/schemas.ts';
import { schemaFaults } from '../src/web/http/schema-faults.ts';
import { charsetDefinitions, renderCharsetData } from './support/charset-data.ts';
import fc, { anyCharacter } from './support/properties.ts';

const text = fc.string({
  unit: fc.oneof(anyCharacter, fc.constantFrom('a', '\r\n', '\ud800', '\udc00', '=', '\u00e9')),
});
const octets = fc.uint8Array({ maxLength: 300 });

test('octets: text and back, searching, counting', () => {
  const property = fc.property(text, octets, (given, bytes) => {
    const real = Buffer.from(bytes);
    const ours = Octets.from(bytes);
    for (const encoding of ['utf8', 'latin1', 'base64'] as const) {
      // Base64 with other characters than those of an octet is read by no rule that Node's documents tell.
      const taken = encoding === 'base64' ? given.replace(/[^\x00-\xff]/g, '+') : given;
      expect([...Octets.from(taken, encoding)]).toEqual([...Buffer.from(taken, encoding)]);
      expect(ours.toString(encoding)).toBe(real.toString(encoding));
      expect(ours.toString(encoding, 3, 9)).toBe(real.toString(encoding, 3, 9));
    }
    expect(ours.toString('ucs2')).toBe(real.toString('ucs2'));
    expect(Octets.byteLength(given)).toBe(Buffer.byteLength(given));
    expect([platform.isAscii(ours), platform.isUtf8(ours)]).toEqual([isAscii(real), isUtf8(real)]);
    const part = bytes.subarray(2, 5);
    expect([ours.indexOf(part, 1), ours.indexOf(0), ours.includes('\r\n')]).toEqual([
      real.indexOf(part, 1),
      real.indexOf(0),
      real.includes('\r\n'),
    ]);
  });
  fc.assert(property, { numRuns: 2000 });
});

const labels = fc.stringMatching(/^[a-z0-9\u00e4\u00df\u65e5\u0430.\-_\u3002\u200d]{1,20}$/u);

test('names as A-labels, and addresses of IP', () => {
  fc.assert(
    fc.property(labels, (name) => {
      expect([name, platform.domainToASCII(name)]).toEqual([name, domainToASCII(name)]);
    }),
    { numRuns: 2000 },
  );
  const group = fc.constantFrom('0', '1', 'db8', '2001', 'FFFF', '', '00ab', '12345', '1.2.3.4', 'g', '%eth0');
  const address = fc.array(group, { maxLength: 9 }).map((groups) => groups.join(':'));
  fc.assert(
    fc.property(address, (given) => {
      expect(addresses.IPv6.isValid(given)).toBe(ipaddr.IPv6.isValid(given));
      if (ipaddr.IPv6.isValid(given) && !given.includes('%'))
        expect(addresses.IPv6.parse(given).toString()).toBe(ipaddr.IPv6.parse(given).toString());
    }),
    { numRuns: 5000, examples: [['::'], ['::1'], ['::ffff:1.2.3.4'], ['2001:db8::1'], ['1::2::3'], ['fe80::1%eth0']] },
  );
  for (const given of ['1.2.3.4', '1.2.3.256', '01.2.3.4', '1.2.3', '0.0.0.0', '255.255.255.255', '1.2.3.4.'])
    expect([given, addresses.IPv4.isValidFourPartDecimal(given)]).toEqual([
      given,
      ipaddr.IPv4.isValidFourPartDecimal(given),
    ]);
});

test('the tables of charsets are those of iconv-lite', () => {
  const file = resolve(import.meta.dirname, '../packages/policy/src/seam/charset-data.ts');
  const wanted = renderCharsetData();
  if (process.env['UPDATE_DOCS'] === '1') writeFileSync(file, wanted);
  expect(readFileSync(file, 'utf8') === wanted, 'write it anew with UPDATE_DOCS=1').toBe(true);
});

/** Charsets of several octets, which the platform reads; and cesu8, of which iconv-lite reads wrong octets in a way of its own. */
const platforms = new Set(['shiftjis', 'eucjp', 'cp936', 'gbk', 'gb18030', 'cp949', 'cp950', 'big5hkscs', 'cesu8']);
const definitions = charsetDefinitions();

function last(name: string): string {
  let at = name;
  for (let next = definitions[at]; typeof next === 'string'; next = definitions[at]) at = next;
  return at;
}

const names = Object.keys(definitions).filter(
  (name) => /^[a-z0-9]+$/.test(name) && !['hex', 'base64', 'binary'].includes(name),
);

test('every charset that iconv-lite reads is read, and all but those of several octets to the letter', () => {
  expect(names.length).toBeGreaterThan(400);
  expect(names.filter((name) => !(name in charsets.encodings))).toEqual([]);
  const exact = names.filter((name) => last(name) === name && !platforms.has(name));
  const special = fc.oneof(
    octets,
    fc.stringMatching(/^[A-Za-z0-9+&,/\- ]{0,40}$/).map((given) => Uint8Array.from(Buffer.from(given, 'latin1'))),
    fc.string({ maxLength: 20 }).map((given) => Uint8Array.from(Buffer.from(given, 'ucs2'))),
    fc.string({ maxLength: 20 }).map((given) => Uint8Array.from(Buffer.from(given, 'ucs2').swap16())),
  );
  const all = Buffer.from([...Array(256).keys()]);
  for (const name of exact) expect([name, charsets.decode(all, name)]).toEqual([name, iconv.decode(all, name)]);
  const forms = exact.filter((name) => /^(?:utf|ucs|cesu)/.test(name));
  fc.assert(
    fc.property(fc.constantFrom(...forms), special, (name, bytes) => {
      expect([name, charsets.decode(bytes, name)]).toEqual([name, iconv.decode(Buffer.from(bytes), name)]);
    }),
    { numRuns: 5000 },
  );
});

test.each([...platforms])('%s: text that is well-formed is read the same', (name) => {
  for (const given of ['\u65e5\u672c\u8a9e', '\u4e2d\u6587', '\ud55c\uad6d\uc5b4', 'abc, =?"<>@ 123', '\uac00, \u0430'])
    if (iconv.decode(iconv.encode(given, name), name) === given)
      expect(charsets.decode(iconv.encode(given, name), name)).toBe(given);
});

const json = fc.jsonValue();
const member = (name: string) =>
  fc.oneof(
    { weight: 2, arbitrary: fc.constant([]) },
    json.map((value) => [[name, value]]),
  );
const request = fc
  .tuple(
    ...['from', 'to', 'cc', 'subject', 'text', 'attachments', 'headers', 'more', 'recipients', 'mime_message'].map(
      member,
    ),
  )
  .map((pairs) => Object.fromEntries(pairs.flat() as [string, unknown][]) as unknown);

test.each([
  ['send', SendRequest],
  ['send_raw', SendRawRequest],
])('the schema of %s finds the same faults in the same words', (_, schema) => {
  const [ours, real] = [compileSchema(schema), compileReal(schema)];
  const told = (errors: SchemaError[]) => schemaFaults(errors, 'body');
  const examples = [
    [null],
    [
      {
        from: ['a', 'b'],
        to: [5],
        subject: 'x',
        attachments: [5, {}, { content: 5, filename: 'a'.repeat(256), z: 1 }],
      },
    ],
    [{ from: {}, headers: ['a'], attachments: [{ content: '', disposition: 'x' }] }],
  ] as [unknown][];
  fc.assert(
    fc.property(fc.oneof(request, json), (value) => {
      expect(told(ours.errors(value))).toEqual(told(real.errors(value)));
      expect(ours.fits(value)).toBe(real.fits(value));
    }),
    { numRuns: 2000, examples },
  );
});
