import { describe, expect, test } from 'vitest';
import { fieldsOf } from '../../../src/mail/mime/mime-header.ts';
import {
  type MimePart,
  type MimeTree,
  maximumDepth,
  maximumParts,
  type TopLevel,
  walkSteps,
} from '../../../src/mail/mime/mime-walk.ts';
import fc from '../../support/properties.ts';

const crlf = (text: string): Buffer => Buffer.from(text.replace(/\r?\n/g, '\r\n'));

/** Walks without a stop. */
function walkMime(body: Buffer, top: TopLevel): MimeTree {
  const walking = walkSteps(body, top);
  for (;;) {
    const { done, value } = walking.next();
    if (done) return value;
  }
}

/** `path kind type "content"` for each part, containers without content. */
function outline(body: Buffer, part: MimePart): string[] {
  const content = part.kind === 'leaf' ? ` ${JSON.stringify(body.toString('latin1', part.start, part.end))}` : '';
  const own = `${part.path} ${part.kind} ${part.contentType.type}/${part.contentType.subtype}${content}`.trim();
  return [own, ...part.children.flatMap((child) => outline(body, child))];
}

const mixed = (boundary: string): { contentType: string } => ({
  contentType: `multipart/mixed; boundary="${boundary}"`,
});

test('a plain body is one leaf', () => {
  const body = crlf('Hello\n--b\n');
  expect(outline(body, walkMime(body, {}).root)).toEqual(['leaf text/plain "Hello\\r\\n--b\\r\\n"']);
});

test('nested multiparts, preamble, epilogue, an embedded message', () => {
  const body = crlf(`preamble
--outer
Content-Type: multipart/alternative; boundary=inner

--inner

plain
--inner
content-type: text/html;
 charset=utf-8
Content-Transfer-Encoding: 8BIT (yes)

<p>
--inner--
inner epilogue
--outer
Content-Type: message/rfc822

Subject: inside

text

--outer--
epilogue
`);
  const { root } = walkMime(body, mixed('outer'));
  expect(outline(body, root)).toEqual([
    'multipart multipart/mixed',
    '1 multipart multipart/alternative',
    '1.1 leaf text/plain "plain"',
    '1.2 leaf text/html "<p>"',
    '2 message message/rfc822',
    '2.1 leaf text/plain "text\\r\\n"',
  ]);
  expect(root.padding.map(({ start, end }) => body.toString('latin1', start, end))).toEqual([
    'preamble',
    'epilogue\r\n',
  ]);
  const html = root.children[0]?.children[1];
  expect(html?.transferEncoding).toBe('8bit');
  expect(html?.contentType.parameters.get('charset')).toBe('utf-8');
  expect(
    html && fieldsOf(body, html.header).map(({ name, start, end }) => [name, body.toString('latin1', start, end)]),
  ).toEqual([
    ['content-type', 'content-type: text/html;\r\n charset=utf-8\r\n'],
    ['content-transfer-encoding', 'Content-Transfer-Encoding: 8BIT (yes)\r\n'],
  ]);
});

test('a boundary that is a prefix of another is another boundary', () => {
  const body = crlf(
    '--ab\nContent-Type: multipart/mixed; boundary=abc\n\n--abc\n\none\n--abcd\n--abc--\n--ab  \n\ntwo\n--ab-- \n',
  );
  expect(outline(body, walkMime(body, mixed('ab')).root)).toEqual([
    'multipart multipart/mixed',
    '1 multipart multipart/mixed',
    '1.1 leaf text/plain "one\\r\\n--abcd"',
    '2 leaf text/plain "two"',
  ]);
});

test('a missing close delimiter ends with the parent’s, or the body', () => {
  const body = crlf('--a\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\none\n--a\n\ntwo\n');
  expect(outline(body, walkMime(body, mixed('a')).root)).toEqual([
    'multipart multipart/mixed',
    '1 multipart multipart/mixed',
    '1.1 leaf text/plain "one"',
    '2 leaf text/plain "two\\r\\n"',
  ]);
});

