// The header catalogue: every header name the policy knows, one row for each. It decides acceptance, canonical casing,
// value rules, folding, DKIM's h= and docs/errors.md. Sources: the specification's header tables, D3, D8, D9, D27.

/** Who may set a header. */
export type HeaderClass =
  /** Only the platform. */
  | 'platform'
  /** Part of the body's description, which a MIME message brings along (D3). */
  | 'mime'
  /** The submitter, by a field of its own in the API. */
  | 'first-class'
  /** The submitter: the header is on the allowlist and counts among the 20. */
  | 'allowlisted'
  /** The submitter: the name begins with X- and does not count among the 20. */
  | 'extension';

/** What becomes of a header in a message handed over by SMTP or send_raw (D3). */
export type OverSmtp =
  /** Becomes one of the message's own fields. */
  | 'lifted'
  /** Read as the body's description. */
  | 'mime'
  /** Dropped; the platform writes its own. */
  | 'replaced'
  /** Kept as trace from a trusted hop (D4), otherwise refused with E_HEADER_NOT_ALLOWED. */
  | 'trace'
  /** Refused with E_HEADER_NOT_ALLOWED. */
  | 'refused'
  /** Judged as a custom header. */
  | 'custom';

/** The rule for one header's value, besides the rules that hold for all (D8, D9, D14). */
export type ValueRule =
  | { readonly kind: 'free' }
  /** Compared without case and written in this spelling; a value with comments, where allowed, leaves as given (D8). */
  | { readonly kind: 'one-of'; readonly values: readonly string[]; readonly comments?: true }
  /** Compared octet by octet. */
  | { readonly kind: 'exactly'; readonly value: string }
  /** One or more https or mailto URIs in angle brackets (D9). */
  | { readonly kind: 'unsubscribe-uris' };

/** The syntax of a value; folding and encoding depend on it (D12, D13). */
export type ValueSyntax =
  | 'text'
  | 'phrase-list'
  | 'addresses'
  | 'msg-ids'
  | 'date'
  | 'language'
  | 'identifier'
  | 'uris'
  | 'token'
  | 'structured';

/** How DKIM covers a header (D27): h= names it once more than it occurs, as often as it occurs, or not at all. */
export type SignedRule = 'oversigned' | 'if-present' | 'no';

/** One row: everything the policy knows of a header name. */
export interface HeaderRow {
  /** Canonical casing. For a row that stands for a prefix, the prefix and a star: `ARC-*`, `X-*`. */
  readonly name: string;
  readonly class: HeaderClass;
  /** As in the specification's table: Threading, List ...; rows outside the allowlist name their class. */
  readonly group: string;
  /** RFC, or `non-standard`. */
  readonly standard: string;
  readonly value: ValueRule;
  readonly syntax: ValueSyntax;
  /** Another header that the message must have too, and what that must hold. */
  readonly needs?: { readonly name: string; readonly with: 'an https URI' };
  readonly signed: SignedRule;
  readonly overSmtp: OverSmtp;
  /** The field of the REST request that sets this header. */
  readonly apiField?: string;
  /** For docs/errors.md and `check`: what the platform does with the header, or what its value is. */
  readonly about: string;
}

const free = { kind: 'free' } as const;
const structured = { value: free, syntax: 'structured', signed: 'no' } as const;
const platform = { ...structured, class: 'platform', group: 'Platform' } as const;
const refused = { ...platform, overSmtp: 'refused' } as const;
const replaced = { ...platform, standard: 'RFC 5322', signed: 'oversigned', overSmtp: 'replaced' } as const;
const ofBody = { ...platform, standard: 'RFC 2045', signed: 'oversigned', overSmtp: 'mime' } as const;
const tlsReport = {
  ...{ ...refused, standard: 'RFC 8460' },
  about: 'Stands in TLS reports that the platform itself sends.',
} as const;
const feedback = { ...refused, standard: 'RFC 9477', signed: 'if-present' } as const;
const kept = {
  ...structured,
  class: 'mime',
  group: 'MIME',
  overSmtp: 'mime',
  about: 'Of a MIME message, kept.',
} as const;
const message = { class: 'first-class', group: 'Message', value: free, overSmtp: 'lifted' } as const;
const own = { ...message, standard: 'RFC 5322', syntax: 'addresses', signed: 'oversigned' } as const;
const allowed = { class: 'allowlisted', value: free, syntax: 'text', signed: 'no', overSmtp: 'custom' } as const;
const threading = { ...allowed, group: 'Threading' } as const;
const citing = { ...threading, standard: 'RFC 5322', about: 'Free value; used for threading.' } as const;
const cited = { ...citing, syntax: 'msg-ids', signed: 'if-present' } as const;
const list = { ...allowed, group: 'List', standard: 'RFC 2369', syntax: 'uris', signed: 'if-present' } as const;
const content = { ...allowed, group: 'Content' } as const;
const mixer = { ...content, standard: 'RFC 2156', syntax: 'token' } as const;
const delivery = { ...allowed, group: 'Delivery' } as const;
const time = { ...delivery, standard: 'RFC 2156', syntax: 'date' } as const;

