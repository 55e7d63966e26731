// The catalogue of edge errors: one table of every code, its rows kept by family. Answers, reference pages, docs/errors.md
// and the tests read it (D63, D64).

import { type AccessCode, accessErrors } from './access-errors.ts';
import type { CatalogueError, CatalogueRows } from './catalogue-error.ts';
import { type ClientCode, clientErrors } from './client-errors.ts';
import { type ConfigurationCode, configurationErrors } from './configuration-errors.ts';
import { type GatewayCode, gatewayErrors } from './gateway-errors.ts';
import { type ScriptCode, scriptErrors } from './script-errors.ts';

/** Every code there is. */
export type EdgeCode = GatewayCode | AccessCode | ClientCode | ConfigurationCode | ScriptCode;

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

const byCode: ReadonlyMap<number, CatalogueError> = new Map(allEdgeErrors.map((error) => [error.code, error]));

/** The error of a code; undefined where the catalogue has none. */
export function findEdgeError(code: number): CatalogueError | undefined {
  return byCode.get(code);
}
