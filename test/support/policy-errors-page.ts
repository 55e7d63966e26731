// Writes the part of docs/errors.md about mail from the same tables that the doors use, so that they cannot disagree.

import {
  type HeaderClass,
  type HeaderRow,
  headerCatalogue,
  type OverSmtp,
  type ValueRule,
} from '../../src/pipeline/policy/header-catalogue.ts';
import { MAX_RECEIVED } from '../../src/pipeline/policy/judge.ts';
import {
  type HttpRejection,
  httpRejections,
  type Rejection,
  rejections,
} from '../../src/pipeline/policy/rejections.ts';
import { headerLimits } from '../../src/pipeline/policy/value-rules.ts';

type Row = readonly string[];

/** A text as it may stand in a cell of a table. */
export function cell(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('<', '&lt;');
}

function table(head: Row, rows: readonly Row[]): string {
  const line = (cells: Row): string => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map((row) => line(row.map(cell)))].join('\n');
}

const classTitles = {
  platform: 'Set by the platform',
  mime: 'Describing the body',
  'first-class': 'Fields of their own',
  allowlisted: 'Allowlisted',
  extension: 'X- headers',
} as const satisfies Record<HeaderClass, string>;

const classTexts = {
  platform:
    'Postern writes these itself, so that nobody can set or override them. In the `headers` of a REST request each of them is E_HEADER_NOT_ALLOWED. The table says what becomes of one in a MIME message.',
  mime: 'A MIME message brings these along, since they describe its body. In the `headers` of a REST request each of them is E_HEADER_NOT_ALLOWED.',
  'first-class':
    'A REST request has fields for these, and in its `headers` each of them is E_HEADER_USE_API_FIELD. A MIME message carries them as headers.',
  allowlisted: `A message may have at most ${headerLimits.allowlisted} of these. They leave in the casing of this table.`,
  extension: 'A message may have any number of these, within the size of all custom headers.',
} as const satisfies Record<HeaderClass, string>;

const overSmtpTexts = {
  lifted: 'taken as the message’s own',
  mime: 'kept as the body’s description',
  replaced: 'left out, the platform writes its own',
  trace: `refused; kept from a trusted hop, of which at most ${MAX_RECEIVED}`,
  refused: 'refused: E_HEADER_NOT_ALLOWED',
  custom: 'judged like by REST',
} as const satisfies Record<OverSmtp, string>;

function valueText(rule: ValueRule): string {
  if (rule.kind === 'free') return 'free';
  if (rule.kind === 'one-of') {
    return `one of ${rule.values.join(', ')} (case does not matter${rule.comments ? '; comments may stand beside it' : ''})`;
  }
  return rule.kind === 'exactly' ? `exactly ${rule.value}` : '<https://...> and <mailto:...> URIs';
}

const signedTexts = { oversigned: 'always', 'if-present': 'if present', no: 'no' } as const;

function headerTable(headerClass: HeaderClass): string {
  const rows: readonly HeaderRow[] = Object.values(headerCatalogue).filter((row) => row.class === headerClass);
  const lines = rows.map((row) => [
    row.name,
    row.apiField ?? row.group,
    row.standard,
    row.overSmtp === 'custom' ? valueText(row.value) : '-',
    overSmtpTexts[row.overSmtp],
    signedTexts[row.signed],
    row.about,
  ]);
  const second = headerClass === 'first-class' ? 'API field' : 'Group';
  const head = ['Header', second, 'Standard', 'Value', 'In a MIME message', 'Signed', 'About'];
  return `#### ${classTitles[headerClass]}\n\n${classTexts[headerClass]}\n\n${table(head, lines)}`;
}

function rejectionTable(): string {
  const lines = Object.entries<Rejection>(rejections).map(([code, row]) => [
    code,
    row.when,
    row.remedy,
    `${row.smtpCode} ${row.enhanced}`,
    `${row.httpStatus}, ${row.number}`,
  ]);
  const ofRequests = Object.entries<HttpRejection>(httpRejections).map(([code, row]) => [
    code,
    row.when,
    row.remedy,
    '-',
    `${row.httpStatus}, ${row.number}`,
  ]);
  return table(['Token', 'When', 'What to do', 'SMTP', 'REST (status, code)'], [...lines, ...ofRequests]);
}

/**
 * Renders the section: every token with its answers, every limit, every header of the catalogue. Markdown.
 * @public for the test that writes docs/errors.md
 */
export function renderRejections(): string {
  const classes = Object.keys(classTitles).filter((key): key is HeaderClass => key in classTitles);
  return `## Why a message is refused

A message is refused whole, and the answer tells every reason at once. First come the faults of the message's own fields (From, To,
Subject and the like), then those of the sender, then those of single headers in the order of the text, then the limits over all headers.
By SMTP each reason is a line of one reply that begins with the reason's token, and the reply has the code of the first reason. By REST each
reason is an item of \`errors\`, and the HTTP status is that of the first.

### Tokens

${rejectionTable()}

### Limits

A value exactly at its limit is accepted. Bytes are counted in the decoded form of a value, written in UTF-8: its folded lines are joined,
blanks and tabs at both ends are taken off, and encoded-words (RFC 2047) are decoded.

${table(
  ['What', 'Limit'],
  [
    ['Name of a header', `${headerLimits.nameBytes} bytes`],
    ['Value of a custom header', `${headerLimits.valueBytes} bytes`],
    ['Allowlisted headers, X- headers not counted', String(headerLimits.allowlisted)],
    [
      'All custom headers: sum of name + 2 + value + 2, X- headers and allowlisted ones together',
      `${headerLimits.totalBytes} bytes`,
    ],
    ['One header name', 'once, compared without case'],
  ],
)}

### Headers

A header that stands in none of these tables and does not begin with X- is E_HEADER_NOT_ALLOWED. The column "Value" tells which values
are accepted, where "free" means any. The column "In a MIME message" tells what happens to a header of a message by SMTP or send_raw. The
column "Signed" tells whether the DKIM signature covers the header.

${classes.map(headerTable).join('\n\n')}
`;
}
