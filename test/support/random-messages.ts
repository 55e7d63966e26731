// Whole messages as hostile and careless programs write them, for the property that the policy package and the gateway agree:
// header sections of every kind of fault, senders of every form, character sets, MIME structures.

import { smtpMessage } from './doors.ts';
import { headerSet } from './header-sets.ts';
import fc, { anyCharacter } from './properties.ts';

const from = fc.constantFrom(
  'From: app@example.com',
  'From: App <app@sub.example.com>',
  'From: "A, B" <a@example.net>',
  'From: <a@b\u00fccher.example>',
  'From: =?utf-8?q?J=C3=BCrgen?= <j@example.com>',
  'From: =?gb2312?B?1tDOxA==?= <a@example.com>',
  'From: root',
  'From: a@example.com, b@example.com',
  'From: group: a@example.com;',
  'From: [Desk] <a@example.com>',
  'From: <>',
  'From:',
  'From: a@elsewhere.example',
  'From: ceo@bank.test <a@example.com>',
  'From: M\u00fcller (c) <"a b"@example.com>',
  'From: a@[192.0.2.1]',
  'From: a@[IPv6:2001:DB8:0:0::1]',
  'X-From: none',
);
const others = fc.subarray([
  'To: Ana <ana@example.net>, \u00e4 <b@b\u00fccher.example>',
  `Cc: ${'x'.repeat(1000)}@example.com`,
  'Subject: caf\u00e9 =?iso-8859-1?Q?=E9?= =?utf-7?Q?+2Dw-?=',
  'Subject: again',
  'Date: Mon, 02 Mar 2026 10:20:30 +0100',
  'Message-ID: <mine@client.example>',
  'Received: from a by b; Mon, 02 Mar 2026 10:20:30 +0100',
  'Bcc: hidden@example.net',
  'Reply-To: a, b@c',
  'Sender: me@example.com',
  'MIME-Version: 1.0',
  'Content-Disposition: inline; filename*=utf-8\u0027\u0027%e4',
  ' continuation first',
  'no colon here',
  'Space : before',
  '\ufeffX-Mark: 1',
  'X-Raw: \u0080\u0081',
]);
const charset = fc.constantFrom(
  ...[
    'utf-8',
    'windows-1252',
    'koi8-r',
    'cp437',
    'iso-8859-8',
    'utf-16',
    'utf-16be',
    'utf-32',
    'utf-7',
    'shift_jis',
    'gbk',
  ],
  ...['us-ascii', 'x-none', 'mik', 'UNICODE-1-1-UTF-7', 'utf-8*en', 'hex', 'macroman', 'tis-620', 'ucs2', 'rk1048'],
);
const word = fc
  .tuple(charset, fc.boolean(), fc.string({ unit: anyCharacter, maxLength: 12 }), fc.uint8Array({ maxLength: 8 }))
  .map(([name, isB, text, octets]) => {
    // Octets of several to a character are well-formed: the platform's reader and the gateway's differ about the others.
    const bytes = /shift|gbk/.test(name) ? Buffer.from('plain') : Buffer.concat([Buffer.from(text), octets]);
    const encoded = isB
      ? bytes.toString('base64')
      : [...bytes].map((octet) => `=${octet.toString(16).toUpperCase().padStart(2, '0')}`).join('');
    return `X-Word: a =?${name}?${isB ? 'B' : 'q'}?${encoded}?= b`;
  });

const leaf = fc.constantFrom(
  'Content-Type: text/plain\r\n\r\nplain\r\n',
  'Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n\u00e4\u00f6\u00fc\r\n',
  'Content-Type: text/html\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n=C3=A4 \u00e4=\r\n',
  'Content-Type: application/pdf; name=\u00fc.pdf\r\nContent-Transfer-Encoding: base64\r\n\r\nSGVsbG8=\u00e9\r\n',
  'Content-Type: text/plain\r\nContent-Transfer-Encoding: x-uuencode\r\n\r\n\u00e4\r\n',
  `\r\n${'long '.repeat(300)}\r\n`,
  'Content-Type: message/rfc822\r\n\r\nSubject: in \u00e4\r\n\r\nHi\r\n',
);
const parts = fc.array(leaf, { minLength: 1, maxLength: 3 });
const body = fc.oneof(
  fc.constantFrom<readonly [string, string]>(
    ['', 'Hello\r\n'],
    ['', 'H\u00e9llo'],
    ['', 'bare\nlf and \r cr\r\n'],
    ['', 'nul \0\r\n'],
    ['Content-Type: text/plain; charset="iso-8859-1"\r\n', '\u00e4\r\n'],
    ['Content-Transfer-Encoding: binary\r\n', `${'y'.repeat(1200)}\r\n`],
    ['Content-Type: multipart/mixed\r\n', '--x\r\n\r\n\u00e4\r\n--x--\r\n'],
  ),
  fc.tuple(parts, fc.constantFrom('mixed', 'signed', 'alternative', 'report')).map(([list, kind]) => {
    const text = list.map((part) => `--b\r\n${part}\r\n`).join('');
    return [`Content-Type: multipart/${kind}; boundary=b\r\n`, `pre\r\n${text}--b--\r\nend \u00e4\r\n`] as const;
  }),
);

/** A message with its settings. */
export interface RandomMessage {
  readonly raw: Buffer;
  readonly credential: 'default' | 'cron' | 'oldbox' | 'devices';
  readonly reversePath: string;
}

/** Any message. */
export const randomMessage: fc.Arbitrary<RandomMessage> = fc
  .record({
    set: headerSet,
    from,
    others,
    words: fc.array(word, { maxLength: 2 }),
    body,
    isLatin1: fc.boolean(),
    credential: fc.constantFrom('default', 'cron', 'oldbox', 'devices'),
    reversePath: fc.constantFrom('app@example.com', '', 'root', 'a@elsewhere.example', 'x@b\u00fccher.example'),
    plainly: fc.boolean(),
  })
  .map((of) => {
    const head = smtpMessage(of.set).split('\r\n\r\n', 1)[0] ?? '';
    const lines = of.plainly
      ? [...head.split('\r\n').slice(0, 6), ...of.words]
      : [of.from, ...of.others, ...head.split('\r\n').slice(3), ...of.words];
    const [type, text] = of.body;
    const message = `${lines.join('\r\n')}\r\n${type}\r\n${text}`;
    return {
      raw: Buffer.from(message, of.isLatin1 ? 'latin1' : 'utf8'),
      credential: of.credential,
      reversePath: of.reversePath,
    } as const;
  });
