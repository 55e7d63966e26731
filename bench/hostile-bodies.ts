// The worst JSON bodies that a client with a token can post, each as large as it is asked to be.

/** One kind of body and where it is posted, below /client/v4. */
export interface HostileBody {
  readonly name: string;
  readonly method: 'POST' | 'PUT';
  readonly path: string;
  /** A body of about so many octets. */
  readonly write: (octets: number) => string;
}

/** Values in one document, a few fewer than are read. */
const values = 9_900;

const message = '"from":"shop@example.com","to":"you@example.net","subject":"Hello"';

function times(count: number, write: (index: number) => string, separator = ','): string {
  return Array.from({ length: count }, (_, index) => write(index)).join(separator);
}

/** A text of so many octets that repeats a piece. */
function filled(octets: number, piece = 'a'): string {
  return piece.repeat(Math.max(1, Math.floor(octets / Buffer.byteLength(piece))));
}

/** The share of one of `values` texts of all octets. */
function share(octets: number, own: number, count = values): number {
  return Math.max(1, Math.floor(octets / count) - own);
}

const sendBodies: Readonly<Record<string, (octets: number) => string>> = {
  'one name over many strings': (octets) => `{"${filled(octets - values * 3)}":[${times(values, () => '""')}]}`,
  'a repeated name under a long one': (octets) =>
    `{"${filled(octets - values * 6)}":{${times(values, () => '"a":1')}}}`,
  'many unknown names': (octets) => `{${times(values, (n) => `"${filled(share(octets, 12))}${n}":1`)}}`,
  'many short unknown names': (octets) =>
    `{${message},"text":"${filled(octets - values * 14)}",${times(values - 10, (n) => `"xt${n}":1`)}}`,
  'many repeated names': (octets) =>
    `{"x":{${times(values / 2, () => `"${filled(share(octets, 6, values / 2))}":1`)}}}`,
  'many numbers': (octets) => `[${times(values, () => filled(Math.min(400, share(octets, 1)), '9'))}]`,
  'many strings with escapes': (octets) => `[${times(values, () => `"${filled(share(octets, 8), '\\u0041')}"`)}]`,
  'many lone surrogates': (octets) => `[${times(values, () => `"${filled(share(octets, 8), '\\ud800')}"`)}]`,
  blanks: (octets) => `{${message},"text":"x"${filled(octets, ' ')}}`,
  'nested deep': (octets) => {
    const opened = `{"${filled(octets / 15 - 10)}":`;
    return `${opened.repeat(15)}1${'}'.repeat(15)}`;
  },
  'a string cut off': (octets) => `{${message},"text":"${filled(octets)}`,
  'many headers': (octets) =>
    `{${message},"text":"x","headers":{${times(values - 20, (n) => `"X-${n}":"${filled(share(octets, 14))}"`)}}}`,
  'many headers that are refused': (octets) =>
    `{${message},"text":"x","headers":{${times(values - 20, (n) => `"No-${filled(share(octets, 14))}${n}":"x"`)}}}`,
  'many headers of one name': (octets) =>
    `{${message},"text":"x","headers":{${times(values - 20, () => `"X-A":"${filled(share(octets, 14))}"`)}}}`,
  'a long header': (octets) => `{${message},"text":"x","headers":{"X-A":"${filled(octets)}"}}`,
  'a long header name': (octets) => `{${message},"text":"x","headers":{"X-${filled(octets)}":"x"}}`,
  'a header of encoded-words': (octets) =>
    `{${message},"text":"x","headers":{"X-A":"${filled(octets, '=?utf-8?q?a?= ')}"}}`,
  'a header of URIs': (octets) =>
    `{${message},"text":"x","headers":{"List-Unsubscribe":"${filled(octets, '<https://a.test>,')}"}}`,
  'a header of comments': (octets) =>
    `{${message},"text":"x","headers":{"Auto-Submitted":"auto-generated ${filled(octets, '(')}"}}`,
  'many recipients': (octets) =>
    `{"from":"shop@example.com","subject":"x","text":"x","to":[${times(values - 10, (n) => `"${filled(Math.min(900, share(octets, 20)))} <a${n}@b.test>"`)}]}`,
  'many recipients that are none': (octets) =>
    `{"from":"shop@example.com","subject":"x","text":"x","to":[${times(values - 10, (n) => `"${filled(share(octets, 10), '(')}${n}"`)}]}`,
  'many recipients as objects': (octets) =>
    `{"from":"shop@example.com","subject":"x","text":"x","to":[${times(values / 3 - 10, (n) => `{"address":"a${n}@b.test","name":"${filled(Math.min(900, share(octets, 40, values / 3)))}"}`)}]}`,
  'many recipients of a wrong type': (octets) =>
    `{"from":"shop@example.com","subject":"x","text":"${filled(octets - values * 2)}","to":[${times(values - 10, () => '1')}]}`,
  'many reply_to': (octets) =>
    `{${message},"text":"x","reply_to":[${times(values - 20, (n) => `"${filled(Math.min(900, share(octets, 20)))} <a${n}@b.test>"`)}]}`,
  'a long address': (octets) => `{"from":"shop@example.com","subject":"x","text":"x","to":"${filled(octets)}@b.test"}`,
  'a long display name': (octets) =>
    `{"from":"shop@example.com","subject":"x","text":"x","to":{"address":"a@b.test","name":"${filled(octets, 'é')}"}}`,
  'a long subject': (octets) => `{"from":"shop@example.com","to":"a@b.test","text":"x","subject":"${filled(octets)}"}`,
  'a long subject of emoji': (octets) =>
    `{"from":"shop@example.com","to":"a@b.test","text":"x","subject":"${filled(octets, '😀')}"}`,
  text: (octets) => `{${message},"text":"${filled(octets)}"}`,
  'text of short lines': (octets) => `{${message},"text":"${filled(octets, 'a\\n')}"}`,
  'text of line ends': (octets) => `{${message},"text":"${filled(octets, '\\r')}"}`,
  'text of letters with accents': (octets) => `{${message},"text":"${filled(octets, 'é')}"}`,
  'text of escapes': (octets) => `{${message},"text":"${filled(octets, '\\u0041')}"}`,
  'text of emoji as escapes': (octets) => `{${message},"text":"${filled(octets, '\\ud83d\\ude00')}"}`,
  'text and html': (octets) =>
    `{${message},"text":"${filled(octets / 2, 'é ')}","html":"${filled(octets / 2, 'é\\n')}"}`,
  'an attachment': (octets) => `{${message},"text":"x","attachments":[{"content":"${filled(octets, 'AAAA')}"}]}`,
  'an attachment of escapes': (octets) =>
    `{${message},"text":"x","attachments":[{"content":"${filled(octets, '\\u0041\\u0041\\u0041\\u0041')}"}]}`,
  'an attachment that breaks off': (octets) =>
    `{${message},"text":"x","attachments":[{"content":"${filled(octets, 'AAAA')}*"}]}`,
  'an attachment with a wrong character first': (octets) =>
    `{${message},"text":"x","attachments":[{"content":"*${filled(octets, 'AAAA')}"}]}`,
  'an attached message': (octets) =>
    `{${message},"text":"x","attachments":[{"type":"message/rfc822","content":"${filled(octets, Buffer.from('a: \xe9\r\n', 'latin1').toString('base64'))}"}]}`,
  'many attachments': (octets) =>
    `{${message},"text":"x","attachments":[${times(values / 2 - 20, () => `{"content":"${filled(share(octets, 18, values / 2), 'AAAA')}"}`)}]}`,
  'many attachments that are none': (octets) =>
    `{${message},"text":"x","attachments":[${times(values - 20, () => '1')}],"html":"${filled(octets - values * 2)}"}`,
  'a long file name': (octets) =>
    `{${message},"text":"x","attachments":[{"content":"AAAA","filename":"${filled(octets, 'é')}"}]}`,
  'a long media type': (octets) =>
    `{${message},"text":"x","attachments":[{"content":"AAAA","type":"${filled(octets, 'a/b;')}"}]}`,
  'a long content id': (octets) =>
    `{${message},"text":"x","attachments":[{"content":"AAAA","content_id":"${filled(octets)}"}]}`,
};

