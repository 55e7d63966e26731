// What send, send_raw and validate take and give: for judging, and for the OpenAPI document (D43, D44, D46, D47).

import { Type } from 'typebox';

const { Optional } = Type;

const strict = { additionalProperties: false } as const;

/** A text. @param more of the schema, before its description */
function text(description: string, example?: string, more?: Type.TStringOptions) {
  return Type.String({ ...more, description, ...(example === undefined ? {} : { example }) });
}

const addressForms = 'an address: "a@b", "Name <a@b>" or {"address", "name"}';

const NamedAddress = Type.Object(
  {
    address: text('The mailbox alone.', 'ana@example.com'),
    name: Optional(text('The display name, any characters.', 'Ana, Support', { maxLength: 998 })),
  },
  { ...strict, title: 'NamedAddress' },
);

const Address = Type.Union([text('`a@b` or `Name <a@b>`.', 'Ana <ana@example.com>'), NamedAddress], {
  title: 'Address',
  want: addressForms,
  description: 'A mailbox, with or without a display name.',
});

const OneAddress = Type.Union([Address, Type.Array(Address, { minItems: 1, maxItems: 1 })], { want: addressForms });

const Addresses = Type.Union([Address, Type.Array(Address)], {
  title: 'Addresses',
  want: `${addressForms}, or an array of these`,
  description: 'One address, or an array of addresses.',
});

const Attachment = Type.Object(
  {
    content: text('The octets in base64 (RFC 4648 §4), padded, without line breaks.', 'SGVsbG8='),
    filename: Optional(Type.String({ maxLength: 255, example: 'hello.txt' })),
    type: Optional(text('Media type; application/octet-stream where absent.', 'text/plain', { maxLength: 998 })),
    disposition: Optional(
      Type.Enum(['attachment', 'inline'], { description: 'attachment where absent; inline goes beside the HTML.' }),
    ),
    content_id: Optional(text('What `cid:` in the HTML names.', 'logo@example.com', { maxLength: 998 })),
  },
  { ...strict, title: 'Attachment' },
);

const Headers = Type.Unsafe<Readonly<Record<string, unknown>> | null>({
  // D5: an empty array is what some languages write for an empty map.
  type: ['object', 'array', 'null'],
  maxItems: 0,
  want: 'an object of names and values',
  description:
    'Custom headers: those of the allowlist and any that begin with X-. Each name once, compared without case; each value a string. See docs/errors.md for the rules.',
  additionalProperties: { description: 'A string of at most 2,048 bytes of UTF-8.' },
  example: { 'X-Campaign-ID': 'spring' },
});

/** The body of `send` (D43). */
export const SendRequest = Type.Object(
  {
    from: OneAddress,
    to: Addresses,
    cc: Optional(Addresses),
    bcc: Optional(Addresses),
    reply_to: Optional(Addresses),
    subject: Type.String({ example: 'Hello' }),
    text: Optional(text('The plain text. One of text and html is required.', 'A first message.')),
    html: Optional(text('The HTML.', '<p>A first message.</p>')),
    attachments: Optional(Type.Array(Attachment)),
    headers: Optional(Headers),
  },
  {
    ...strict,
    title: 'SendRequest',
    description: 'A message in its parts.',
    example: {
      from: 'Shop <shop@example.com>',
      to: 'ana@example.net',
      subject: 'Hello',
      text: 'A first message.',
      html: '<p>A first message.</p>',
      headers: { 'X-Campaign-ID': 'spring' },
    },
  },
);

/** The body of `send_raw` (D46). */
export const SendRawRequest = Type.Object(
  {
    from: text('The reverse-path, as of MAIL FROM; empty is the null one.', 'shop@example.com'),
    recipients: Type.Array(Type.String({ example: 'you@example.net' }), {
      description: 'As of RCPT TO. Headers such as To add none.',
    }),
    mime_message: text(
      'The message with its header section, lines ending with CRLF, as a client would send it by SMTP. One without any CRLF is text whose lines end with LF, and is converted.',
      'From: shop@example.com\r\nSubject: Hello\r\n\r\nHi.\r\n',
    ),
  },
  { ...strict, title: 'SendRawRequest', description: 'A finished MIME message with its envelope.' },
);

