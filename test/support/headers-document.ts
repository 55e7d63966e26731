// Writes docs/headers.json and the JSON Schema beside it from the tables that the doors use: every field, limit and code.

import { type HeaderRow, headerCatalogue } from '../../src/pipeline/policy/header-catalogue.ts';
import { MAX_RECEIVED } from '../../src/pipeline/policy/judge.ts';
import {
  type HttpRejection,
  httpRejections,
  type Rejection,
  rejections,
} from '../../src/pipeline/policy/rejections.ts';
import { headerLimits } from '../../src/pipeline/policy/value-rules.ts';

/** The version of the document's form: it grows where a reader of the last one could be misled, not with every new row. */
const formVersion = 1;

const text = (description: string, more: object = {}): object => ({ type: 'string', description, ...more });
const count = (description: string): object => ({ type: 'integer', minimum: 0, description });
const oneOf = (description: string, values: readonly string[]): object => ({ enum: values, description });

/** An object all of whose members are there, but for those named. */
function object(properties: Readonly<Record<string, object>>, optional: readonly string[] = []): object {
  const required = Object.keys(properties).filter((name) => !optional.includes(name));
  return { type: 'object', properties, required, additionalProperties: false };
}

const rows: readonly HeaderRow[] = Object.values(headerCatalogue);
const valuesOf = (key: 'class' | 'syntax' | 'signed' | 'overSmtp'): readonly string[] => [
  ...new Set(rows.map((row) => row[key])),
];
const token = { type: 'string', pattern: '^E_[A-Z_]+$', description: 'The token of the reason.' };

const valueRule = {
  description: 'What the value may be, besides the limits and the characters that no value may hold.',
  oneOf: [
    object({ kind: { const: 'free' } }),
    object(
      {
        kind: { const: 'one-of' },
        values: {
          type: 'array',
          items: { type: 'string' },
          description: 'Compared without case; it leaves so spelled.',
        },
        comments: { const: true, description: 'Comments in parentheses may stand beside it.' },
      },
      ['comments'],
    ),
    object({ kind: { const: 'exactly' }, value: text('Compared octet by octet.') }),
    object({ kind: { const: 'unsubscribe-uris' } }),
  ],
};

const header = object(
  {
    name: text('In its canonical casing.'),
    match: oneOf('Whether the name is whole, or the beginning of names.', ['name', 'prefix']),
    class: oneOf('Who may set it.', valuesOf('class')),
    group: text('What it is about.'),
    reference: text('The RFC that defines it, or what it is instead.'),
    referenceUrl: text('Where that RFC is.', { format: 'uri' }),
    value: valueRule,
    syntax: oneOf('How it is folded and encoded.', valuesOf('syntax')),
    needs: object({ name: text('A header that must stand beside it.'), with: text('What that one must hold.') }),
    signed: oneOf('How DKIM covers it.', valuesOf('signed')),
    overSmtp: oneOf('What becomes of it in a message by SMTP or send_raw.', valuesOf('overSmtp')),
    apiField: text('The field of a request that sets it.'),
    about: text('What it is, or what the platform does with it.'),
  },
  ['referenceUrl', 'needs', 'apiField'],
);

const rejection = object(
  {
    code: token,
    when: text('When it is given.'),
    remedy: text('What a sender does about it.'),
    smtp: object({ code: count('The reply code.'), enhanced: text('The enhanced status code.') }),
    http: object({ status: count('The HTTP status.'), code: count('The number in the answer’s errors.') }),
  },
  ['smtp'],
);

const limits = object({
  nameBytes: count('Bytes of a header’s name.'),
  valueBytes: count('Bytes of a custom header’s value, decoded, as UTF-8.'),
  allowlisted: count('Allowlisted headers of a message; X- headers are not counted.'),
  totalBytes: count('Bytes of all custom headers: the sum of name + 2 + value + 2.'),
  received: count('Received headers of a message of a trusted hop.'),
  occurrences: count('How often a name may occur, compared without case.'),
});

/** The JSON Schema of the document, as JSON text. @public for the test that writes it */
export function renderHeadersSchema(): string {
  const { properties, required } = object({
    $schema: text('The schema of this document.'),
    version: { const: formVersion, description: 'The version of the form of this document.' },
    limits,
    unknown: object({
      code: token,
      message: text('A header that no row names is refused so.'),
    }),
    headers: { type: 'array', items: header, description: 'Every name that the policy knows.' },
    rejections: {
      type: 'array',
      items: rejection,
      description: 'Every reason for which mail or a request is refused.',
    },
  }) as { readonly properties: object; readonly required: readonly string[] };
  const schema = {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'The header policy of Postern',
    type: 'object',
    properties,
    required,
    additionalProperties: false,
  };
  return `${JSON.stringify(schema, undefined, 2)}\n`;
}

function headerEntry({ name, class: of, group, standard, about, apiField, needs, ...rest }: HeaderRow): object {
  const rfc = /^RFC (\d+)$/.exec(standard)?.[1];
  return {
    name,
    match: name.endsWith('*') ? 'prefix' : 'name',
    class: of,
    group,
    reference: standard,
    ...(rfc === undefined ? {} : { referenceUrl: `https://www.rfc-editor.org/rfc/rfc${rfc}` }),
    value: rest.value,
    syntax: rest.syntax,
    ...(needs === undefined ? {} : { needs }),
    signed: rest.signed,
    overSmtp: rest.overSmtp,
    ...(apiField === undefined ? {} : { apiField }),
    about,
  };
}

function rejectionEntry([code, row]: readonly [string, HttpRejection & Partial<Rejection>]): object {
  const { when, remedy, smtpCode, enhanced, httpStatus, number } = row;
  const smtp = smtpCode === undefined ? {} : { smtp: { code: smtpCode, enhanced } };
  return { code, when, remedy, ...smtp, http: { status: httpStatus, code: number } };
}

/** The document, as JSON text. @public for the test that writes it */
export function renderHeaders(): string {
  const document = {
    $schema: './headers.schema.json',
    version: formVersion,
    limits: { ...headerLimits, received: MAX_RECEIVED, occurrences: 1 },
    unknown: {
      code: 'E_HEADER_NOT_ALLOWED',
      message: 'A header that no row names and that does not begin with X- is refused.',
    },
    headers: rows.map(headerEntry),
    rejections: [
      ...Object.entries<Rejection>(rejections).map(rejectionEntry),
      ...Object.entries<HttpRejection>(httpRejections).map(rejectionEntry),
    ],
  };
  return `${JSON.stringify(document, undefined, 2)}\n`;
}
