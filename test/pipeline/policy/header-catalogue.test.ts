// The catalogue against the specification's tables, written out here by hand.

import { expect, test } from 'vitest';
import { findHeader, type HeaderRow, headerCatalogue } from '../../../src/pipeline/policy/header-catalogue.ts';

const platform = [
  'Date',
  'Message-ID',
  'MIME-Version',
  'Content-Type',
  'Content-Transfer-Encoding',
  'DKIM-Signature',
  'Return-Path',
  'Received',
  'Feedback-ID',
  'ARC-*',
  'TLS-Required',
  'TLS-Report-Domain',
  'TLS-Report-Submitter',
  'CFBL-Address',
  'CFBL-Feedback-ID',
];

const firstClass = ['From', 'To', 'Cc', 'Bcc', 'Subject', 'Reply-To'];

const mime = ['Content-Disposition', 'Content-ID', 'Content-Description', 'Content-Location'];

/** Name, group, standard. */
const allowlist: readonly (readonly [string, string, string])[] = [
  ['In-Reply-To', 'Threading', 'RFC 5322'],
  ['References', 'Threading', 'RFC 5322'],
  ['Thread-Index', 'Threading', 'non-standard'],
  ['Thread-Topic', 'Threading', 'non-standard'],
  ['List-Unsubscribe', 'List', 'RFC 2369'],
  ['List-Unsubscribe-Post', 'List', 'RFC 8058'],
  ['List-Id', 'List', 'RFC 2919'],
  ['List-Archive', 'List', 'RFC 2369'],
  ['List-Help', 'List', 'RFC 2369'],
  ['List-Owner', 'List', 'RFC 2369'],
  ['List-Post', 'List', 'RFC 2369'],
  ['List-Subscribe', 'List', 'RFC 2369'],
  ['Precedence', 'List', 'de facto'],
  ['Auto-Submitted', 'Automated', 'RFC 3834'],
  ['Content-Language', 'Content', 'RFC 3282'],
  ['Keywords', 'Content', 'RFC 5322'],
  ['Comments', 'Content', 'RFC 5322'],
  ['Importance', 'Content', 'RFC 2156'],
  ['Priority', 'Content', 'RFC 2156'],
  ['Sensitivity', 'Content', 'RFC 2156'],
  ['Organization', 'Content', 'RFC 4021'],
  ['Require-Recipient-Valid-Since', 'Delivery', 'RFC 7293'],
  ['Expires', 'Delivery', 'RFC 2156'],
  ['Reply-By', 'Delivery', 'RFC 2156'],
  ['Archived-At', 'Modern', 'RFC 5064'],
];

const rows: readonly HeaderRow[] = Object.values(headerCatalogue);

function namesOf(headerClass: HeaderRow['class']): string[] {
  return rows.filter((row) => row.class === headerClass).map(({ name }) => name);
}

function handled(overSmtp: HeaderRow['overSmtp']): string[] {
  return rows.filter((row) => row.overSmtp === overSmtp).map(({ name }) => name);
}

function signed(rule: HeaderRow['signed']): string[] {
  return rows.filter((row) => row.signed === rule).map(({ name }) => name);
}

test('the classes hold exactly the names of the specification', () => {
  expect(namesOf('platform')).toEqual(platform);
  expect(namesOf('first-class').sort()).toEqual([...firstClass].sort());
  expect(namesOf('mime')).toEqual(mime);
  expect(namesOf('allowlisted')).toEqual(allowlist.map(([name]) => name));
  expect(namesOf('extension')).toEqual(['X-*']);
  expect([platform.length, firstClass.length, allowlist.length]).toEqual([15, 6, 25]);
});

test.each(allowlist)('%s is in group %s, by %s', (name, group, standard) => {
  expect(findHeader(name.toLowerCase())).toMatchObject({
    name,
    group,
    standard,
    class: 'allowlisted',
    overSmtp: 'custom',
  });
});

test('every key is its name in lower case', () => {
  for (const [key, row] of Object.entries(headerCatalogue)) expect(key).toBe(row.name.toLowerCase());
});

test.each([
  ['arc-seal', 'ARC-*'],
  ['arc-message-signature', 'ARC-*'],
  ['x-mailer', 'X-*'],
  ['x-', 'X-*'],
])('%s is found by its prefix as %s', (name, row) => {
  expect(findHeader(name)?.name).toBe(row);
});

test.each(['user-agent', 'sender', 'arc', 'x', 'constructor', '__proto__', 'disposition-notification-to', 'x_foo', ''])(
  '%s is on no table',
  (name) => {
    expect(findHeader(name)).toBeUndefined();
  },
);

test('over SMTP: lifted, MIME, replaced, trace, the rest refused (D3)', () => {
  expect(handled('lifted')).toEqual(firstClass);
  expect(handled('mime')).toEqual(['MIME-Version', 'Content-Type', 'Content-Transfer-Encoding', ...mime]);
  expect(handled('replaced')).toEqual(['Date', 'Message-ID']);
  expect(handled('trace')).toEqual(['Received']);
  expect(handled('refused').sort()).toEqual(
    [
      'DKIM-Signature',
      'Return-Path',
      'Feedback-ID',
      'ARC-*',
      'TLS-Required',
      'TLS-Report-Domain',
      'TLS-Report-Submitter',
      'CFBL-Address',
      'CFBL-Feedback-ID',
    ].sort(),
  );
});

test('DKIM covers what D27 lists', () => {
  expect(signed('oversigned').sort()).toEqual(
    [
      'From',
      'To',
      'Cc',
      'Subject',
      'Reply-To',
      'Date',
      'Message-ID',
      'MIME-Version',
      'Content-Type',
      'Content-Transfer-Encoding',
      'List-Unsubscribe',
      'List-Unsubscribe-Post',
    ].sort(),
  );
  expect(signed('if-present').sort()).toEqual(
    [
      'In-Reply-To',
      'References',
      ...allowlist.map(([name]) => name).filter((name) => /^List-(?!Unsubscribe)/.test(name)),
      'Feedback-ID',
      'CFBL-Address',
      'CFBL-Feedback-ID',
      'Auto-Submitted',
      'Precedence',
    ].sort(),
  );
});

test('value rules are those of the specification (D8, D9)', () => {
  const ruled = Object.fromEntries(
    rows.filter(({ value }) => value.kind !== 'free').map(({ name, value }) => [name, value]),
  );
  expect(ruled).toEqual({
    'List-Unsubscribe': { kind: 'unsubscribe-uris' },
    'List-Unsubscribe-Post': { kind: 'exactly', value: 'List-Unsubscribe=One-Click' },
    Precedence: { kind: 'one-of', values: ['bulk', 'list', 'junk'] },
    'Auto-Submitted': { kind: 'one-of', values: ['auto-generated', 'auto-replied', 'auto-notified'], comments: true },
    Importance: { kind: 'one-of', values: ['high', 'normal', 'low'] },
    Priority: { kind: 'one-of', values: ['normal', 'non-urgent', 'urgent'] },
    Sensitivity: { kind: 'one-of', values: ['personal', 'private', 'company-confidential'] },
  });
});
