// Sets of custom headers as a client may give them, for properties over every door: names of every class and casing,
// values with every kind of fault, limits at their edges, repetition, and enough that pass.

import { findHeader, type HeaderRow, headerCatalogue } from '../../src/pipeline/policy/header-catalogue.ts';
import fc, { anyCharacter } from './properties.ts';

/** One header as it is given; only JSON can carry a value that is no string. */
export interface GivenHeader {
  readonly name: string;
  readonly value: unknown;
}

/** A set, in its order. */
export interface HeaderSet {
  readonly headers: readonly GivenHeader[];
  /** In JSON, names and values are written with \u escapes. */
  readonly escaped: boolean;
  /** In SMTP, values are folded at their blanks. */
  readonly folded: boolean;
}

const rows: readonly HeaderRow[] = Object.values(headerCatalogue);
const allowlisted = rows.filter((row) => row.class === 'allowlisted');
const withStar = (name: string): string => name.replace('*', 'Seal');

/** What D3 takes out of an SMTP message before the policy runs: no custom header there. */
export function isTakenOutOverSmtp(name: string): boolean {
  if (!/^[A-Za-z0-9_-]{1,100}$/.test(name)) return false;
  const handling = findHeader(name.toLowerCase())?.overSmtp;
  return handling === 'lifted' || handling === 'mime' || handling === 'replaced';
}

const letters = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_'.split('');
const extensionName = fc
  .string({ unit: fc.constantFrom(...letters), minLength: 1, maxLength: 30 })
  .map((tail) => `X-${tail}`);
const namesAtTheEdge = [99, 100, 101].flatMap((length) => [`X-${'n'.repeat(length - 2)}`, 'N'.repeat(length)]);
const badNames = [
  '',
  'X-',
  'x-', // the same name
  'List_Id',
  'Foo.Bar',
  'X-a.b',
  'X A',
  'X-A B',
  ' X-A',
  '\tX-A',
  'X-A ',
  'X-A:',
  'X:A',
  ':',
  'X-\0',
  'X-\r',
  'X-\n',
  'X-A\r\nBcc',
  'X-\x7f',
  'X-\u00dc',
  'X-\u65e5\u672c',
  'Li\u017ft-Id',
  '\u212aeywords',
  'X-\ud800',
  'X-\udfff',
  '.',
  '.X-A',
];
// Integer-like names come first in every JavaScript object; the others are members of every one.
const oddNames = [
  '7',
  '10',
  '007',
  '4294967295',
  '__proto__',
  'constructor',
  'toString',
  'User-Agent',
  'Sender',
  'ARC',
];

function recased(name: string, bits: number): string {
  return name.replace(/[A-Za-z]/g, (letter, index: number) =>
    ((bits >> (index % 31)) & 1) === 1 ? letter.toUpperCase() : letter.toLowerCase(),
  );
}

const casing = fc.oneof(
  { weight: 3, arbitrary: fc.constant((name: string) => name) },
  fc.constant((name: string) => name.toLowerCase()),
  fc.nat().map((bits) => (name: string) => recased(name, bits)),
);

/** A name in some casing, and its row. */
interface Named {
  readonly name: string;
  readonly row: HeaderRow | undefined;
}

function named(name: fc.Arbitrary<string>): fc.Arbitrary<Named> {
  return fc
    .tuple(name, casing)
    .map(([given, change]) => ({ name: change(given), row: findHeader(given.toLowerCase()) }));
}

const goodName = named(
  fc.oneof(
    { weight: 3, arbitrary: fc.constantFrom(...allowlisted.map(({ name }) => name)) },
    { weight: 2, arbitrary: fc.constantFrom('List-Unsubscribe', 'List-Unsubscribe-Post') },
    { weight: 2, arbitrary: extensionName },
    { weight: 1, arbitrary: fc.constantFrom('X-A', 'X-B', 'X-Campaign-ID', 'X-__proto__', namesAtTheEdge[2] ?? '') },
  ),
);
const refusedName = named(
  fc.oneof(
    fc.constantFrom(...rows.filter((row) => row.overSmtp !== 'custom').map(({ name }) => withStar(name))),
    fc.constantFrom(...badNames),
    fc.constantFrom(...oddNames),
    fc.constantFrom(...namesAtTheEdge),
    fc.string({ unit: anyCharacter, minLength: 1, maxLength: 12 }),
  ),
);
const anyName = fc.oneof({ weight: 4, arbitrary: goodName }, { weight: 1, arbitrary: refusedName });

