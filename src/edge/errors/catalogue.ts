// The catalogue of edge errors: one table of every code, its rows kept by family. Answers, reference pages, docs/errors.md
// and the tests read it (D63, D64).

import { accessErrors } from './access-errors.ts';
import type { CatalogueError, CatalogueRows } from './catalogue-error.ts';
import { clientErrors } from './client-errors.ts';
import { configurationErrors } from './configuration-errors.ts';
import type { EdgeCode } from './edge-code.ts';
import { gatewayErrors } from './gateway-errors.ts';
import { scriptErrors } from './script-errors.ts';

/** Every error by its code. */
export const edgeErrors: CatalogueRows<EdgeCode> = Object.freeze({
  ...gatewayErrors,
  ...accessErrors,
  ...clientErrors,
  ...configurationErrors,
  ...scriptErrors,
});

/** Every error, in the order of the codes (integer keys come in ascending order: ECMA-262 §10.1.11.1). */
export const allEdgeErrors: readonly CatalogueError[] = Object.values<CatalogueError>(edgeErrors);

const codes: ReadonlySet<number> = new Set(allEdgeErrors.map(({ code }) => code));

/** Tells whether a number, such as one out of a path, is a code of the catalogue. */
export function isEdgeCode(code: number): code is EdgeCode {
  return codes.has(code);
}

/** The error of a number that may be any; undefined where the catalogue has none. */
export function findEdgeError(code: number): CatalogueError | undefined {
  return isEdgeCode(code) ? edgeErrors[code] : undefined;
}