const raw = '"from":"shop@example.com","recipients":["you@example.net"]';
const head = 'From: shop@example.com\\r\\nTo: you@example.net\\r\\n';

const rawBodies: Readonly<Record<string, (octets: number) => string>> = {
  'raw: one line': (octets) => `{${raw},"mime_message":"${head}\\r\\n${filled(octets)}"}`,
  'raw: short lines': (octets) => `{${raw},"mime_message":"${head}\\r\\n${filled(octets, 'a\\r\\n')}"}`,
  'raw: LF lines': (octets) => `{${raw},"mime_message":"From: shop@example.com\\n\\n${filled(octets, 'a\\n')}"}`,
  'raw: CR': (octets) => `{${raw},"mime_message":"${head}\\r\\n${filled(octets, '\\r')}"}`,
  'raw: accents': (octets) => `{${raw},"mime_message":"${head}\\r\\n${filled(octets, 'é')}"}`,
  'raw: header fields': (octets) => `{${raw},"mime_message":"${head}${filled(octets, 'X-A: b\\r\\n')}"}`,
  'raw: one header field': (octets) => `{${raw},"mime_message":"${head}X-A: ${filled(octets)}\\r\\n\\r\\n"}`,
  'raw: recipients': (octets) =>
    `{"from":"shop@example.com","mime_message":"${head}\\r\\nx","recipients":[${times(values - 10, (n) => `"${filled(Math.min(60, share(octets, 14)))}${n}@b.test"`)}]}`,
  'raw: recipients that are none': (octets) =>
    `{"from":"shop@example.com","mime_message":"${head}\\r\\nx","recipients":[${times(values - 10, () => `"${filled(share(octets, 4), '<')}"`)}]}`,
};