/** The table, by name in lower case; `arc-*` and `x-*` stand for their prefixes. */
export const headerCatalogue = {
  // Platform-controlled: cannot be set or overridden.
  date: { ...replaced, name: 'Date', syntax: 'date', about: 'The time of acceptance, in UTC.' },
  'message-id': {
    ...{ ...replaced, name: 'Message-ID' },
    syntax: 'msg-ids',
    about: 'Made by the platform; the client’s own is kept with the record and searchable.',
  },
  'mime-version': { ...ofBody, name: 'MIME-Version', about: 'Always 1.0.' },
  'content-type': { ...ofBody, name: 'Content-Type', about: 'Made from the body parts; of a MIME message, kept.' },
  'content-transfer-encoding': {
    ...ofBody,
    name: 'Content-Transfer-Encoding',
    about: 'Made from what the content needs; of a MIME message, kept where the body passes unchanged.',
  },
  'dkim-signature': { ...refused, name: 'DKIM-Signature', standard: 'RFC 6376', about: 'The platform signs.' },
  'return-path': {
    ...{ ...refused, name: 'Return-Path', standard: 'RFC 5321' },
    about: 'Points at the platform’s bounce processor; written at final delivery only.',
  },
  received: {
    ...{ ...platform, name: 'Received', standard: 'RFC 5321' },
    overSmtp: 'trace',
    about: 'Added at each hop; a client’s own are kept only from a trusted hop.',
  },
  'feedback-id': {
    ...{ ...feedback, name: 'Feedback-ID', standard: 'non-standard' },
    syntax: 'text',
    about: 'Made by the platform for reputation feedback of mailbox providers.',
  },
  'arc-*': {
    ...{ ...refused, name: 'ARC-*', standard: 'RFC 8617' },
    about: 'Authentication chain of forwarders; the platform originates mail and adds none.',
  },
  'tls-required': {
    ...refused,
    name: 'TLS-Required',
    standard: 'RFC 8689',
    about: 'A delivery setting of the account.',
  },
  'tls-report-domain': { ...tlsReport, name: 'TLS-Report-Domain' },
  'tls-report-submitter': { ...tlsReport, name: 'TLS-Report-Submitter' },
  'cfbl-address': { ...feedback, name: 'CFBL-Address', about: 'The platform’s address for complaint feedback.' },
  'cfbl-feedback-id': {
    ...{ ...feedback, name: 'CFBL-Feedback-ID' },
    syntax: 'text',
    about: 'The platform’s reference for complaint feedback.',
  },

  // D3: fields that mailers also put on a single-part message; they describe the top-level entity.
  'content-disposition': { ...kept, name: 'Content-Disposition', standard: 'RFC 2183' },
  'content-id': { ...kept, name: 'Content-ID', standard: 'RFC 2045', syntax: 'msg-ids' },
  'content-description': { ...kept, name: 'Content-Description', standard: 'RFC 2045', syntax: 'text' },
  'content-location': { ...kept, name: 'Content-Location', standard: 'RFC 2557' },

  // First-class fields.
  from: { ...own, name: 'From', apiField: 'from', about: 'Exactly one mailbox, of a sending domain of the account.' },
  to: { ...own, name: 'To', apiField: 'to', about: 'Shown only: RCPT names who gets the message.' },
  cc: { ...own, name: 'Cc', apiField: 'cc', about: 'Shown only: RCPT names who gets the message.' },
  bcc: { ...own, name: 'Bcc', signed: 'no', apiField: 'bcc', about: 'Never leaves, and adds no recipient.' },
  subject: { ...own, name: 'Subject', syntax: 'text', apiField: 'subject', about: 'The subject.' },
  'reply-to': { ...own, name: 'Reply-To', apiField: 'reply_to', about: 'Where replies go.' },

  // The allowlist.
  'in-reply-to': { ...cited, name: 'In-Reply-To' },
  references: { ...cited, name: 'References' },
  'thread-index': { ...threading, name: 'Thread-Index', standard: 'non-standard', about: 'Conversation index.' },
  'thread-topic': { ...threading, name: 'Thread-Topic', standard: 'non-standard', about: 'Conversation subject.' },
  'list-unsubscribe': {
    ...{ ...list, name: 'List-Unsubscribe' },
    signed: 'oversigned',
    value: { kind: 'unsubscribe-uris' },
    about:
      'One or more <https://...> and <mailto:...>, separated by commas; http: is refused, and so is what is no URI, such as an unfilled template. Always signed (RFC 8058).',
  },
  'list-unsubscribe-post': {
    ...{ ...list, name: 'List-Unsubscribe-Post', standard: 'RFC 8058' },
    signed: 'oversigned',
    syntax: 'token',
    value: { kind: 'exactly', value: 'List-Unsubscribe=One-Click' },
    needs: { name: 'List-Unsubscribe', with: 'an https URI' },
    about: 'Exactly List-Unsubscribe=One-Click, beside a List-Unsubscribe with an https URI.',
  },
  'list-id': { ...list, name: 'List-Id', standard: 'RFC 2919', syntax: 'identifier', about: 'Identifies the list.' },
  'list-archive': { ...list, name: 'List-Archive', about: 'URL of the list’s archive.' },
  'list-help': { ...list, name: 'List-Help', about: 'URL for help.' },
  'list-owner': { ...list, name: 'List-Owner', about: 'How to reach the list’s owner.' },
  'list-post': { ...list, name: 'List-Post', about: 'Address for posting.' },
  'list-subscribe': { ...list, name: 'List-Subscribe', about: 'URL or address for subscribing.' },
  precedence: {
    ...{ ...list, name: 'Precedence', standard: 'de facto' },
    syntax: 'token',
    value: { kind: 'one-of', values: ['bulk', 'list', 'junk'] },
    about: 'How the message is sent.',
  },
  'auto-submitted': {
    ...{ ...allowed, group: 'Automated', name: 'Auto-Submitted', standard: 'RFC 3834' },
    syntax: 'token',
    signed: 'if-present',
    value: { kind: 'one-of', values: ['auto-generated', 'auto-replied', 'auto-notified'], comments: true },
    about: 'Sent without a person’s doing.',
  },
  'content-language': {
    ...{ ...content, name: 'Content-Language', standard: 'RFC 3282' },
    syntax: 'language',
    about: 'Language tag of the content.',
  },
  keywords: {
    ...content,
    name: 'Keywords',
    standard: 'RFC 5322',
    syntax: 'phrase-list',
    about: 'Separated by commas.',
  },
  comments: { ...content, name: 'Comments', standard: 'RFC 5322', about: 'Separated by commas.' },
  importance: {
    ...{ ...mixer, name: 'Importance', about: 'How important the message is.' },
    value: { kind: 'one-of', values: ['high', 'normal', 'low'] },
  },
  priority: {
    ...{ ...mixer, name: 'Priority', about: 'How urgent the message is.' },
    value: { kind: 'one-of', values: ['normal', 'non-urgent', 'urgent'] },
  },
  sensitivity: {
    ...{ ...mixer, name: 'Sensitivity', about: 'How the message is to be treated.' },
    value: { kind: 'one-of', values: ['personal', 'private', 'company-confidential'] },
  },
  organization: { ...content, name: 'Organization', standard: 'RFC 4021', about: 'Name of the sender’s organization.' },
  'require-recipient-valid-since': {
    ...{ ...delivery, name: 'Require-Recipient-Valid-Since', standard: 'RFC 7293' },
    syntax: 'structured',
    about: 'Guards against addresses given to someone else since.',
  },
  expires: { ...time, name: 'Expires', about: 'Date and time after which the message is of no use.' },
  'reply-by': { ...time, name: 'Reply-By', about: 'Date and time by which a reply is asked for.' },
  'archived-at': {
    ...{ ...allowed, group: 'Modern', name: 'Archived-At', standard: 'RFC 5064' },
    syntax: 'uris',
    about: 'URL where the message is archived.',
  },

  // Everything that begins with X-.
  'x-*': {
    ...{ ...allowed, group: 'Custom', name: 'X-*', standard: 'non-standard' },
    class: 'extension',
    about: 'Any name of letters, digits, hyphens and underscores behind X-; leaves in the casing given.',
  },
} as const satisfies Record<string, HeaderRow>;

const rows = new Map<string, HeaderRow>(Object.entries(headerCatalogue).filter(([key]) => !key.endsWith('*')));

/** Finds the row of a name in lower case, or of its prefix (ARC-, X-). Only ASCII may be lowered (the Kelvin sign is k, D10). */
export function findHeader(lowerName: string): HeaderRow | undefined {
  const row = rows.get(lowerName);
  if (row) return row;
  if (lowerName.startsWith('x-')) return headerCatalogue['x-*'];
  return lowerName.startsWith('arc-') ? headerCatalogue['arc-*'] : undefined;
}
