import { expect, test } from 'vitest';
import { type Group, type Mailbox, parseAddressList } from '../../../src/mail/address/address.ts';
import fc from '../../support/properties.ts';

function brief(address: Mailbox | Group): string {
  if (address.kind === 'group') return `${address.displayName}:[${address.members.map(brief).join('; ')}]`;
  const { displayName, localPart, domain } = address;
  return `${displayName === undefined ? '' : `${displayName} `}<${localPart}${domain === undefined ? '' : `@${domain}`}>`;
}

function parse(text: string): string[] | string {
  const list = parseAddressList(text);
  return list.ok ? list.addresses.map(brief) : list.reason;
}

test.each([
  ['a@b.example', ['<a@b.example>']],
  ['<a@b.example>', ['<a@b.example>']],
  ['Jo <a@b.example>', ['Jo <a@b.example>']],
  ['John Q. Public <jqp@b.example>', ['John Q. Public <jqp@b.example>']],
  ['"Joe \\"Q\\" \\\\ P" <a@b.example>', ['Joe "Q" \\ P <a@b.example>']],
  ['"Smith, Jo" <a@b.example>, c@d.example', ['Smith, Jo <a@b.example>', '<c@d.example>']],
  ['a@b.example (Jo (the) Smith)', ['Jo (the) Smith <a@b.example>']],
  ['(note) Jo (x) <a@b.example> (y)', ['Jo <a@b.example>']],
  ['"quoted local"@b.example', ['<"quoted local"@b.example>']],
  ['a . b @ c . example', ['<a.b@c.example>']],
  ['a(x)@(y)b(z).example', ['z <a@b.example>']],
  ['a@[192.0.2.1]', ['<a@[192.0.2.1]>']],
  ['<@relay.example,@other.example:a@b.example>', ['<a@b.example>']],
  ['first..last.@b.example', ['<first..last.@b.example>']],
  ['root (Cron Daemon)', ['Cron Daemon <root>']],
  ['root', ['<root>']],
  ['Root <root>', ['Root <root>']],
  ['Team: a@b.example, "C" <c@d.example>;', ['Team:[<a@b.example>; C <c@d.example>]']],
  ['undisclosed-recipients:;', ['undisclosed-recipients:[]']],
  ['undisclosed-recipients:', ['undisclosed-recipients:[]']],
  ['a@b.example, Team: c@d.example;, e@f.example', ['<a@b.example>', 'Team:[<c@d.example>]', '<e@f.example>']],
  [', ,a@b.example,, c@d.example,', ['<a@b.example>', '<c@d.example>']],
  ['', []],
  [' (nobody) ', []],
  ['Jörg <jörg@bücher.example>', ['Jörg <jörg@bücher.example>']],
  ['=?utf-8?Q?J=C3=B6rg?= =?utf-8?Q?_M?= <a@b.example>', ['Jörg M <a@b.example>']],
  ['=?utf-8?Q?Smith,_Jo_(x)?= <a@b.example>', ['Smith, Jo (x) <a@b.example>']],
  ['=?utf-8?B?Sm8=?= Smith <a@b.example>', ['Jo Smith <a@b.example>']],
  ['[Ticket] Desk <a@b.example>', ['[Ticket] Desk <a@b.example>']],
  ['a@b.example\r\n (Jo)', ['Jo <a@b.example>']],
  ['"" <a@b.example>', ['<a@b.example>']],
  ['a@b.example <a@b.example>', ['a@b.example <a@b.example>']],
  ['Jo a@b, or c@d.example (x)', 'unexpected "a" at character 4'],
  ['Jo at a @ b (x) <c@d.example>', ['Jo at a @ b <c@d.example>']],
  ['=?utf-8?Q?a@b.example?= <c@d.example>', ['a@b.example <c@d.example>']],
  ['J\u00f6rg\u00a0M <a@b.example>', ['J\u00f6rg\u00a0M <a@b.example>']],
])('%s', (text, addresses) => {
  expect(parse(text)).toEqual(addresses);
});

test.each([
  ['a@', 'unexpected "@" at character 2'],
  ['@b.example', 'unexpected "@" at character 1'],
  ['<>', 'unexpected ">" at character 2'],
  ['<a@b.example', 'the address is cut off'],
  ['a@b.example>', 'unexpected ">" at character 12'],
  ['a@b.example c@d.example', 'unexpected "c" at character 13'],
  ['John Smith', 'unexpected "Smith" at character 6'],
  ['a b@c.example', 'unexpected "b" at character 3'],
  ['a@b c', 'unexpected "c" at character 5'],
  ['a@"b"', 'unexpected "\\"b\\"" at character 3'],
  ['a@b@c', 'unexpected "@" at character 4'],
  ['"Jo <a@b.example>', 'the quotation mark at character 1 is never closed'],
  ['Jo (x <a@b.example>', 'the comment at character 4 is never closed'],
  ['a@[192.0.2.1', 'the bracket at character 3 is never closed'],
  ['<a@b.example> Jo', 'unexpected "Jo" at character 15'],
  ['<a@b.example><c@d.example>', 'unexpected "<" at character 14'],
  ['a@b.example;', 'unexpected ";" at character 12'],
  ['Team: x: a@b.example;;', 'unexpected ":" at character 8'],
  ['Team: a@b.example; c@d.example', 'unexpected "c" at character 20'],
  ['a\\b@c.example', 'unexpected "\\\\" at character 2'],
  // Nothing that looks like an address hides inside what merely begins like an encoded-word.
  ['=?utf-8?Q?<a@b.example>?= <c@d.example>', 'unexpected "=?utf-8?Q?" at character 1'],
  // Readers differ about brackets in a display name: some see an address in them.
  ['Boss [<a@b.example>] <c@d.example>', 'a display name with "[" in it must stand in quotation marks'],
  ['[a@b.example] <c@d.example>', 'a display name with "[" in it must stand in quotation marks'],
  ['a@b.example, <c@d.example', 'the address is cut off'],
  ['a@b@c.example d', 'unexpected "@" at character 4'],
])('%s is refused', (text, reason) => {
  const parsed = parse(text);
  expect(typeof parsed).toBe('string');
  if (!reason.includes('=?utf-8')) expect(parsed).toBe(reason);
});