const words = [
  'hello',
  'a',
  'caf\u00e9',
  'cafe\u0301',
  '\u65e5\u672c\u8a9e',
  '\u05e9\u05dc\u05d5\u05dd',
  '\u202eabc',
  '\ud83d\udc69\u200d\ud83d\udcbb',
  '\u212a',
  '<a@example.com>',
  '<https://example.com/\u00fc?q=%20>',
  '"quoted, string"',
  '(comment)',
  '=?utf-8?q?caf=C3=A9?=',
  '=?utf-8?q?a?= =?utf-8?q?b?=',
  '=?iso-2022-jp?B?GyRCRnxLXBsoQg==?=',
  '=?windows-1252?Q?=80?=',
  '=?x-nobody-knows?q?a?=',
  '=?utf-8?q?',
  '?=',
  '\u00a0',
  '\u3000',
  '\ufeff',
  '\u2028',
  '\u0085',
  '%0D%0A',
  '\\r\\n',
  'x'.repeat(90),
  '\u00e9'.repeat(60),
];
const sentence = fc
  .array(fc.tuple(fc.constantFrom(...words), fc.constantFrom(' ', '  ', '\t', ', ', '')), {
    minLength: 1,
    maxLength: 6,
  })
  .map((parts) => parts.map(([word, gap]) => word + gap).join(''));
const padding = fc.constantFrom('', '', '', ' ', '\t ');
const freeText = fc
  .tuple(padding, fc.oneof(sentence, fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 })), padding)
  .map((parts) => parts.join(''))
  // A random text of blanks alone is no value; blanks have faulty values of their own below.
  .filter((text) => /[^ \t\x00-\x1f\x7f]/.test(text) && !/[\x00-\x08\x0a-\x1f\x7f]/.test(text));

const goodUnsubscribe = [
  '<https://example.com/u>',
  '<HTTPS://example.com/u?a=b,c>',
  '<mailto:leave@example.com>',
  '<MailTo:leave@example.com?subject=a,b>',
  '<mailto:leave@example.com>, <https://example.com/u>',
  '(see below) <https://example.com:8443/\u00fc> , (or \\) this) <mailto:a@b.example> (end)',
  '<https://[2001:db8::1]/u>,<https://user@host.example/u>',
  '=?utf-8?q?=3Chttps://example.com/u=3E?=',
  '<https://b\u00fccher.example/u>',
  '\t<https://example.com/u> ',
];
const badUnsubscribe = [
  'https://example.com/u',
  '<http://example.com/u>',
  '<https://example.com/u>, <http://example.com/u>',
  '<https:///u>',
  '<https:example.com>',
  '<https://:443/>',
  '<mailto:leave>',
  '<mailto:a@b@example.com>',
  '<mailto:@example.com>',
  '<ftp://example.com/>',
  '<https://example.com/u',
  '<https://example.com/u> and more',
  '<https://example.com/u>,',
  ',<https://example.com/u>',
  '<<https://example.com/u>>',
  '<>',
  '(never closed <https://example.com/u>',
  '<https://exam ple.com/u>',
  '<https://.../u>',
  '<https://example.com:65536/u>',
  '<https://example.com/{{id}}>',
  '<https://example.com/${id}>',
  '<mailto:leave@example.com?subject=%%id%%>',
];

/** Values that pass the header's own rule. */
function goodValue(row: HeaderRow | undefined): fc.Arbitrary<string> {
  const rule = row?.value ?? { kind: 'free' };
  if (rule.kind === 'unsubscribe-uris') return fc.constantFrom(...goodUnsubscribe);
  if (rule.kind === 'exactly')
    return fc.tuple(padding, padding).map(([before, behind]) => before + rule.value + behind);
  if (rule.kind === 'free') return freeText;
  return fc.tuple(fc.constantFrom(...rule.values), casing).map(([value, change]) => change(value));
}

