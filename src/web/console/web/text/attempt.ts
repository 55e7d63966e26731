// What the page "Try it" sends to be judged: from what was typed.

import { linesOf } from './line-diff.ts';

/** A message to begin with: one that is refused for two reasons. */
export const sampleMessage = `From: Shop <shop@example.com>
To: you@example.net
Subject: Your order
User-Agent: OldShop/1.2
Precedence: urgent

Thank you for your order.
`;

/** A request body to begin with. */
export const sampleRequest = `{
  "from": "shop@example.com",
  "to": "you@example.net",
  "subject": "Your order",
  "text": "Thank you for your order.",
  "headers": { "X-Order": "4711" }
}
`;

/** What is judged, or why it cannot be; without a fault nothing was typed. */
export type Attempt =
  | {
      readonly ok: true;
      readonly judge: unknown;
      /** What is sent if the reader asks for it; absent where a recipient is missing. */
      readonly send?: unknown;
    }
  | { readonly ok: false; readonly fault?: string };

/** The value of a header field, unfolded; undefined where there is none. */
function fieldOf(lines: readonly string[], name: string): string | undefined {
  const start = lines.findIndex((line) => line.toLowerCase().startsWith(`${name}:`));
  if (start === -1) return undefined;
  let value = lines[start]?.slice(name.length + 1) ?? '';
  for (const line of lines.slice(start + 1)) {
    if (!/^[ \t]/.test(line)) break;
    value += line;
  }
  return value.trim();
}

/** The addresses of an address field, well enough for the envelope of a trial. */
function addressesOf(value: string | undefined): readonly string[] {
  if (value === undefined) return [];
  // One that nothing ends goes to the end: else the search would begin again at each of the quotation marks in it.
  const plain = value.replace(/"(?:\\.?|[^"\\])*(?:"|$)/g, '');
  return plain
    .split(',')
    .map((part) => /<([^<>]*)>/.exec(part)?.[1] ?? part)
    .map((part) => part.trim().replace(/^.*:/, '').replace(/;$/, '').trim())
    .filter((part) => part.includes('@'));
}

function headOf(text: string): readonly string[] {
  const lines = linesOf(text);
  const end = lines.indexOf('');
  return end === -1 ? lines : lines.slice(0, end);
}

function readMessage(text: string, from: string, to: string): Attempt {
  const head = headOf(text);
  const recipients =
    to.trim() === ''
      ? ['to', 'cc', 'bcc'].flatMap((name) => addressesOf(fieldOf(head, name)))
      : to
          .split(',')
          .map((one) => one.trim())
          .filter((one) => one !== '');
  const sender = from.trim() === '' ? (addressesOf(fieldOf(head, 'from'))[0] ?? '') : from.trim();
  const mime = text.replace(/\r\n|\r|\n/g, '\r\n');
  const send = { from: sender, recipients: [...new Set(recipients)], mime_message: mime };
  const isAlone = from.trim() === '' && to.trim() === '';
  return { ok: true, judge: isAlone ? { raw: mime } : send, ...(recipients.length > 0 ? { send } : {}) };
}

function readRequest(text: string): Attempt {
  try {
    const body: unknown = JSON.parse(text);
    return { ok: true, judge: body, send: body };
  } catch (error) {
    return { ok: false, fault: `This is no JSON yet: ${error instanceof Error ? error.message : String(error)}` };
  }
}

/** Reads what was typed. @param typed JSON of `{form: message|request, text, from, to}` */
export function readAttempt(typed: string): Attempt {
  const { form, text, from, to }: Readonly<Record<'form' | 'text' | 'from' | 'to', string>> = JSON.parse(typed);
  if (text.trim() === '') return { ok: false };
  return form === 'request' ? readRequest(text) : readMessage(text, from, to);
}
