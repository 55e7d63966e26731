// Occurrences whose every part from outside may be hostile, for property tests.

import { allEdgeErrors, type EdgeOccurrence } from '../../src/edge/errors/catalogue.ts';
import fc, { anyCharacter } from './properties.ts';

/** What other readers take for more than text: markup, YAML of another type, line breaks, controls, invisible characters. */
export const hostileTexts: readonly string[] = [
  ...['"><script>alert(1)</script>', "' onmouseover='alert(1)", '</title><h1>x</h1>', '<!--', ']]>', '&lt;&amp;&#60;'],
  ...[
    '123456789012345',
    '1e5',
    'e0',
    'E5',
    '1234567890e12345',
    '0x1f',
    '0b10101010101010',
    '0o17',
    '017',
    '1_000',
    '.5',
    '1.5',
  ],
  ...['192.0.2.1', '[2001:db8::1]', '12:30:45', '2026-01-15', '2026-01-15T09:30:00Z', '1:2', '+1', '-1', '-.inf'],
  ...['yes', 'No', 'on', 'off', 'y', 'N', 'true', 'FALSE', 'null', 'Null', '~', '', ' ', '.nan', '=', '<<', 'inf'],
  ...[
    '---',
    '...',
    '- a',
    '? a',
    'a: b',
    'a #b',
    '#',
    '*a',
    '&a',
    '!a',
    '!!int',
    '%a',
    '@a',
    '`a`',
    '|',
    '>',
    '{a}',
    '[a]',
  ],
  ...[
    'a\nretryable: false',
    'a\r\n---\r\n# x',
    'a\tb',
    '\0',
    '\u0007',
    '\u007F',
    '\u0085',
    '\u2028',
    '\u2029',
    '\uFEFF',
  ],
  ...[
    '\u202Emoc.elpmaxe',
    '\u2066a\u2069',
    '\u200B',
    '\u00AD',
    'm\u00FCnchen.example',
    '\u{1F600}',
    '\uD800',
    'a\uDC00b',
    '\\',
    '\\x41',
  ],
  ...[
    'localhost',
    'www.example.com',
    'xn--mnchen-3ya.example',
    '1password.example',
    '3com',
    'a_b.example',
    '-a.example',
  ],
];

const hostileText = fc.oneof(
  fc.constantFrom(...hostileTexts),
  fc.string({ unit: anyCharacter, maxLength: 300 }),
  fc.string({ unit: 'binary-ascii', maxLength: 40 }),
  fc.string({ unit: fc.integer({ min: 0, max: 0xffff }).map((unit) => String.fromCharCode(unit)), maxLength: 40 }),
  fc.array(fc.constantFrom(...hostileTexts), { maxLength: 4 }).map((parts) => parts.join('')),
);

/** 16 hex, as ray ids are; often such as YAML could read as numbers. */
const rayId = fc.oneof(
  fc.stringMatching(/^[0-9a-f]{16}$/),
  fc.stringMatching(/^[0-9]{16}$/),
  fc.stringMatching(/^[0-9]{1,14}e[0-9]{1,2}$/),
  fc.stringMatching(/^0b[01]{14}$/),
);

/** Any error with any Host, Ray ID, time and documentation URL. */
export const hostileOccurrence: fc.Arbitrary<EdgeOccurrence> = fc
  .record({
    error: fc.constantFrom(...allEdgeErrors),
    rayId: fc.oneof(rayId, hostileText),
    at: fc.integer({ min: 0, max: Date.UTC(9999, 11, 31) - 4e9 }),
    zone: hostileText,
    docsBaseUrl: fc.oneof(fc.webUrl(), hostileText),
    seconds: fc.option(fc.integer({ min: 1, max: 86_400 }), { nil: undefined }),
  })
  .map(({ seconds, ...occurrence }) =>
    seconds === undefined || occurrence.error.retryAfterSeconds === undefined
      ? occurrence
      : { ...occurrence, retryAfterSeconds: seconds },
  );
