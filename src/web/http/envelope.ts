// The v4 envelope: the one shape of every answer under /client/v4 (D7, D45).

import type { FastifyReply } from 'fastify';
import { TooMuchAsked, Unavailable } from '../../base/errors.ts';
import { cutText } from './json/cut-text.ts';

// The codes of failures under /client/v4 (D45, D82); their texts are in the policy's rejections and the proxy's rules.

/** The tokens that a `message` may begin with. */
export type V4Token =
  | 'E_HEADER_NOT_ALLOWED'
  | 'E_HEADER_USE_API_FIELD'
  | 'E_HEADER_VALUE_INVALID'
  | 'E_HEADER_VALUE_TOO_LONG'
  | 'E_HEADER_NAME_INVALID'
  | 'E_HEADERS_TOO_LARGE'
  | 'E_HEADERS_TOO_MANY'
  | 'E_VALIDATION_ERROR'
  | 'E_FIELD_MISSING'
  | 'E_MAIL_LOOP'
  | 'E_TOO_MANY_RECIPIENTS'
  | 'E_TOO_MANY_ATTACHMENTS'
  | 'E_SENDER_NOT_VERIFIED'
  | 'E_RECIPIENT_SUPPRESSED'
  | 'E_CONTENT_TOO_LARGE'
  | 'E_RATE_LIMIT_EXCEEDED'
  | 'E_DAILY_LIMIT_EXCEEDED'
  | 'E_NO_ROOM'
  | 'E_INTERNAL_SERVER_ERROR'
  | 'E_UNAUTHORIZED'
  | 'E_FORBIDDEN'
  | 'E_NOT_FOUND'
  | 'E_METHOD_NOT_ALLOWED'
  | 'E_UNSUPPORTED_MEDIA_TYPE'
  | 'E_IDEMPOTENCY_CONFLICT';

/** The numbers of the tokens (D45); several tokens share one. */
export type TokenNumber = 10000 | 10001 | 10002 | 10003 | 10004 | 10101 | 10102 | 10200 | 10202 | 10203;

/** The numbers of the rules of proxy applications, which have no token (D82). */
export type RuleCode =
  | 10002
  | 10012
  | 11000
  | 11001
  | 11002
  | 11004
  | 11014
  | 11018
  | 11019
  | 11026
  | 11033
  | 11034
  | 11041
  | 11042
  | 11043
  | 11044
  | 11045
  | 11050
  | 12005
  | 13002
  | 16001;

/** Every `code` that an item of `errors` may have. */
export type V4Number = TokenNumber | RuleCode;

/** The number, status and texts that a token is answered with. The gateway passes the table in (`restAnswers` of the policy). */
interface TokenAnswer {
  readonly httpStatus: number;
  readonly number: TokenNumber;
  /** When the token is answered, for the reference. */
  readonly when: string;
  /** What a caller can do about it, for the reference. */
  readonly remedy: string;
}

/** Every token with its answer (D45). */
export type AnswerTable = Readonly<Record<V4Token, TokenAnswer>>;

/** One reason against a request: by its token, or by a number and status of its own (the proxy-application API). */
export type Fault = {
  /** Without the token. */
  readonly message: string;
  /** JSON pointer to the place in the body that the fault is about. */
  readonly pointer?: string;
  /** The page that tells more of this refusal. */
  readonly documentationUrl?: string;
  /** The page of the rule that its header breaks. */
  readonly ruleUrl?: string;
} & (
  | { readonly token: V4Token /** Where it differs from the table's. */; readonly status?: number }
  | { readonly number: V4Number; readonly status: number }
);

interface EnvelopeError {
  readonly code: V4Number;
  readonly message: string;
  readonly documentation_url?: string | undefined;
  readonly rule_url?: string | undefined;
  readonly source?: { readonly pointer: string } | undefined;
}

/** The envelope. */
export interface V4Envelope {
  readonly success: boolean;
  readonly errors: readonly EnvelopeError[];
  readonly messages: readonly unknown[];
  readonly result: unknown;
}

/** The most faults that one answer tells; of the others it tells the number. */
export const maxFaults = 100;
/** The most octets of all faults of one answer; a fault that does not fit is counted with the others. */
const maxFaultOctets = 65_536;
/** The most characters of a message, and of a pointer. */
const maxMessageCharacters = 8192;
const maxPointerCharacters = 2048;

function answerOf(answers: AnswerTable, fault: Fault): { readonly status: number; readonly code: V4Number } {
  if (!('token' in fault)) return { status: fault.status, code: fault.number };
  const answer = answers[fault.token];
  return { status: fault.status ?? answer.httpStatus, code: answer.number };
}

