// What a hostile client may send, in any size up to the real limits: for each reader, writer and judge the input that it
// likes least. See inputs.ts.

/** The longest header section that is read, octets. */
const headerLimit = 262_144;
/** `messageBytes` and the HTTP body's limit by default. */
const messageLimit = 5_242_880;
const requestLimit = 8_388_608;

/** One input that grows. */
export interface Case {
  readonly name: string;
  /** The door that takes it. */
  readonly door: 'smtp' | 'send' | 'validate';
  /** Octets of the largest: what grows has an eighth of it, a quarter, a half, and all. */
  readonly largest: number;
  /** Makes what is sent: a message with CRLF, or JSON. `octets` are those of what grows. */
  readonly make: (octets: number) => Buffer;
}

const from = 'From: a@example.com\r\n';

/** The text repeated to about so many octets, whole times. */
function fill(text: string, octets: number): string {
  return text.repeat(Math.max(1, Math.floor(octets / Buffer.byteLength(text, 'latin1'))));
}

function latin1(text: string): Buffer {
  return Buffer.from(text, 'latin1');
}

/** A message whose header section grows. */
function header(name: string, make: (octets: number) => string): Case {
  const largest = headerLimit - 100;
  return { name, door: 'smtp', largest, make: (octets) => latin1(`${make(octets)}\r\nHello\r\n`) };
}

/** A message whose body grows. `top` are fields that describe it. */
function body(name: string, make: (octets: number) => string | Buffer, top = ''): Case {
  const head = `${from}${top}\r\n`;
  const largest = messageLimit - 100_000;
  return {
    name,
    door: 'smtp',
    largest,
    make: (octets) => {
      const made = make(octets);
      return Buffer.concat([latin1(head), typeof made === 'string' ? latin1(made) : made]);
    },
  };
}

/** A request whose JSON grows; `make` gives members beside the required ones. */
function json(name: string, make: (octets: number) => string, options: Partial<Case> & { whole?: boolean } = {}): Case {
  const required = '"from":"a@example.com","to":"b@example.net","subject":"x"';
  return {
    name,
    door: options.door ?? 'validate',
    largest: options.largest ?? requestLimit - 10_000,
    make: (octets) => Buffer.from(options.whole ? make(octets) : `{${required},${make(octets)}}`),
  };
}

const mixed = 'Content-Type: multipart/mixed; boundary=b\r\n';
const embedded = 'Content-Type: message/rfc822\r\n';

/** 49 multiparts inside each other, whose boundaries are alike for 900 octets; the outermost is `b`. */
function nest(): string {
  const boundary = (level: number): string => (level === 0 ? 'b' : `${'n'.repeat(900)}${level}`);
  return Array.from(
    { length: 49 },
    (_, level) => `--${boundary(level)}\r\nContent-Type: multipart/mixed; boundary=${boundary(level + 1)}\r\n\r\n`,
  ).join('');
}

/** As many parts as the octets hold, 9,999 at most, each filled up to its share. */
function parts(part: string, octets: number): string {
  return `${part.repeat(Math.min(9999, Math.floor(octets / part.length)))}--b--\r\n`;
}

/** A field of the message, or of one inside it, whose value is about so long. */
function field(name: string, text: string): (octets: number) => string {
  return (octets) => `${name}: ${fill(text, octets)}\r\n`;
}

const headerCases: readonly Case[] = [
  header('fields', (octets) => from + fill(`X-A: ${'b'.repeat(130)}\r\n`, octets)),
  header('names of fields that are refused', (octets) => from + fill(`${'n'.repeat(130)}: b\r\n`, octets)),
  header('folds', (octets) => `${from}Subject: x\r\n${fill(' y\r\n', octets)}`),
  header('Subject, raw 8-bit words', (octets) => from + field('Subject', '\xe9t\xe9 ')(octets)),
  header('Subject, raw 8-bit in one word', (octets) => from + field('Subject', '\xe9')(octets)),
  header('Subject, encoded-words', (octets) => from + field('Subject', '=?utf-8?Q?x=C3=A9?= ')(octets)),
  header(
    'Subject, encoded-words of many charsets',
    (octets) => from + field('Subject', '=?iso-8859-1?Q?x=E9?= =?x-none?B?AAAA?= ')(octets),
  ),
  header('Subject, beginnings of encoded-words', (octets) => from + field('Subject', '=?a?q?')(octets)),
  header('To, plain addresses', (octets) => from + field('To', 'a@b.example,')(octets)),
  header('To, display names in 8-bit', (octets) => from + field('To', '"\xe9 x" <a@b.example>, ')(octets)),
  header(
    'To, comments inside each other',
    (octets) => `${from}To: a@b.example ${'('.repeat(octets / 2)}${')'.repeat(octets / 2)}\r\n`,
  ),
  header(
    'To, quotation marks and backslashes',
    (octets) => `${from}To: "${'\\"'.repeat(octets / 2)}" <a@b.example>\r\n`,
  ),
  header('To, groups', (octets) => from + field('To', 'g:a@b.example;,')(octets)),
  header('From, words', (octets) => `From: ${fill('word ', octets)}<a@example.com>\r\n`),
  header('From, 8-bit in quotation marks', (octets) => `From: "${fill('\xe9 ', octets)}" <a@example.com>\r\n`),
  header('References', (octets) => from + field('References', '<a@b.example> ')(octets)),
  header('List-Unsubscribe', (octets) => from + field('List-Unsubscribe', '<https://a.example/\xe9>, ')(octets)),
  header('Keywords in 8-bit', (octets) => from + field('Keywords', '\xe9t\xe9, ')(octets)),
  header('Content-Type, parameters', (octets) => `${from}Content-Type: text/plain${fill('; a=b', octets)}\r\n`),
  header(
    'Content-Type, sections of one parameter',
    (octets) =>
      `${from}Content-Type: text/plain${Array.from({ length: octets / 13 }, (_, at) => `; a*${at}=b`).join('')}\r\n`,
  ),
  header('Content-Type, comments', (octets) => `${from}Content-Type: text/plain; ${fill('(a) ', octets)}\r\n`),
];