test.each(['root', ' root (Cron Daemon)', 'Root <root>', '"Root" <"ro ot" (x)>', 'a . b', '(x) <@r:root>'])(
  'a domain can be put in behind the local part of %s',
  (text) => {
    const list = parseAddressList(text);
    const box = list.ok ? list.addresses[0] : undefined;
    if (box?.kind !== 'mailbox') throw new Error('no mailbox');
    const completed = `${text.slice(0, box.end)}@x.example${text.slice(box.end)}`;
    const again = parseAddressList(completed);
    expect(again).toMatchObject({ ok: true, addresses: [{ localPart: box.localPart, domain: 'x.example' }] });
  },
);

const word = fc.stringMatching(/^[a-z0-9]{1,8}$/);
const name = fc.string({ unit: fc.constantFrom('a', 'B', ' ', ',', '"', '\\', '(', '<', '@', 'é'), maxLength: 8 });

test('a quoted name and an address come back as they were', () => {
  fc.assert(
    fc.property(fc.array(fc.record({ name, local: word, domain: word }), { minLength: 1, maxLength: 5 }), (boxes) => {
      const text = boxes
        .map((box) => `"${box.name.replace(/["\\]/g, '\\$&')}" <${box.local}@${box.domain}>`)
        .join(', ');
      const list = parseAddressList(text);
      if (!list.ok) throw new Error(list.reason);
      expect(list.addresses.map((box) => [box.displayName ?? '', 'domain' in box && box.domain])).toEqual(
        boxes.map((box) => [box.name, box.domain]),
      );
      for (const box of list.addresses) {
        if (box.kind === 'mailbox') expect(text.slice(box.start, box.end)).toBe(`${box.localPart}@${box.domain}`);
      }
    }),
  );
});

test('never throws, whatever the text', () => {
  const piece = fc.constantFrom(
    '<',
    '>',
    '(',
    ')',
    '"',
    '\\',
    ',',
    ';',
    ':',
    '@',
    '[',
    ']',
    '.',
    ' ',
    'a',
    '=?',
    '?q?',
    '?=',
    '\r\n',
    'é',
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 25 }), (parts) => {
      expect(typeof parseAddressList(parts.join('')).ok).toBe('boolean');
    }),
    { numRuns: 3000 },
  );
});

test.each([
  '(',
  '<',
  '"',
  '\\',
  'a@',
  'a,',
  'a:',
  '[',
  '()',
  '=?',
  '=?,',
  '=?a?q?',
  '=?a?q?,',
  'a<',
  '<@',
  ' ',
  'a.',
  '""',
  ',',
  'x:;,',
  '"a".',
  'a . ',
  '(a) ',
])('a mebibyte of %j is read in linear time', (unit) => {
  expect(typeof parseAddressList(unit.repeat(Math.floor(1_048_576 / unit.length))).ok).toBe('boolean');
});

test('in strict reading no word of a display name stands in brackets (D4b)', () => {
  const strict = (text: string) => parseAddressList(text, { strict: true });
  expect(strict('[Ticket] Desk <a@b.example>')).toEqual({
    ok: false,
    reason: 'a display name with "[" in it must stand in quotation marks',
  });
  expect(strict('"[Ticket] Desk" <a@b.example>').ok).toBe(true);
  expect(strict('(x [y]) a@[192.0.2.1]').ok).toBe(true);
});

test('the words of a display name and the comments are told as they were written', () => {
  const list = parseAddressList('(a \\) b) =?utf-8?Q?J?= "S, T" (c (d)) x@y <@r:a(e)@b.example> (f)');
  expect(list).toMatchObject({
    addresses: [
      {
        phrase: ['=?utf-8?Q?J?=', '"S, T"', 'x', '@', 'y'],
        comments: ['a ) b', 'c (d)', 'e', 'f'],
        inBrackets: true,
      },
    ],
  });
  expect(parseAddressList('a@b.example (x)')).toMatchObject({
    addresses: [{ phrase: [], comments: ['x'], inBrackets: false }],
  });
});