const hidden = ['=?utf-8?q?a=0Ab?=', '=?utf-8?b?AA==?=', '=?us-ascii?q?=0D?=', '=?utf-8?q?=7F?='];
const controls = [...Array(32).keys(), 127].filter((code) => code !== 9).map((code) => String.fromCharCode(code));
const faultyText = fc.oneof(
  fc.constantFrom('', ' ', '\t \t', '=?utf-8?q??=', '=?utf-8?q?_?='),
  fc.tuple(sentence, fc.constantFrom(...controls), sentence).map((parts) => parts.join('')),
  fc.constantFrom(
    '\r',
    '\n',
    '\r\n',
    'a\r\n b',
    'a\r\n\r\nb',
    'a\n b',
    '\n a',
    ' \r',
    '\0a',
    'a\x7f',
    ' \v ',
    'a\r\nBcc: x@y.example',
  ),
  fc.tuple(sentence, fc.constantFrom(...hidden)).map((parts) => parts.join(' ')),
  fc.constantFrom('\ud800', 'a\udfffb', '\udc00\ud800', 'a '.repeat(500) + '\ud83d'),
);
/** Texts of 2,047, 2,048 and 2,049 bytes once decoded. */
const atTheEdge = fc.constantFrom(
  ...[2047, 2048, 2049].flatMap((bytes) => [
    'x'.repeat(bytes),
    `${'\u00e9'.repeat((bytes >> 1) - 2)}${'y'.repeat((bytes % 2) + 4)}`,
    `z${'\ud83d\ude00'.repeat(511)}${'y'.repeat(bytes - 2045)}`,
    `  ${'w '.repeat(1000)}${'v'.repeat(bytes - 2000)}  `,
    `=?utf-8?b?${Buffer.from('\u00e9'.repeat(600)).toString('base64')}?= ${'x'.repeat(bytes - 1201)}`,
  ]),
);
const noText = fc.constantFrom<unknown>(null, true, false, 0, 1.5, [], ['a'], {}, { a: 'b' });
const faultyValue: fc.Arbitrary<unknown> = fc.oneof(
  { weight: 4, arbitrary: faultyText },
  { weight: 2, arbitrary: atTheEdge },
  { weight: 1, arbitrary: noText },
  {
    weight: 2,
    arbitrary: fc.constantFrom('urgent', 'High!', '\u212aunk', 'list-unsubscribe=one-click', ...badUnsubscribe),
  },
);

function anyHeader(name: fc.Arbitrary<Named>, faultsInTen: number): fc.Arbitrary<GivenHeader> {
  return name.chain(({ name: given, row }) =>
    fc
      .oneof({ weight: 10 - faultsInTen, arbitrary: goodValue(row) }, { weight: faultsInTen, arbitrary: faultyValue })
      .map((value) => ({ name: given, value })),
  );
}

const byName = { selector: ({ name }: GivenHeader) => name.toLowerCase() };
const postWithoutUri = ({ name }: GivenHeader): boolean => name.toLowerCase() === 'list-unsubscribe-post';

/** Sets that pass: no name twice, no value at fault, and List-Unsubscribe-Post only where its URI is. */
const good = fc.uniqueArray(anyHeader(goodName, 0), { ...byName, maxLength: 12 }).map((headers) => {
  const uri = headers.some(
    ({ name, value }) => name.toLowerCase() === 'list-unsubscribe' && (value as string).includes('https'),
  );
  return uri ? headers : headers.filter((header) => !postWithoutUri(header));
});
const mixed = fc.array(anyHeader(anyName, 2), { minLength: 1, maxLength: 14 });
const faulty = fc.array(anyHeader(anyName, 7), { minLength: 1, maxLength: 40 });
const repeated = fc
  .tuple(fc.array(anyHeader(goodName, 1), { minLength: 1, maxLength: 5 }), fc.infiniteStream(casing), fc.nat(3))
  .map(([headers, changes, more]) => {
    const again = headers.slice(0, more + 1).map(({ name, value }) => ({ name: changes.next().value(name), value }));
    return [...headers, ...again];
  });

/** Of 19 to 24 allowlisted headers, and some X- headers, which do not count. */
const many = fc
  .tuple(
    fc.shuffledSubarray(allowlisted, { minLength: 19, maxLength: 24 }),
    fc.array(anyHeader(named(extensionName), 0), { maxLength: 4 }),
  )
  .chain(([chosen, extensions]) =>
    fc
      .tuple(...chosen.map((row) => goodValue(row).map((value) => ({ name: row.name, value }))))
      .map((headers) => [...headers, ...extensions]),
  );

/** X- headers whose sizes come to just about 16,384 by the formula of D6. */
const large = fc.constantFrom(-1, 0, 1, 2049).map((over) => {
  const headers = Array.from({ length: 8 }, (_, index) => ({ name: `X-Large-${index}`, value: 'v'.repeat(2000) }));
  const used = headers.reduce((sum, { name, value }) => sum + name.length + 2 + value.length + 2, 0);
  return [...headers, { name: 'X-Rest', value: 'v'.repeat(16_384 - used - 'X-Rest'.length - 4 + over) }];
});

const headers: fc.Arbitrary<readonly GivenHeader[]> = fc.oneof(
  { weight: 10, arbitrary: good },
  { weight: 6, arbitrary: mixed },
  { weight: 3, arbitrary: faulty },
  { weight: 3, arbitrary: repeated },
  { weight: 2, arbitrary: many },
  { weight: 1, arbitrary: large },
);

