// Which fields DKIM covers, and how (D27): the header catalogue's `signed` column. It stands here because `sign` reads
// messages, not policy.

import { type HeaderRow, headerCatalogue } from '../policy/header-catalogue.ts';

/** One field that DKIM covers. */
export interface SignedName {
  /** Canonical casing, as h= has it. */
  readonly name: string;
  /** Named once more than it is there. */
  readonly oversigned: boolean;
}

/** From and the message's other own fields first, then the rest of the oversigned ones, then the others. */
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