const bodyCases: readonly Case[] = [
  body('body, short lines of ASCII', (octets) => fill('Ten words of text stand in this line, no more.\r\n', octets)),
  body('body, empty lines', (octets) => fill('\r\n', octets)),
  body('body, blanks', (octets) => fill(' \t\r\n', octets)),
  body('body, bare LF', (octets) => fill('\n', octets)),
  body('body, bare CR', (octets) => fill('\r', octets)),
  body('body, dots', (octets) => fill('.\r\n', octets)),
  body('body, one line', (octets) => fill('x', octets)),
  body('body, one line of blanks', (octets) => fill(' ', octets)),
  body('body, 8-bit, quoted-printable is smaller', (octets) =>
    fill('Gr\xf6\xdfe und noch viele, viele Worte mehr\r\n', octets),
  ),
  body('body, 8-bit, base64 is smaller', (octets) => fill('\xe9', octets)),
  body(
    'quoted-printable to be repaired',
    (octets) => fill('=E9\xe9=\r\n', octets),
    'Content-Transfer-Encoding: quoted-printable\r\n',
  ),
  body(
    'quoted-printable, = and blanks',
    (octets) => `\xe9${fill('= ', octets)}`,
    'Content-Transfer-Encoding: quoted-printable\r\n',
  ),
  body('base64 to be wrapped', (octets) => fill('QUJD', octets), 'Content-Transfer-Encoding: base64\r\n'),
  body('base64 with other octets', (octets) => fill('Q\xe9-', octets), 'Content-Transfer-Encoding: base64\r\n'),
];

const mimeCases: readonly Case[] = [
  body('parts, small', (octets) => parts('--b\r\n\r\nx\r\n', octets), mixed),
  body('parts of 500 octets in 8-bit', (octets) => parts(`--b\r\n\r\n\xe9${'x'.repeat(490)}\r\n`, octets), mixed),
  body(
    'parts, each with fields in 8-bit',
    (octets) => parts(`--b\r\n${'Subject: \xe9t\xe9\r\n'.repeat(25)}\r\nx\r\n`, octets),
    mixed,
  ),
  body(
    'parts with long Content-Types',
    (octets) => parts(`--b\r\nContent-Type: text/plain${'; a=b'.repeat(12_000)}\r\n\r\n\xe9\r\n`, octets),
    mixed,
  ),
  body(
    'parts that may not be encoded',
    (octets) => parts(`--b\r\nContent-Type: message/partial\r\n\r\n\xe9${'x'.repeat(400)}\r\n`, octets),
    mixed,
  ),
  body('parts behind the last that is walked', (octets) => fill('--b\r\n\r\n\xe9\r\n', octets), mixed),
  body('lines of hyphens', (octets) => `--b\r\n\r\n${fill('--n\r\n', octets)}`, mixed),
  body('lines like 50 open boundaries', (octets) => nest() + fill(`--${'n'.repeat(902)}\r\n`, octets), mixed),
  body(
    'multiparts inside each other',
    (octets) => fill('--b\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n', octets),
    mixed,
  ),
  body('messages inside each other', (octets) => fill('Content-Type: message/rfc822\r\n\r\n', octets), embedded),
  body('preamble in 8-bit', (octets) => `${fill('\xe9', octets)}\r\n--b\r\n\r\nx\r\n--b--\r\n`, mixed),
  body(
    'header section of a part, over its limits',
    (octets) => `--b\r\nSubject: \xe9${fill(' word', octets)}\r\n\r\nx\r\n--b--\r\n`,
    mixed,
  ),
  body(
    'folds in a part, over its limits',
    (octets) => `--b\r\nX: \xe9\r\n${fill(' y\r\n', octets)}\r\nx\r\n--b--\r\n`,
    mixed,
  ),
  body(
    '20 embedded messages, each with 250 KB of 8-bit words',
    (octets) =>
      `${fill(`--b\r\nContent-Type: message/rfc822\r\n\r\n${'Subject: \xe9t\xe9 and so on\r\n'.repeat(1990)}${fill(' \xe9', 200_000).replace(' ', 'To: ')}\r\n\r\nx\r\n`, octets)}--b--\r\n`,
    mixed,
  ),
  ...(
    [
      ['words', 'Subject', '\xe9t\xe9 '],
      ['one word', 'Subject', '\xe9'],
      ['addresses', 'To', '"\xe9" <a@b.example>, '],
      ['quotation marks', 'To', '"\xe9'],
      ['phrases', 'Keywords', '<\xe9>,'],
      ['a location', 'Content-Location', '\xe9'],
      ['parameters', 'Content-Disposition', 'a; b=\xe9; '],
    ] as const
  ).map(
    ([what, name, text]): Case => ({
      ...body(
        `8-bit field in an embedded message, ${what}`,
        (octets) => `${field(name, text)(octets)}\r\nx\r\n`,
        embedded,
      ),
      largest: headerLimit - 100,
    }),
  ),
];