/** Any set of custom headers. */
export const headerSet: fc.Arbitrary<HeaderSet> = fc.record({ headers, escaped: fc.boolean(), folded: fc.boolean() });

function set(...pairs: readonly (readonly [string, unknown])[]): HeaderSet {
  return { headers: pairs.map(([name, value]) => ({ name, value })), escaped: false, folded: false };
}

const twenty: readonly (readonly [string, string])[] = [
  ...allowlisted
    .filter(({ value }) => value.kind === 'free')
    .slice(0, 18)
    .map(({ name }) => [name, 'x'] as const),
  ['Precedence', 'junk'],
  ['Priority', 'normal'],
];

/** One set for each rule, so that every run reaches every rule; with the codes that every door gives. */
export const oneOfEach: readonly (readonly [HeaderSet, readonly string[]])[] = [
  [set(), []],
  [set(['x-Lower_Case', 'kept'], ['IN-REPLY-TO', '<a@b.example>'], ['Precedence', 'BULK']), []],
  [set(['User-Agent', 'x'], ['DKIM-Signature', 'x'], ['ARC-Seal', 'x']), Array<string>(3).fill('E_HEADER_NOT_ALLOWED')],
  [
    set(['X-B', ''], ['7', 'x'], ['X-C', ''], ['1', 'x']),
    ['E_HEADER_VALUE_INVALID', 'E_HEADER_NOT_ALLOWED', 'E_HEADER_VALUE_INVALID', 'E_HEADER_NOT_ALLOWED'],
  ],
  [set(['To', 'a@b.example'], ['subject', 'x']), Array<string>(2).fill('E_HEADER_USE_API_FIELD')],
  [
    set(...badNames.map((name) => [name, 'x'] as const)),
    Array<string>(badNames.length - 1).fill('E_HEADER_NAME_INVALID'),
  ],
  [
    set(...namesAtTheEdge.filter((name) => name.startsWith('X')).map((name) => [name, 'x'] as const)),
    ['E_HEADER_NAME_INVALID'],
  ],
  [
    set(...controls.map((character, index) => [`X-${index}`, `a${character}b`] as const)),
    Array<string>(controls.length).fill('E_HEADER_VALUE_INVALID'),
  ],
  [
    set(['X-A', 'x'.repeat(2048)], ['X-B', 'x'.repeat(2049)], ['X-C', ` ${'\u00e9'.repeat(1024)}\t`]),
    ['E_HEADER_VALUE_TOO_LONG'],
  ],
  [set(['X-A', '1'], ['x-a', '1'], ['X-B', '2']), ['E_HEADER_VALUE_INVALID']],
  [
    set(['X-A', null], ['X-B', 5], ['X-C', ['a']], ['X-D', { a: 'b' }]),
    Array<string>(4).fill('E_HEADER_VALUE_INVALID'),
  ],
  [set(['X-A', 'a\ud800'], ['X-B', 'a\r\n b']), Array<string>(2).fill('E_HEADER_VALUE_INVALID')],
  ...goodUnsubscribe.map((value) => [set(['List-Unsubscribe', value]), []] as const),
  ...badUnsubscribe.map((value) => [set(['List-Unsubscribe', value]), ['E_HEADER_VALUE_INVALID']] as const),
  [
    set(['List-Unsubscribe', '<mailto:a@b.example>'], ['List-Unsubscribe-Post', 'List-Unsubscribe=One-Click']),
    ['E_HEADER_VALUE_INVALID'],
  ],
  [set(['List-Unsubscribe-Post', 'List-Unsubscribe=One-Click'], ['List-Unsubscribe', '<https://a.example/>']), []],
  [
    set(['Priority', 'high'], ['Importance', 'urgent'], ['Sensitivity', 'secret'], ['Auto-Submitted', 'no']),
    Array<string>(4).fill('E_HEADER_VALUE_INVALID'),
  ],
  [set(...twenty), []],
  [set(...twenty, ['Importance', 'low']), ['E_HEADERS_TOO_MANY']],
  ...(
    [
      [0, []],
      [1, ['E_HEADERS_TOO_LARGE']],
    ] as const
  ).map(([over, codes]) => {
    const pairs = Array.from({ length: 8 }, (_, index) => [`X-${index}`, 'v'.repeat(2000)] as const);
    const used = 8 * (3 + 2 + 2000 + 2);
    return [set(...pairs, ['X-R', 'v'.repeat(16_384 - used - 7 + over)]), codes] as const;
  }),
];