test('parts without a header section, or without an empty line', () => {
  const body = crlf('--a\n\n--a\nno header here\n--a\nContent-Type: text/html\n--a--\n');
  const { root } = walkMime(body, mixed('a'));
  expect(outline(body, root)).toEqual([
    'multipart multipart/mixed',
    '1 leaf text/plain ""',
    '2 leaf text/plain "no header here"',
    '3 leaf text/html ""',
  ]);
  expect(root.children.map(({ separated }) => separated)).toEqual([true, false, false]);
});

test('a multipart without its boundary is a closed leaf', () => {
  const body = crlf('text\n');
  for (const contentType of ['multipart/mixed', 'multipart/mixed; boundary=""', 'multipart/mixed; boundary=x']) {
    expect(walkMime(body, { contentType }).root).toMatchObject({
      kind: 'leaf',
      closed: 'boundary',
      start: 0,
      end: body.length,
    });
  }
});

test('boundaries in the odd ways mailers write them', () => {
  const body = crlf('--b x\n\none\n--b x--\n');
  for (const value of ['"b x"', 'b x', '"b\\ x"', 'b x; charset=utf-8', '"b x" (comment)']) {
    expect(
      walkMime(body, { contentType: `multipart/mixed; charset=utf-8; Boundary=${value}` }).root.children,
    ).toHaveLength(1);
  }
  const extended = 'multipart/mixed; boundary*0="b "; boundary*1*=%78';
  expect(walkMime(body, { contentType: extended }).root.children).toHaveLength(1);
});

test('the parts of a digest are messages', () => {
  const body = crlf('--a\n\nSubject: x\n\nbody\n--a--\n');
  const { root } = walkMime(body, { contentType: 'multipart/digest; boundary=a' });
  expect(outline(body, root).slice(1)).toEqual(['1 message message/rfc822', '1.1 leaf text/plain "body"']);
});

test('everything inside multipart/signed is marked', () => {
  const body = crlf('--a\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\nx\n--b--\n--a--\n');
  const { root } = walkMime(body, { contentType: 'multipart/signed; boundary=a' });
  expect([root.signed, root.children[0]?.signed, root.children[0]?.children[0]?.signed]).toEqual([true, true, true]);
});

test.each([maximumDepth - 1, maximumDepth, maximumDepth + 1, 2000])('%i levels of nesting', (levels) => {
  let text = '';
  for (let level = 1; level < levels; level += 1)
    text += `--b${level}\nContent-Type: multipart/mixed; boundary=b${level + 1}\n\n`;
  const body = crlf(`${text}--b${levels}\n\nleaf\n`);
  let part: MimePart | undefined = walkMime(body, mixed('b1')).root;
  let depth = 0;
  while (part?.kind === 'multipart') {
    depth += 1;
    part = part.children[0];
  }
  expect(depth).toBe(Math.min(levels, maximumDepth));
  expect(part?.closed).toBe(levels > maximumDepth ? 'depth' : undefined);
});

test('more parts than are walked', () => {
  const body = crlf('--a\n\nx\n'.repeat(maximumParts + 5));
  const tree = walkMime(body, mixed('a'));
  expect(tree.root.children).toHaveLength(maximumParts);
  expect(tree.unwalkedFrom).toBe(maximumParts * '--a\r\n\r\nx\r\n'.length);
});

const oddLines =
  '--a|--a--|--b|--b--|--ab|--a \t|| folded|text|--|x: y|Content-Type: multipart/mixed; boundary=a|Content-Type: multipart/mixed; boundary=b|Content-Type: message/rfc822|Content-Type: multipart/mixed; boundary="|Content-Transfer-Encoding: base64';
const line = fc.constantFrom(...oddLines.split('|'));

