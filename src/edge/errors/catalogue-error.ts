// What a row of the edge error catalogue says: an edge error, and what its reference page adds.

import type { EdgeCode } from './edge-code.ts';
import type { EdgeError } from './edge-error.ts';

/** One row. */
export interface CatalogueError extends EdgeError {
  /** What the operator of the site can do about it, for the reference page. Plain text. */
  readonly ownerGuidance: string;
}

/** A table of rows: none missing, each under its own code. */
export type CatalogueRows<Code extends EdgeCode> = { readonly [C in Code]: CatalogueError & { readonly code: C } };
