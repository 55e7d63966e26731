// The reader of the common form beside the general one: where it answers, both answer the same.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readReport } from '../../../../src/delivery/feedback/report/read-report.ts';
import { readStrictReport } from '../../../../src/delivery/feedback/report/report-reader.ts';
import fc from '../../../support/properties.ts';

const folder = join(import.meta.dirname, '../reports');
const reals = readdirSync(folder, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .flatMap(({ name }) => readdirSync(join(folder, name)).map((file) => ({ server: name, file })))
  .map(({ server, file }) => {
    const text = readFileSync(join(folder, server, file), 'latin1').replaceAll(/\r?\n/g, '\r\n');
    return { server, file, octets: Buffer.from(text, 'latin1') };
  });
const plain = reals.filter(({ octets }) => readStrictReport(octets) !== undefined);

test('reports of common servers are read as the general reader reads them', async () => {
  const servers = new Set(plain.map(({ server }) => server));
  expect(servers).toEqual(new Set(['exim', 'nullmailer', 'postfix', 'sendmail']));
  expect(plain.length).toBeGreaterThanOrEqual(60);
  for (const { file, octets } of plain) {
    expect(readStrictReport(octets), file).toEqual(await readReport(octets, true));
  }
});

/** What a change puts into a report: what the structure of a message is made of. */
const pieces = [
  ...[
    '\r\n',
    '\n',
    '\r',
    '\r\n\r\n',
    '--',
    '"',
    ';',
    '=',
    ' ',
    '\t',
    '(',
    ')',
    ':',
    ',',
    '\\',
    '.',
    '\0',
    '\u00e9',
    '\v',
  ],
  ...['Content-Type: ', 'Content-Type: message/feedback-report\r\n', 'Content-Disposition: inline\r\n', 'X: y\r\n'],
  ...['Content-Type: message/disposition-notification\r\n\r\n', 'Content-Transfer-Encoding: base64\r\n', 'From '],
  ...['boundary=b', 'boundary*=b', '*0=', '=?utf-8?q?x?=', 'multipart/mixed', 'message/rfc822', 'name=a.eml'],
  ...['message/delivery-status', 'text/html', 'Final-Recipient: rfc822; x@y.test\r\n', 'Action: failed\r\n'],
];

interface Change {
  readonly what: 'insert' | 'remove' | 'repeat' | 'delimiter';
  readonly piece: string;
  readonly place: number;
  readonly offset: number;
  readonly length: number;
}

const change: fc.Arbitrary<Change> = fc.record({
  what: fc.constantFrom('insert', 'remove', 'repeat', 'delimiter'),
  piece: fc.constantFrom(...pieces),
  place: fc.nat(1000),
  offset: fc.integer({ min: -8, max: 70 }),
  length: fc.oneof(fc.integer({ min: 1, max: 4 }), fc.integer({ min: 1, max: 300 })),
});

/** Changes a report, mostly near a delimiter or a field of content. */
function changed(text: string, { what, piece, place, offset, length }: Change): string {
  const boundary = /boundary="?([^"\r\n;]+)/i.exec(text)?.[1] ?? '';
  const near = [...text.matchAll(/^(?:--|content-)/gim)].map(({ index }) => index);
  const at = Math.min(text.length, Math.max(0, (near[place % (near.length + 1)] ?? text.length - 70) + offset));
  const [before, behind] = [text.slice(0, at), text.slice(at)];
  if (what === 'insert') return before + piece + behind;
  if (what === 'remove') return before + behind.slice(length);
  if (what === 'repeat') return before + behind.slice(0, length) + behind;
  return `${before}${offset % 2 === 0 ? '\r\n' : ''}--${boundary}${['', '--', '\r\n', '--\r\n', ' \r\n'][length % 5]}${behind}`;
}

test('whatever is changed in a report, it is read as the general reader reads it, or left to that', {
  timeout: 60_000,
}, async () => {
  let [taken, left] = [0, 0];
  await fc.assert(
    fc.asyncProperty(
      fc.nat(plain.length - 1),
      fc.array(change, { minLength: 1, maxLength: 3 }),
      async (index, changes) => {
        const text = changes.reduce(changed, plain[index]?.octets.toString('latin1') ?? '');
        const octets = Buffer.from(text, 'latin1');
        const read = readStrictReport(octets);
        if (!read) {
          left += 1;
          return;
        }
        taken += 1;
        expect(read).toEqual(await readReport(octets, true));
      },
    ),
    { numRuns: 2500 },
  );
  // Changes that leave nothing to be read, or change nothing, would show nothing.
  expect(taken).toBeGreaterThan(300);
  expect(left).toBeGreaterThan(300);
});

function reportOf(status: string, { type = 'multipart/report; boundary=b', behind = '\nx' } = {}): Buffer {
  const text = `Content-Type: ${type}\n\n--b\nContent-Type: message/delivery-status\n\n${status}\n--b\n${behind}\n--b--\n`;
  return Buffer.from(text.replaceAll('\n', '\r\n'), 'latin1');
}
const status = 'Final-Recipient: rfc822; a@example.org\nAction: failed\nStatus: 5.1.1\nDiagnostic-Code: smtp; 550 no\n';

test('what may mean more than its fields is left to the general reader', () => {
  expect(readStrictReport(reportOf(status))).toMatchObject({ recipients: [{ final: 'a@example.org' }] });
  const others: Readonly<Record<string, Buffer>> = {
    'words for people alone': reportOf(status.replace(/^Diagnostic.*\n/m, '')),
    'a second type of report behind': reportOf(status, { behind: 'Content-Type: message/feedback-report\n\nx' }),
    'a part that is taken apart': reportOf(status, {
      behind: 'Content-Type: message/rfc822\nContent-Disposition: inline\n\nx',
    }),
    'an encoded part': reportOf(status, { behind: 'Content-Transfer-Encoding: base64\n\nx' }),
    'another multipart': reportOf(status, { type: 'multipart/mixed; boundary=b' }),
    'a boundary in sections': reportOf(status, { type: 'multipart/report; boundary*0=b' }),
    'two boundaries': reportOf(status, { type: 'multipart/report; boundary=b; boundary=c' }),
    'two types': reportOf(status, { type: 'multipart/report; boundary=b\nContent-Type: text/plain' }),
    'a delimiter within a line': reportOf(status, { behind: '\nx --b\n\nx' }),
    'no end': reportOf(status).subarray(0, -6),
    'words behind the end': Buffer.concat([reportOf(status), Buffer.from('x')]),
    'many parts': reportOf(status, { behind: `\nx\n--b\n`.repeat(10) }),
    'many octets of fields': reportOf(`${status}X: ${'x'.repeat(20_000)}\n`),
    'a long header': Buffer.concat([Buffer.from(`X: ${'y'.repeat(20_000)}\r\n`), reportOf(status)]),
    nothing: Buffer.alloc(0),
  };
  for (const [name, octets] of Object.entries(others)) expect(readStrictReport(octets), name).toBeUndefined();
});
