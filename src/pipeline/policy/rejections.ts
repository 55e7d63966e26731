// The rejection table: every E_ token with what each door answers (D7, D41, D45). Doors, docs/errors.md and tests read it.

/** One row: the answer by REST and by SMTP for a token. */
export interface Rejection {
  /** HTTP status (D45). */
  readonly httpStatus: number;
  /** Number in the v4 envelope (D45). */
  readonly number: number;
  /** SMTP reply code (D41). */
  readonly smtpCode: number;
  /** Enhanced status (RFC 3463, RFC 5248). */
  readonly enhanced: string;
  /** When it is given, for docs/errors.md. */
  readonly when: string;
  /** What a sender does about it, for docs/errors.md. */
  readonly remedy: string;
}

const message = { httpStatus: 400, number: 10202, smtpCode: 554, enhanced: '5.6.0' } as const;
const malformed = { ...message, number: 10001 } as const;
const tooMuch = { httpStatus: 429, number: 10004, smtpCode: 451, enhanced: '4.7.0' } as const;

/** The table. */
export const rejections = {
  E_HEADER_NOT_ALLOWED: {
    ...message,
    enhanced: '5.7.1',
    when: 'A header is set by the platform alone, or stands on no list and does not begin with X-.',
    remedy: 'Remove the header, rename it to X-..., or have the operator name it in the credential’s strip list.',
  },
  E_HEADER_USE_API_FIELD: {
    ...message,
    enhanced: '5.7.1',
    when: 'A header in `headers` has a field of its own (From, To, Cc, Bcc, Subject, Reply-To).',
    remedy: 'Use the field: from, to, cc, bcc, subject, reply_to.',
  },
  E_HEADER_VALUE_INVALID: {
    ...message,
    when: 'A value is empty, malformed, holds a forbidden character, breaks the rule of its header, or the header appears twice.',
    remedy: 'Correct the value as the message says; give each header once.',
  },
  E_HEADER_VALUE_TOO_LONG: {
    ...message,
    when: 'A value is over 2,048 bytes of UTF-8.',
    remedy: 'Shorten the value.',
  },
  E_HEADER_NAME_INVALID: {
    ...message,
    when: 'A name has a character that is not allowed, is longer than 100 bytes, or the header line has no colon right behind its name.',
    remedy: 'Use letters, digits and hyphens; underscores only in X- names.',
  },
  E_HEADERS_TOO_LARGE: {
    ...message,
    when: 'All custom headers together are over 16,384 bytes, or the header section is larger than is read.',
    remedy: 'Send fewer or shorter headers.',
  },
  E_HEADERS_TOO_MANY: {
    ...message,
    when: 'More than 20 allowlisted headers, X- headers not counted.',
    remedy: 'Send fewer headers, or move some to X- names.',
  },
  E_VALIDATION_ERROR: {
    ...malformed,
    when: 'The message or request is malformed: an address, the JSON, the MIME structure.',
    remedy: 'Correct what the message names.',
  },
  E_FIELD_MISSING: {
    ...malformed,
    when: 'A required field is not there (From; by REST also to, subject, html or text).',
    remedy: 'Add the field.',
  },
  E_MAIL_LOOP: {
    ...message,
    enhanced: '5.4.6',
    when: 'A message that is kept its Received headers, or from which `strip` removes them, has more than 50 of them, or has passed this gateway more than 3 times.',
    remedy: 'Find the two hosts that send the message to one another.',
  },
  E_TOO_MANY_RECIPIENTS: {
    ...message,
    smtpCode: 452,
    enhanced: '4.5.3',
    when: 'More recipients than one request or transaction takes.',
    remedy: 'Send the message in several parts.',
  },
  E_TOO_MANY_ATTACHMENTS: {
    ...message,
    when: 'More attachments than one request takes.',
    remedy: 'Send fewer attachments.',
  },
  E_SENDER_NOT_VERIFIED: {
    httpStatus: 403,
    number: 10203,
    smtpCode: 550,
    enhanced: '5.7.1',
    when: 'The domain of MAIL FROM or From is no sending domain of the account, or has no DKIM key.',
    remedy: 'Send from a domain of the account, or have the operator add the domain.',
  },
  E_RECIPIENT_SUPPRESSED: {
    ...message,
    smtpCode: 550,
    enhanced: '5.7.1',
    when: 'A recipient is on the account’s suppression list.',
    remedy: 'Remove the recipient, or remove the entry from the list.',
  },
  E_CONTENT_TOO_LARGE: {
    httpStatus: 400,
    number: 10200,
    smtpCode: 552,
    enhanced: '5.3.4',
    when: 'The message is larger than the limit. By REST, 413 where the request itself is over its limit.',
    remedy: 'Send a smaller message; put large files behind a link.',
  },
  E_RATE_LIMIT_EXCEEDED: {
    ...tooMuch,
    when: 'The account sends more messages a minute than it may.',
    remedy: 'Slow down and try again later.',
  },
  E_DAILY_LIMIT_EXCEEDED: {
    ...tooMuch,
    when: 'The account has reached its recipients of the day.',
    remedy: 'Try again tomorrow (UTC), or have the limit raised.',
  },
  E_NO_ROOM: {
    httpStatus: 503,
    number: 10003,
    smtpCode: 452,
    enhanced: '4.3.1',
    when: 'There is no room for the request or message at the moment: on the disk, in the account’s share of the queue, or in memory.',
    remedy:
      'Try again after `Retry-After`; if it persists, the operator makes room. Where it is the account’s share, the message names the limit and what is queued.',
  },
  E_INTERNAL_SERVER_ERROR: {
    httpStatus: 500,
    number: 10002,
    smtpCode: 451,
    enhanced: '4.3.0',
    when: 'Something of Postern’s own failed.',
    remedy: 'Try again; if it persists, give the operator the id.',
  },
} as const satisfies Record<string, Rejection>;