const jsonCases: readonly Case[] = [
  json('send, text', (octets) => `"text":"${fill('word ', octets)}"`, {
    door: 'send',
    largest: messageLimit - 300_000,
  }),
  json('send, text of line ends', (octets) => `"text":"${fill('\\n', octets)}"`, { door: 'send', largest: 3_000_000 }),
  json('send, text outside ASCII', (octets) => `"text":"${fill('\xc3\xa9', octets / 2)}"`, {
    door: 'send',
    largest: messageLimit / 2,
  }),
  json('send, html', (octets) => `"html":"${fill('<p>x', octets)}"`, { door: 'send', largest: messageLimit - 300_000 }),
  json(
    'send, base64',
    (octets) => `"text":"x","attachments":[{"filename":"a","type":"a/b","content":"${fill('QUJD', octets)}"}]`,
    {
      door: 'send',
      largest: messageLimit - 200_000,
    },
  ),
  json('escapes', (octets) => `"text":"${fill('\\u00e9', octets)}"`),
  json('depth', (octets) => `"text":"x","a":${'['.repeat(octets / 2)}${']'.repeat(octets / 2)}`),
  json('depth of objects', (octets) => `"text":"x","a":${'{"a":'.repeat(octets / 6)}1${'}'.repeat(octets / 6)}`),
  json('numbers in an array', (octets) => `"text":"x","to":[${fill('1,', octets)}1]`),
  json(
    'strings under a long name',
    (octets) => `"text":"x","${'n'.repeat(octets - 30_000)}":[${fill('"a",', 39_600)}"a"]`,
    { largest: requestLimit - 100_000 },
  ),
  json(
    'names',
    (octets) =>
      `"text":"x",${Array.from({ length: octets / 16 }, (_, at) => `"n${at.toString(36).padStart(8, '0')}":1`).join(',')}`,
  ),
  json('a name repeated', (octets) => `"text":"x",${fill('"a":1,', octets)}"a":1`),
  json('a long name repeated', (octets) => `"text":"x",${fill(`"${'n'.repeat(20_000)}":1,`, octets)}"b":1`),
  json(
    'a short name repeated below a long one',
    (octets) => `"text":"x","${'n'.repeat(octets / 2)}":{${fill('"a":1,', Math.min(octets / 2, 59_400))}"a":1}`,
  ),
  json(
    'custom headers',
    (octets) =>
      `"text":"x","headers":{${Array.from({ length: octets / 24 }, (_, at) => `"X-${at.toString(36).padStart(8, '0')}":"v"`).join(',')}}`,
  ),
  json('recipients', (octets) => `"text":"x","cc":[${fill('"a@b.example",', octets)}"a@b.example"]`),
  json('one recipient, words', (octets) => `"text":"x","cc":"${fill('word ', octets)}<a@b.example>"`),
  json('one recipient, commas', (octets) => `"text":"x","cc":"${fill(',', octets)}"`),
  json(
    'attachments',
    (octets) => `"text":"x","attachments":[${fill('{"filename":"a","type":"a/b","content":"QUJD"},', octets)}{}]`,
  ),
  json('faults in attachments', (octets) => `"text":"x","attachments":[${fill('{"a":1},', octets)}{}]`),
];

/** All of them. */
export const cases: readonly Case[] = [...headerCases, ...bodyCases, ...mimeCases, ...jsonCases];