/** The octets between `start` and `end` of a part, put together again from its pieces. */
function reassemble(body: Buffer, part: MimePart): Buffer {
  const ranges = [...part.padding, ...part.children.map(({ header, end }) => ({ start: header.start, end }))].sort(
    (one, other) => one.start - other.start || one.end - other.end,
  );
  const pieces: Buffer[] = [];
  let position = part.start;
  for (const { start, end } of ranges) {
    // Pieces never overlap, and only delimiter lines and line ends stand between them.
    expect(start).toBeGreaterThanOrEqual(position);
    expect(body.toString('latin1', position, start)).toMatch(/^(?:\r\n)?(?:--(?:a|b)(?:--)?[ \t]*\r\n|(?:\r\n)?)*$/);
    pieces.push(body.subarray(position, start), body.subarray(start, end));
    position = end;
  }
  pieces.push(body.subarray(position, part.end));
  return Buffer.concat(pieces);
}

function everyPart(part: MimePart): MimePart[] {
  return [part, ...part.children.flatMap(everyPart)];
}

test('reassembled octets equal the input, whatever the input', () => {
  fc.assert(
    fc.property(fc.array(line, { maxLength: 40 }), fc.constantFrom('a', 'b'), (lines, boundary) => {
      const body = Buffer.from(lines.map((text) => `${text}\r\n`).join(''));
      const { root } = walkMime(body, mixed(boundary));
      expect([root.start, root.end]).toEqual([0, body.length]);
      for (const part of everyPart(root)) {
        expect(part.header.end).toBeLessThanOrEqual(part.start);
        expect(part.start).toBeLessThanOrEqual(part.end);
        expect(reassemble(body, part).equals(body.subarray(part.start, part.end))).toBe(true);
      }
    }),
    { numRuns: 3000 },
  );
});

test('hostile bodies take linear time', () => {
  const nest = Array.from(
    { length: 49 },
    (_, level) => `--n${level}\r\nContent-Type: multipart/mixed; boundary=n${level + 1}\r\n\r\n`,
  );
  const hostile = [
    Buffer.alloc(4_000_000, '-'),
    Buffer.alloc(4_000_000, '\n--'),
    Buffer.alloc(4_000_000, '--n0'),
    Buffer.alloc(4_000_000, 'a:\r\n '),
    Buffer.from(`${nest.join('')}${'--n\r\n'.repeat(500_000)}`),
    Buffer.from(`--n0\r\nContent-Type: multipart/mixed; boundary="${'\\"'.repeat(1_000_000)}`),
    Buffer.from(`--n0\r\nContent-Type: ${'('.repeat(1_000_000)}`),
    Buffer.from(`--n0\r\nContent-Type: a/b${';x'.repeat(500_000)}`),
  ];
  for (const body of hostile) expect(walkMime(body, mixed('n0')).root.end).toBe(body.length);
});

describe('the steps of a walk grow as the body does', () => {
  const steps = (body: Buffer): number => {
    const walking = walkSteps(body, mixed('n0'));
    let count = 1;
    while (!walking.next().done) count += 1;
    return count;
  };
  const nest = (boundary: (level: number) => string): string =>
    Array.from(
      { length: 49 },
      (_, level) => `--${boundary(level)}\r\nContent-Type: multipart/mixed; boundary=${boundary(level + 1)}\r\n\r\n`,
    ).join('');
  const long = (level: number): string => (level === 0 ? 'n0' : `${'n'.repeat(900)}${level}`);
  const bodies: Readonly<Record<string, (times: number) => string>> = {
    'lines of hyphens': (times) => `--n0\r\n\r\n${'--n\r\n'.repeat(20_000 * times)}`,
    'lines that begin like 50 open boundaries': (times) =>
      `${nest(long)}${`--${'n'.repeat(902)}\r\n`.repeat(5000 * times)}`,
    parts: (times) => '--n0\r\n\r\nx\r\n'.repeat(1000 * times),
    'header sections': (times) => `--n0\r\n${'X: y\r\n'.repeat(1900)}\r\nx\r\n`.repeat(20 * times),
  };
  test.each(Object.entries(bodies))('%s', (_, make) => {
    const [once, eightTimes] = [steps(Buffer.from(make(1))), steps(Buffer.from(make(8)))];
    expect(once).toBeGreaterThan(1);
    expect(eightTimes).toBeGreaterThan(4 * once);
    expect(eightTimes).toBeLessThan(10 * once);
  });
});