/** Every E_ token that can refuse a message. */
export type RejectionCode = keyof typeof rejections;

/** The row of a token that only an HTTP request can get. */
export type HttpRejection = Omit<Rejection, 'smtpCode' | 'enhanced'>;

/** The tokens for faults of a request itself, which SMTP does not have (D45). */
export const httpRejections = {
  E_UNAUTHORIZED: {
    httpStatus: 401,
    number: 10101,
    when: 'The request has no token, or one that is unknown, expired or revoked. SMTP answers 535 5.7.8.',
    remedy: 'Send `Authorization: Bearer TOKEN` with a token that counts.',
  },
  E_FORBIDDEN: {
    httpStatus: 403,
    number: 10102,
    when: 'The token lacks the scope that the endpoint needs.',
    remedy: 'Use a token of a credential with that scope.',
  },
  E_NOT_FOUND: {
    httpStatus: 404,
    number: 10000,
    when: 'There is no such endpoint or thing, or it is another account’s.',
    remedy: 'Check the path; the account in it is the token’s own, by id or name.',
  },
  E_METHOD_NOT_ALLOWED: {
    httpStatus: 405,
    number: 10000,
    when: 'The endpoint does not take this method; `Allow` names those it takes.',
    remedy: 'Use one of them.',
  },
  E_UNSUPPORTED_MEDIA_TYPE: {
    httpStatus: 415,
    number: 10001,
    when: 'The body is not application/json in UTF-8, or is compressed.',
    remedy: 'Send JSON with `Content-Type: application/json`.',
  },
  E_IDEMPOTENCY_CONFLICT: {
    httpStatus: 409,
    number: 10001,
    when: 'A request with this Idempotency-Key is still under way (409), or the key was used with another body (422).',
    remedy: 'Wait for the first request’s answer and try again; use a new key for another message.',
  },
} as const satisfies Record<string, HttpRejection>;

/** Every E_ token that REST answers with. */
export type RestCode = RejectionCode | keyof typeof httpRejections;

/** Every token with its REST answer; the HTTP app reads this. */
export const restAnswers = { ...rejections, ...httpRejections } as const satisfies Record<RestCode, HttpRejection>;

/** Words of reasons by which pipeline/report/cure.ts finds the cure: they are written, and looked for, from here alone. */
export const tellingWords = {
  isEmpty: ' is empty',
  isRepeated: ' times, at most once is allowed',
  mayHoldOnly: ' may hold only ',
  hasNoDomain: ' has no domain',
  hasNoKey: ' has no DKIM key',
  ofFrom: '(domain of From)',
} as const;

/** One reason; an answer holds all of them (D2). Each door prints it in its own form (D7, D45). */
export interface Violation {
  readonly code: RejectionCode;
  /** The header's name as given (one character an octet over SMTP), where the reason is about one header. */
  readonly name?: string;
  /** What is wrong and what would be right, without the token; it may hold non-ASCII text, which the door escapes. */
  readonly message: string;
  /** REST: the JSON pointer of the faulty value. */
  readonly pointer?: string;
  /** For a limit that is reached: when to try again. */
  readonly retryAfterSeconds?: number;
}
