// What an edge error is (RFC 9457 and its extension members): the row of the catalogue, and one occurrence of it (D60-D64).

import type { AnswerBody } from '../../http/listener/whole-response.ts';
import type { EdgeCode } from './edge-code.ts';

/** Which party an error is laid to; the members `error_category` may have. */
export type EdgeCategory =
  | 'origin'
  | 'platform'
  | 'ssl'
  | 'access_denied'
  | 'rate_limit'
  | 'dns'
  | 'config'
  | 'tls'
  | 'legal'
  | 'worker'
  | 'rewrite'
  | 'snippet'
  | 'unsupported';

/** One row of the catalogue. */
export interface EdgeError {
  /** 5xx or 1xxx. */
  readonly code: EdgeCode;
  /** HTTP status of the response (D63). */
  readonly status: number;
  /** `error_name`: snake_case, unique, stable. */
  readonly name: string;
  /** The short name: `title` is `Error <code>: <short name>`. */
  readonly shortName: string;
  readonly category: EdgeCategory;
  /** Seconds; present exactly where the error is retryable. */
  readonly retryAfterSeconds?: number;
  /** `owner_action_required` (D64). */
  readonly ownerAction: boolean;
  /** `detail`: what went wrong and who is responsible. Plain text. */
  readonly detail: string;
  /** `what_you_should_do`. Plain text. */
  readonly guidance: string;
  /** True where the specification does not classify the code (D63). */
  readonly chosen?: true;
}

/** One error as it happened: what a renderer writes. */
export interface EdgeOccurrence {
  readonly error: EdgeError;
  /** 16 lower-case hex, the response's Ray-ID (D62). */
  readonly rayId: string;
  /** When, milliseconds since 1970. */
  readonly at: number;
  /** The requested Host in lower case without port and trailing dot; hostile text is possible. */
  readonly zone: string;
  /** Seconds; a rate limiter's own value in place of the catalogue's (D60). Absent where the error is not retryable. */
  readonly retryAfterSeconds?: number | undefined;
  /** Where the pages about errors are, without a slash at the end; absent where clients cannot be told a place (D62). */
  readonly docsBaseUrl?: string | undefined;
}

/** What a default response may be written as: the two JSON types have the same body (D61, D62). */
export type EdgeFormat = 'json' | 'problem' | 'markdown' | 'html';

/** The request that met an error, as far as Custom Error Rules may ask (D65). */
export interface ErrorRequest {
  readonly method: string;
  /** Path without the query. */
  readonly path: string;
  /** As `EdgeOccurrence.zone`. */
  readonly host: string;
  /** Values of a field, every line of it; `name` in lower case. Empty where there is none. */
  readonly header: (name: string) => readonly string[];
  /** The client's address (D66). */
  readonly clientAddress: string;
}

/** A whole answer, ready to be sent; header names in canonical casing, without Ray-ID and Content-Length. */
export interface ErrorAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: AnswerBody;
}
