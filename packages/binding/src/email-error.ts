// Why a message was not sent, as an Error, read from the server's answer (D7, D45, D49).

/** One reason. */
export interface EmailViolation {
  /** The E_ token. */
  readonly code: string;
  /** What is wrong and what would be right. */
  readonly message: string;
  /** JSON pointer into the request, such as `/headers/X-Campaign-ID`. */
  readonly pointer?: string;
  /** The header's name, where the reason is about one custom header. */
  readonly name?: string;
  /** The number the server gives the reason. */
  readonly number?: number;
  /** The page of the rule that the header breaks, where the reason is about a header. */
  readonly ruleUrl?: string;
}

/** What an EmailError tells besides its reasons. */
export interface EmailErrorFacts {
  /** HTTP status; absent where there was no answer. */
  readonly status?: number | undefined;
  /** How long to wait before trying again, where the server says so. */
  readonly retryAfterSeconds?: number | undefined;
  readonly cause?: unknown;
}

/**
 * A message that was not sent. Codes beside those of the server: E_NETWORK_ERROR (no connection, or it broke),
 * E_TIMEOUT, E_UNEXPECTED_RESPONSE (an answer that is none of this API's).
 */
export class EmailError extends Error {
  /** The first reason's E_ token. */
  readonly code: string;
  /** Every reason, in the server's order; at least one. */
  readonly violations: readonly EmailViolation[];
  /** HTTP status; undefined where there was no answer, 0 for a redirect in a browser, which hides the status. */
  readonly status: number | undefined;
  readonly retryAfterSeconds: number | undefined;

  constructor(violations: readonly [EmailViolation, ...EmailViolation[]], facts: EmailErrorFacts = {}) {
    const [first, ...more] = violations;
    const rest = more.length === 0 ? '' : ` (and ${more.length} more)`;
    super(`${first.code}: ${first.message}${rest}`, 'cause' in facts ? { cause: facts.cause } : undefined);
    this.name = 'EmailError';
    this.code = first.code;
    this.violations = violations;
    this.status = facts.status;
    this.retryAfterSeconds = facts.retryAfterSeconds;
  }
}

/** Members of an answer, if it is an object. */
export function membersOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}

const headersPointer = '/headers/';

/** RFC 6901 §4: ~1 is a slash, ~0 a tilde. */
function headerName(pointer: string): string | undefined {
  if (!pointer.startsWith(headersPointer)) return undefined;
  return pointer.slice(headersPointer.length).replaceAll('~1', '/').replaceAll('~0', '~');
}

function violationOf(item: unknown): EmailViolation | undefined {
  const { code, message, rule_url: ruleUrl, source } = membersOf(item);
  const read = typeof message === 'string' ? /^(E_[A-Z0-9_]+)(?:: ?)?/.exec(message) : null;
  if (typeof message !== 'string' || !read?.[1]) return undefined;
  const { pointer } = membersOf(source);
  const name = typeof pointer === 'string' ? headerName(pointer) : undefined;
  return {
    code: read[1],
    message: message.slice(read[0].length),
    ...(typeof pointer === 'string' ? { pointer } : {}),
    ...(name === undefined ? {} : { name }),
    ...(typeof code === 'number' ? { number: code } : {}),
    ...(typeof ruleUrl === 'string' ? { ruleUrl } : {}),
  };
}

/** RFC 9110 §10.2.3; the form with a date is read too, against the client's clock. */
function retryAfterSeconds(header: string | null): number | undefined {
  if (header === null) return undefined;
  if (/^[0-9]{1,9}$/.test(header)) return Number(header);
  const at = Date.parse(header);
  return Number.isNaN(at) ? undefined : Math.max(0, Math.ceil((at - Date.now()) / 1000));
}

/** Makes an error of an answer that is no success. */
export function errorOfAnswer(response: Pick<Response, 'status' | 'headers'>, answer: unknown): EmailError {
  const { errors } = membersOf(answer);
  const [first, ...more] = (Array.isArray(errors) ? errors : []).flatMap((item: unknown) => violationOf(item) ?? []);
  const unexpected: EmailViolation = {
    code: 'E_UNEXPECTED_RESPONSE',
    message:
      response.status === 0
        ? 'The server answered with a redirect, and redirects are not followed'
        : `The server answered ${response.status} with something else than this API’s JSON`,
  };
  return new EmailError(first ? [first, ...more] : [unexpected], {
    status: response.status,
    retryAfterSeconds: retryAfterSeconds(response.headers.get('retry-after')),
  });
}
