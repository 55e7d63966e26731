// The documents that the API serves about itself: the OpenAPI document, the reference, and the page at `/`. Each is made
// when it is first asked for, and then once and for all: no client makes the process render anything twice.

import type { AnswerTable } from './envelope.ts';
import { type DocumentedRoute, openApiDocument, statusesOf } from './openapi.ts';
import { type FixedDocument, fixedDocument } from './page/fixed-document.ts';
import { homePageSecurityPolicy, renderHome } from './page/home-page.ts';
import { renderReference } from './reference/reference-page.ts';
import { referenceStyle } from './reference/reference-style.ts';
import type { DescribedError } from './reference/words.ts';
import type { V4Token } from './v4-code.ts';

/** The documents, as octets that all answers share. */
export interface Documents {
  readonly openApi: FixedDocument;
  readonly reference: FixedDocument;
  readonly home: FixedDocument;
}

/** The numbers without a token that routes name, each once with all its statuses, in ascending order. */
function describedCodes(routes: readonly DocumentedRoute[]): readonly DescribedError[] {
  const found = new Map<number, DescribedError>();
  for (const { number, status, described } of routes.flatMap(({ schema }) => schema.codes ?? [])) {
    const known = found.get(number);
    const statuses = [...new Set([...(known?.statuses ?? []), status])];
    const texts = described ?? known;
    if (texts) found.set(number, { ...texts, key: String(number), number, statuses });
  }
  return [...found.values()].sort((one, other) => one.number - other.number);
}

/** Everything that an answer of these routes may name as its reason: the tokens, then the numbers without one. */
function describedErrors(routes: readonly DocumentedRoute[], answers: AnswerTable): readonly DescribedError[] {
  const isToken = (key: string): key is V4Token => Object.hasOwn(answers, key);
  const tokens = Object.keys(answers)
    .filter(isToken)
    .map((key) => {
      const { number, when, remedy } = answers[key];
      return { key, number, statuses: statusesOf(key, answers), when, remedy };
    });
  return [...tokens, ...describedCodes(routes)];
}

function makeDocuments(routes: readonly DocumentedRoute[], answers: AnswerTable): Documents {
  const document = openApiDocument(routes, answers);
  return {
    openApi: fixedDocument(`${JSON.stringify(document, null, 2)}\n`, {
      contentType: 'application/json; charset=utf-8',
    }),
    reference: fixedDocument(renderReference(document, describedErrors(routes, answers)), {
      contentType: 'text/html; charset=utf-8',
      contentSecurityPolicy: referenceStyle.contentSecurityPolicy,
    }),
    home: fixedDocument(renderHome(), {
      contentType: 'text/html; charset=utf-8',
      contentSecurityPolicy: homePageSecurityPolicy,
    }),
  };
}

/**
 * Gives the documents, made at the first call.
 * @param routes all of them by then
 */
export function createDocuments(routes: readonly DocumentedRoute[], answers: AnswerTable): () => Documents {
  let documents: Documents | undefined;
  return () => (documents ??= makeDocuments(routes, answers));
}
