// Where a domain wants its reports (RFC 8460 §3), also where the record means harm.

import { expect, test } from 'vitest';
import { destinationsOf } from '../../../src/delivery/tls-report/reporter.ts';

function places(...texts: readonly string[]): readonly string[] {
  return destinationsOf(texts).map((one) => (one.kind === 'mailto' ? one.address : one.url.href));
}

test('the examples of RFC 8460 §3.1 are read', () => {
  expect(places('v=TLSRPTv1;rua=mailto:reports@example.com')).toEqual(['reports@example.com']);
  expect(places('v=TLSRPTv1; rua=https://reporting.example.com/v1/tlsrpt')).toEqual([
    'https://reporting.example.com/v1/tlsrpt',
  ]);
});

test('several places, extensions and spaces are read', () => {
  expect(places('v=TLSRPTv1 ; x=y; rua=mailto:a@x.test , https://x.test/r ;')).toEqual([
    'a@x.test',
    'https://x.test/r',
  ]);
  expect(places('v=spf1 -all', 'v=TLSRPTv1; rua=mailto:a%2Bb@b%C3%BCcher.test')).toEqual(['a+b@xn--bcher-kva.test']);
});

test.each([
  ['no record', []],
  ['another record', ['v=spf1 -all']],
  ['two records', ['v=TLSRPTv1; rua=mailto:a@x.test', 'v=TLSRPTv1; rua=mailto:b@x.test']],
  ['a later version', ['v=TLSRPTv12; rua=mailto:a@x.test']],
  ['the version in other letters', ['V=tlsrptv1; rua=mailto:a@x.test']],
  ['no rua', ['v=TLSRPTv1; ruf=mailto:a@x.test']],
  ['two rua', ['v=TLSRPTv1; rua=mailto:a@x.test; rua=mailto:b@x.test']],
  ['a part that is no field', ['v=TLSRPTv1; rua=mailto:a@x.test; !']],
  ['a program', ['v=TLSRPTv1; rua=javascript:alert(1)']],
  ['a file', ['v=TLSRPTv1; rua=file:///etc/passwd']],
  ['HTTP in the clear', ['v=TLSRPTv1; rua=http://x.test/']],
  ['a password', ['v=TLSRPTv1; rua=https://u:p@x.test/']],
  ['a host that is none', ['v=TLSRPTv1; rua=https://[::/']],
  ['several recipients', ['v=TLSRPTv1; rua=mailto:a@x.test%2Cb@x.test']],
  ['a line end in an address', ['v=TLSRPTv1; rua=mailto:a%0D%0ABcc:b@x.test']],
  ['an address literal', ['v=TLSRPTv1; rua=mailto:a@[127.0.0.1]']],
  ['escapes that are none', ['v=TLSRPTv1; rua=mailto:%zz@x.test']],
  ['a record that was cut', [`v=TLSRPTv1; rua=mailto:a@x.test,mailto:${'b'.repeat(1000)}`]],
])('%s asks for no report', (_, texts) => {
  expect(places(...texts)).toEqual([]);
});

test('of many places a few are used, each once, and fields that a mailto URI adds to the header are left out', () => {
  const many = Array.from({ length: 40 }, (_, at) => `mailto:a${at}@x.test`).join(',');
  expect(places(`v=TLSRPTv1; rua=mailto:a0@x.test,${many}`)).toHaveLength(5);
  expect(places('v=TLSRPTv1; rua=mailto:a@x.test?subject=hello&bcc=b@x.test')).toEqual(['a@x.test']);
});
