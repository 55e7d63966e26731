// The documents that the API serves about itself: the OpenAPI document, the reference, and the page at `/`. They are made when
// they are first asked for, and only once, so that no client can make the process render anything again.

import type { AnswerTable } from './envelope.ts';
import { type DocumentedRoute, openApiDocument, statusesOf } from './openapi.ts';
import { type FixedDocument, fixedDocument } from './page/fixed-document.ts';
import { homePageSecurityPolicy, renderHome } from './page/home-page.ts';
import { renderReference } from './reference/reference-page.ts';
import { referenceStyle } from './reference/reference-style.ts';
import type { DescribedError } from './reference/words.ts';
import type { V4Token } from './v4-code.ts';

/** The documents. All answers share their octets. */
export interface Documents {
  readonly openApi: FixedDocument;
  readonly reference: FixedDocument;
  readonly home: FixedDocument;
}

/** The error numbers without a token that routes name: each once, with all its statuses, in ascending order. */
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

/** Every error that these routes may answer with: the tokens, then the numbers without a token. */
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
 * Gives a function that returns the documents and makes them at its first call.
 * @param routes may still grow until the first call
 */
export function createDocuments(routes: readonly DocumentedRoute[], answers: AnswerTable): () => Documents {
  let documents: Documents | undefined;
  return () => (documents ??= makeDocuments(routes, answers));
}
