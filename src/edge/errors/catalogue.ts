// The catalogue of edge errors (RFC 9457 and its extension members), by family, and one occurrence of an error (D60-D64).
// Answers, reference pages, docs/errors.md and the tests read it.

import type { AnswerBody } from '../../web/http/listener/whole-response.ts';
import { type CatalogueRows, categories, type EdgeCategory } from './categories.ts';
import { clientErrors } from './client-errors.ts';
import { gatewayErrors } from './gateway-errors.ts';
import { siteErrors } from './site-errors.ts';

type CodeOf<Family> = { [Category in keyof Family]: keyof Family[Category] }[keyof Family];

/** Every code there is. Whatever names an error names it by one of these, so a code without a row does not compile. */
export type EdgeCode = CodeOf<typeof gatewayErrors> | CodeOf<typeof clientErrors> | CodeOf<typeof siteErrors>;

/** An edge error: its row of the catalogue, with what its category says. */
export interface EdgeError {
  readonly code: EdgeCode;
  readonly category: EdgeCategory;
  /** HTTP status of the response (D63). */
  readonly status: number;
  /** `owner_action_required` (D64). */
  readonly ownerAction: boolean;
  /** `error_name`: snake_case, unique, stable. */
  readonly name: string;
  /** `title` is `Error <code>: <short name>`. */
  readonly shortName: string;
  /** Seconds; present exactly where the error is retryable. */
  readonly retryAfterSeconds?: number;
  /** `detail`: what went wrong and who is responsible. Plain text. */
  readonly detail: string;
  /** `what_you_should_do`. Plain text. */
  readonly guidance: string;
  /** What the operator of the site can do about it, for the reference page. Plain text. */
  readonly ownerGuidance: string;
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
  /** The reason phrase. Absent: the usual one of the status. */
  readonly reason?: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: AnswerBody;
}

const families: readonly CatalogueRows[] = [gatewayErrors, clientErrors, siteErrors];

const rows = families.flatMap((family) =>
  Object.entries(family).flatMap(([category, ofCategory]) =>
    Object.entries(ofCategory).map(([code, [name, shortName, detail, guidance, ownerGuidance, more]]) => {
      const { status, ownerAction }: { readonly status?: number; readonly ownerAction: boolean } =
        // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the type of the rows admits no other category
        categories[category as EdgeCategory];
      const texts = { name, shortName, detail, guidance, ownerGuidance };
      return [code, { code: Number(code), category, status: status ?? Number(code), ownerAction, ...texts, ...more }];
    }),
  ),
);

/** Every error by its code. */
export const edgeErrors: Readonly<Record<EdgeCode, EdgeError>> = Object.freeze(Object.fromEntries(rows));

/** Every error, in the order of the codes (integer keys come in ascending order: ECMA-262 §10.1.11.1). */
export const allEdgeErrors: readonly EdgeError[] = Object.values<EdgeError>(edgeErrors);

/** Tells whether a number, such as one out of a path, is a code of the catalogue. */
export function isEdgeCode(code: number): code is EdgeCode {
  return Object.hasOwn(edgeErrors, code);
}
