// Lists the fields that DKIM covers, and how (D27), from the header catalogue's `signed` column. The list stands here
// because `sign` depends on messages, not on the policy.

import { type HeaderRow, headerCatalogue } from '../policy/header-catalogue.ts';

/** One field that DKIM covers. */
export interface SignedName {
  /** Canonical casing, as h= has it. */
  readonly name: string;
  /** h= names it once more than it occurs. */
  readonly oversigned: boolean;
}

/** The rank of a row in h=: From and the message's other own fields, then the other oversigned ones, then the rest. */
function order(row: HeaderRow): number {
  if (row.signed !== 'oversigned') return 2;
  return row.class === 'first-class' ? 0 : 1;
}

function covered(): ReadonlyMap<string, SignedName> {
  const rows: readonly (readonly [string, HeaderRow])[] = Object.entries(headerCatalogue);
  return new Map(
    rows
      .filter(([, row]) => row.signed !== 'no')
      .sort(([, one], [, other]) => order(one) - order(other))
      .map(([lowerName, row]) => [lowerName, { name: row.name, oversigned: row.signed === 'oversigned' }]),
  );
}

/** The covered fields by name in lower case, in the order of h=. */
export const signedNames: ReadonlyMap<string, SignedName> = covered();
