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

/** The header section of a message, unfolded. */
function headOf(text: string): string {
  const lines = linesOf(text);
  const end = lines.indexOf('');
  const head = lines.slice(0, end === -1 ? lines.length : end).join('\n');
  return head.replace(/\n(?=[ \t])/g, '');
}

/** The addresses of the address field of a name, well enough for the envelope of a trial. */
function addressesOf(head: string, name: string): readonly string[] {
  const value = new RegExp(`^${name}:([^\\n]*)`, 'im').exec(head)?.[1] ?? '';
  // One that nothing ends goes to the end: else the search would begin again at each of the quotation marks in it.
  const plain = value.replace(/"(?:\\.?|[^"\\])*(?:"|$)/g, '');
  return plain
    .split(',')
    .map((part) => /<([^<>]*)>/.exec(part)?.[1] ?? part)
    .map((part) => part.trim().replace(/^.*:/, '').replace(/;$/, '').trim())
    .filter((part) => part.includes('@'));
}

function readMessage(text: string): Attempt {
  const head = headOf(text);
  const recipients = ['to', 'cc', 'bcc'].flatMap((name) => addressesOf(head, name));
  const [from = ''] = addressesOf(head, 'from');
  const raw = text.replace(/\r\n|\r|\n/g, '\r\n');
  const send = { from, recipients: [...new Set(recipients)], mime_message: raw };
  return { ok: true, judge: { raw }, ...(recipients.length > 0 ? { send } : {}) };
}

function readRequest(text: string): Attempt {
  try {
    const body: unknown = JSON.parse(text);
    return { ok: true, judge: body, send: body };
  } catch (error) {
    return { ok: false, fault: `This is no JSON yet: ${error instanceof Error ? error.message : String(error)}` };
  }
}

/** Reads what was typed. @param typed JSON of `{form: message|request, text}` */
export function readAttempt(typed: string): Attempt {
  const { form, text }: Readonly<Record<'form' | 'text', string>> = JSON.parse(typed);
  if (text.trim() === '') return { ok: false };
  return form === 'request' ? readRequest(text) : readMessage(text);
}