function errorOf(answers: AnswerTable, fault: Fault): EnvelopeError {
  const { code } = answerOf(answers, fault);
  const text = cutText(fault.message, maxMessageCharacters).toWellFormed();
  const message = 'token' in fault ? `${fault.token}: ${text}` : text;
  const pointer = fault.pointer && cutText(fault.pointer, maxPointerCharacters).toWellFormed();
  const source = pointer === undefined ? undefined : { pointer };
  return { code, message, documentation_url: fault.documentationUrl, rule_url: fault.ruleUrl, source };
}

/** Writes the faults as `errors`, at most 100 and 64 KiB; one more item tells how many are left out. So the answer stays small. */
function errorsOf(answers: AnswerTable, faults: readonly Fault[]): readonly EnvelopeError[] {
  const errors: EnvelopeError[] = [];
  let octets = 0;
  for (const fault of faults) {
    const error = errorOf(answers, fault);
    octets += Buffer.byteLength(JSON.stringify(error)) + 1;
    if (errors.length === maxFaults || (octets > maxFaultOctets && errors.length > 0)) {
      const message = `${faults.length - errors.length} more faults are not told`;
      const { pointer: _, ruleUrl: __, ...rest } = fault;
      errors.push(errorOf(answers, { ...rest, message }));
      return errors;
    }
    errors.push(error);
  }
  return errors;
}

/** The status and body that answer a failure. The HTTP status is that of the first fault (D42b). */
export function failureOf(
  answers: AnswerTable,
  faults: readonly Fault[],
): { readonly status: number; readonly body: V4Envelope } {
  const [first] = faults;
  const status = first ? answerOf(answers, first).status : 500;
  return { status, body: { success: false, errors: errorsOf(answers, faults), messages: [], result: null } };
}

/** What a client is told of an error thrown below the API, without its words. @param rayId finds the line of the log */
export function faultOf(error: unknown, rayId: string): Fault {
  if (error instanceof TooMuchAsked) return { token: 'E_RATE_LIMIT_EXCEEDED', message: error.message };
  if (!(error instanceof Unavailable)) {
    return { token: 'E_INTERNAL_SERVER_ERROR', message: `Internal error, Ray ID ${rayId}` };
  }
  if (error.reason === 'share') return { token: 'E_NO_ROOM', message: error.message, status: 503 };
  const [token, text] =
    error.reason === 'room'
      ? (['E_NO_ROOM', 'There is no room for mail at the moment'] as const)
      : (['E_INTERNAL_SERVER_ERROR', 'The database cannot be written at the moment'] as const);
  const message = `${text}, Ray ID ${rayId}; try again in ${error.retryAfterSeconds} s`;
  return { token, message, status: 503 };
}

/** Refuses a request. It is thrown where that is simpler than answering, and the app catches it. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
  readonly faults: readonly Fault[];
  readonly retryAfterSeconds: number | undefined;

  constructor(faults: readonly Fault[], retryAfterSeconds?: number) {
    const [first] = faults;
    super(first && cutText(first.message, 1000));
    this.faults = faults;
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

/** Makes the refusal for one reason. @param token decides on the status */
export function refusal(token: V4Token, message: string, retryAfterSeconds?: number): Refusal {
  return new Refusal([{ token, message }], retryAfterSeconds);
}

/** Answers a failure in the envelope. @param faults at least one, in the order of the answer */
export function refuse(reply: FastifyReply, faults: readonly Fault[], retryAfterSeconds?: number): FastifyReply {
  const { status, body } = failureOf(reply.server.answers, faults);
  if (retryAfterSeconds !== undefined) reply.header('Retry-After', String(retryAfterSeconds));
  return reply.code(status).type('application/json; charset=utf-8').send(JSON.stringify(body));
}

/** Answers a success in the envelope: 200 (D44, D80). @param more members beside `result`: `result_info` of a list */
export function succeed(
  reply: FastifyReply,
  result: unknown,
  more: Readonly<Record<string, unknown>> = {},
): FastifyReply {
  const body = { success: true, errors: [], messages: [], result, ...more };
  return reply.code(200).type('application/json; charset=utf-8').send(JSON.stringify(body));
}

/** Answers a page. @param page.next its cursor */
export function succeedWithPage(
  reply: FastifyReply,
  rows: readonly unknown[],
  page: { readonly limit: number; readonly next?: number | string | undefined },
  more: Readonly<Record<string, unknown>> = {},
): FastifyReply {
  const cursor = page.next === undefined ? null : String(page.next);
  return succeed(reply, rows, { result_info: { count: rows.length, per_page: page.limit, cursor }, ...more });
}