/** The body of `validate`: either of the two (D47). */
export const ValidateRequest = Type.Union([SendRequest, SendRawRequest], { title: 'ValidateRequest' });

/** What became of the recipients (D44). */
export const SendResult = Type.Object(
  {
    delivered: Type.Array(Type.String(), { description: 'The next hop has them: only with `Prefer: wait`.' }),
    permanent_bounces: Type.Array(Type.String(), {
      description: 'The next hop refused them for good: only with `Prefer: wait`.',
    }),
    queued: Type.Array(Type.String(), { description: 'Safe on disk, delivery goes on.' }),
    message_id: Type.String({ example: '019cae1a-0030-7000-8000-000000000001@platform.example' }),
  },
  { title: 'SendResult' },
);

const Problem = Type.Object(
  {
    code: Type.Integer({ example: 10202 }),
    message: Type.String({ example: 'E_HEADER_NOT_ALLOWED: User-Agent is not on the allowlist' }),
    source: Optional(Type.Object({ pointer: Type.String({ example: '/headers/User-Agent' }) })),
  },
  { title: 'Problem' },
);

const count = Type.Integer();
const limits = { allowlisted_headers: count, header_bytes: count, message_bytes: count, recipients: count };

/** The verdict of `validate` (D47). */
export const ValidateResult = Type.Object(
  {
    valid: Type.Boolean(),
    errors: Type.Array(Problem, { description: 'What `send` or `send_raw` would answer, in its order.' }),
    usage: Type.Object({
      ...limits,
      header_bytes: Type.Integer({ description: 'Custom headers: sum of name + 2 + value + 2.' }),
      message_bytes: Type.Union([Type.Integer(), Type.Null()], { description: 'Of the message as it would leave.' }),
    }),
    limits: Type.Object(limits),
    headers: Type.Array(
      Type.Object({
        name: Type.String(),
        verdict: Type.Enum(['admitted', 'lifted', 'mime', 'replaced', 'trace', 'stripped', 'refused']),
        rule: Type.String(),
        standard: Optional(Type.String()),
        token: Optional(Type.String()),
      }),
      { description: 'Each header’s verdict, in the order of the text.' },
    ),
    headers_as_sent: Type.Union([Type.Array(Type.String()), Type.Null()], {
      description:
        'The header fields as they would leave, folded, without their last line end; null where the message is refused.',
    }),
  },
  { title: 'ValidateResult' },
);

/** The body of `rehearse`. */
export const RehearseRequest = Type.Union([
  SendRequest,
  SendRawRequest,
  Type.Object(
    { raw: text('A message as it would be handed in by SMTP, with line ends of CRLF or LF') },
    { title: 'RehearseRawRequest' },
  ),
]);

/** The answer of `rehearse`. */
export const RehearseResult = Type.Object(
  {
    ...ValidateResult.properties,
    verdicts: Type.Array(
      Type.Object({
        name: Type.String(),
        value: Type.Union([Type.String(), Type.Null()]),
        verdict: Type.Enum(['lifted', 'read', 'kept', 'replaced', 'stripped', 'refused']),
        rule: Type.String(),
        reference: Type.Union([Type.String(), Type.Null()]),
        code: Optional(Type.String()),
        message: Optional(Type.String()),
      }),
      { description: 'Each field of the text, in its order' },
    ),
    sent: Type.Union([Type.Object({ text: Type.String(), is_whole: Type.Boolean() }), Type.Null()], {
      description: 'The message as it would leave, its first 256 KiB; null where it is refused',
    }),
  },
  { title: 'RehearseResult' },
);
