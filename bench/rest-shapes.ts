// What bench:rest sends, and the same messages as SMTP carries them.

import { randomBytes } from 'node:crypto';
import { benchToken } from './postern-under-test.ts';

const line = 'The quick brown fox jumps over the lazy dog, and then it does so again.\n';

function textOf(octets: number): string {
  return `${line.repeat(Math.ceil(octets / line.length)).slice(0, octets - 1)}\n`;
}

const fields = { from: 'bench@example.com', to: 'rcpt@example.net', subject: 'A message of the benchmark' };
const head = `From: ${fields.from}\nTo: ${fields.to}\nSubject: ${fields.subject}\nX-Campaign-ID: bench\nMIME-Version: 1.0\n`;
const text = textOf(4096);
const html = `<p>${textOf(2048)}</p>\n`;
const attached = randomBytes(102_400).toString('base64');

/** One kind of message. */
export interface Shape {
  readonly path: 'send' | 'send_raw';
  readonly body: object;
  /** The message as it would be handed in by SMTP, with line ends of LF. */
  readonly mime: string;
}

function withBoundary(type: string, boundary: string, parts: readonly string[]): string {
  const written = parts.map((part) => `--${boundary}\n${part}\n`).join('');
  return `Content-Type: ${type}; boundary="${boundary}"\n\n${written}--${boundary}--\n`;
}

const plain = `Content-Type: text/plain; charset=utf-8\n\n${text}`;
const alternative = withBoundary('multipart/alternative', 'inner', [
  `Content-Type: text/plain; charset=utf-8\n\n${textOf(2048)}`,
  `Content-Type: text/html; charset=utf-8\n\n${html}`,
]);
const file = `Content-Type: application/pdf; name="report.pdf"\nContent-Disposition: attachment; filename="report.pdf"\nContent-Transfer-Encoding: base64\n\n${attached.replace(/.{76}/g, '$&\n')}`;
const headers = { 'X-Campaign-ID': 'bench' };
const both = { ...fields, text: textOf(2048), html, headers };

/** Every kind: plain text; text and HTML; these with an attachment of 100 KB; a finished message. All but the third have 4 KB. */
export const shapes: Readonly<Record<string, Shape>> = {
  text: { path: 'send', body: { ...fields, text, headers }, mime: `${head}${plain}` },
  html: { path: 'send', body: both, mime: `${head}${alternative}` },
  attachment: {
    path: 'send',
    body: { ...both, attachments: [{ content: attached, filename: 'report.pdf', type: 'application/pdf' }] },
    mime: `${head}${withBoundary('multipart/mixed', 'outer', [alternative, file])}`,
  },
  raw: {
    path: 'send_raw',
    body: {
      from: fields.from,
      recipients: [fields.to],
      mime_message: `${head}${plain}`.replaceAll('\n', '\r\n'),
    },
    mime: `${head}${plain}`,
  },
};

/** A whole request, head and body. */
export function requestOf({ path, body }: Shape): string {
  const json = JSON.stringify(body);
  const lines = [
    `POST /client/v4/accounts/dev/email/sending/${path} HTTP/1.1`,
    'Host: 127.0.0.1',
    `Authorization: Bearer ${benchToken}`,
    'Content-Type: application/json',
    `Content-Length: ${Buffer.byteLength(json)}`,
  ];
  return `${lines.join('\r\n')}\r\n\r\n${json}`;
}
