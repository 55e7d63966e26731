// The v4 envelope: the one shape of every answer under /client/v4 (D7, D45).

import type { FastifyReply } from 'fastify';

/** What a token is answered with; the gateway hands the table in (`restAnswers` of the policy). */
export interface Answer {
  readonly httpStatus: number;
  readonly number: number;
}

/** The tokens that the HTTP app itself answers with; the table has more. */
export type HttpToken =
  | 'E_VALIDATION_ERROR'
  | 'E_FIELD_MISSING'
  | 'E_UNAUTHORIZED'
  | 'E_FORBIDDEN'
  | 'E_NOT_FOUND'
  | 'E_METHOD_NOT_ALLOWED'
  | 'E_CONTENT_TOO_LARGE'
  | 'E_UNSUPPORTED_MEDIA_TYPE'
  | 'E_RATE_LIMIT_EXCEEDED'
  | 'E_INTERNAL_SERVER_ERROR';

/** Every token with its answer (D45). */
export type AnswerTable = Readonly<Record<HttpToken, Answer>> & Readonly<Record<string, Answer>>;

/** One reason against a request: by its token, or by a number and status of its own (the proxy-application API). */
export type Fault = {
  /** Without the token. */
  readonly message: string;
  /** JSON pointer of what in the body it is about. */
  readonly pointer?: string;
} & (
  | { readonly token: string /** Where it differs from the table's. */; readonly status?: number }
  | { readonly number: number; readonly status: number }
);

/** One item of `errors`. */
export interface EnvelopeError {
  readonly code: number;
  readonly message: string;
  readonly source?: { readonly pointer: string };
}

/** The envelope. */
export interface Envelope {
  readonly success: boolean;
  readonly errors: readonly EnvelopeError[];
  readonly messages: readonly unknown[];
  readonly result: unknown;
}

/** A failure as it is answered: its HTTP status is the first fault's (D42b). */
export function failureOf(
  answers: AnswerTable,
  faults: readonly Fault[],
): { readonly status: number; readonly body: Envelope } {
  let status: number | undefined;
  const errors = faults.map((fault): EnvelopeError => {
    const source = fault.pointer === undefined ? {} : { source: { pointer: fault.pointer.toWellFormed() } };
    if (!('token' in fault)) {
      status ??= fault.status;
      return { code: fault.number, message: fault.message.toWellFormed(), ...source };
    }
    const answer = answers[fault.token] ?? answers.E_INTERNAL_SERVER_ERROR;
    status ??= fault.status ?? answer.httpStatus;
    return { code: answer.number, message: `${fault.token}: ${fault.message.toWellFormed()}`, ...source };
  });
  return { status: status ?? 500, body: { success: false, errors, messages: [], result: null } };
}

/** A request that is refused; thrown where it is simpler than answering, caught once by the app. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
  readonly faults: readonly Fault[];
  readonly retryAfterSeconds: number | undefined;

  constructor(faults: readonly Fault[], retryAfterSeconds?: number) {
    super(faults.map(({ message }) => message).join('; '));
    this.faults = faults;
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

/**
 * Answers a failure in the envelope.
 * @param faults at least one, in the order of the answer
 */
export function refuse(reply: FastifyReply, faults: readonly Fault[], retryAfterSeconds?: number): FastifyReply {
  const { status, body } = failureOf(reply.server.answers, faults);
  if (retryAfterSeconds !== undefined) reply.header('Retry-After', String(retryAfterSeconds));
  return reply.code(status).type('application/json; charset=utf-8').send(JSON.stringify(body));
}

/**
 * Answers a success in the envelope: 200 (D44, D80).
 * @param more members beside `result`: `result_info` of a list
 */
export function succeed(
  reply: FastifyReply,
  result: unknown,
  more: Readonly<Record<string, unknown>> = {},
): FastifyReply {
  const body = { success: true, errors: [], messages: [], result, ...more };
  return reply.code(200).type('application/json; charset=utf-8').send(JSON.stringify(body));
}