const sending = '/accounts/dev/email/sending';
const zone = '/zones/11111111111111111111111111111111';

function at(
  bodies: Readonly<Record<string, (octets: number) => string>>,
  path: string,
  method: HostileBody['method'] = 'POST',
): HostileBody[] {
  return Object.entries(bodies).map(([name, write]) => ({ name, method, path, write }));
}

const generic = Object.fromEntries(Object.entries(sendBodies).slice(0, 11));

/** All of them. */
export const hostileBodies: readonly HostileBody[] = [
  ...at(sendBodies, `${sending}/send`),
  ...at(rawBodies, `${sending}/send_raw`),
  ...at({ ...sendBodies, ...rawBodies }, `${sending}/validate`),
  ...at(generic, `${sending}/suppressions`),
  ...at(generic, '/accounts/dev/tokens'),
  ...at(
    {
      ...generic,
      'rules: long expression': (octets) =>
        `{"rules":[{"expression":"${filled(octets, 'not ')}","content":"x","content_type":"text/plain"}]}`,
      'rules: many expressions': (octets) =>
        `{"rules":[${times(100, () => `{"expression":"${filled(Math.min(4090, share(octets, 60, 100)), 'not (')}","content":"x","content_type":"text/plain"}`)}]}`,
      'rules: no rules': (octets) => `{"rules":[${times(values - 10, () => `"${filled(share(octets, 3))}"`)}]}`,
      'rules: rules without members': (octets) =>
        `{"rules":[${times(99, () => `{${times(90, (n) => `"${filled(share(octets, 6, values))}${n}":1`)}}`)}]}`,
      'rules: long content': (octets) =>
        `{"rules":[{"expression":"status eq 500","content":"${filled(octets, 'é')}","content_type":"text/plain"}]}`,
    },
    `${zone}/rulesets/phases/http_custom_errors/entrypoint`,
    'PUT',
  ),
  ...at(
    {
      ...generic,
      'page: html': (octets) => `{"html":"${filled(Math.min(1_400_000, octets))}"}`,
      'page: too long': (octets) => `{"html":"${filled(octets, 'é')}"}`,
      'page: tokens': (octets) => `{"html":"${filled(Math.min(1_400_000, octets), '::RAY_ID::')}"}`,
      'page: escapes': (octets) => `{"html":"${filled(octets, '\\u0001')}"}`,
    },
    `${zone}/custom_pages/error_page`,
    'PUT',
  ),
  ...at(
    Object.fromEntries(
      Object.entries({
        ...generic,
        'application: origins': (octets: number) =>
          `{"protocol":"tcp/22","dns":{"type":"CNAME","name":"a.example.com"},"origin_direct":[${times(Math.floor(octets / 3), () => '1')}]}`,
        'application: edge ips': (octets: number) =>
          `{"protocol":"tcp/22","dns":{"type":"ADDRESS","name":"a.example.com"},"edge_ips":[${times(Math.min(9000, Math.floor(octets / 14)), () => '"192.0.2.1"')}]}`,
      }).map(([name, write]) => [name, (octets: number) => write(Math.min(octets, 65_000))]),
    ),
    `${zone}/proxy/apps`,
  ),
];
