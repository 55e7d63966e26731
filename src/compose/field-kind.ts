// How a field is written, by its name: from the header catalogue's syntax (D12, D13).

import type { FieldKind } from '../mail/write-field.ts';
import { findHeader, type ValueSyntax } from '../policy/header-catalogue.ts';

const bySyntax = {
  text: 'text',
  'phrase-list': 'phrases',
  addresses: 'addresses',
  'msg-ids': 'whole',
  date: 'whole',
  language: 'whole',
  uris: 'uris',
  token: 'text',
  structured: 'text',
} as const satisfies Record<ValueSyntax, FieldKind>;

/** The structured fields that have a form of their own for what is not ASCII. */
const byName: ReadonlyMap<string, FieldKind> = new Map<string, FieldKind>([
  ['content-type', 'parameters'],
  ['content-disposition', 'parameters'],
  ['content-location', 'location'],
  // In an embedded message; the catalogue knows only what a message of ours may have.
  ['sender', 'addresses'],
]);

/** The kind of a field by its name, in any case; a name on no table is text. */
export function fieldKind(name: string): FieldKind {
  const lowerName = name.toLowerCase();
  const row = findHeader(lowerName);
  return byName.get(lowerName) ?? (row ? bySyntax[row.syntax] : 'text');
}
