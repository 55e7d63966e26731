// The catalogue of edge errors, by family. Answers, reference pages, docs/errors.md and the tests read it (D63, D64).

import { type CatalogueRows, categories, type EdgeCategory } from './categories.ts';
import { clientErrors } from './client-errors.ts';
import type { EdgeCode, EdgeError } from './edge-error.ts';
import { gatewayErrors } from './gateway-errors.ts';
import { siteErrors } from './site-errors.ts';

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
