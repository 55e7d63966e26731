// Chooses how a field is written, by its name: from the header catalogue's syntax (D12, D13).

import type { FieldKind } from '../../mail/write-field.ts';
import { findHeader, type ValueSyntax } from '../policy/header-catalogue.ts';

const bySyntax = {
  text: 'text',
  'phrase-list': 'structured',
  addresses: 'addresses',
  'msg-ids': 'structured',
  date: 'structured',
  language: 'structured',
  identifier: 'identifier',
  uris: 'uris',
  token: 'structured',
  structured: 'structured',
} as const satisfies Record<ValueSyntax, FieldKind>;

/** The structured fields with a form of their own for text that is not ASCII. */
const byName: ReadonlyMap<string, FieldKind> = new Map<string, FieldKind>([
  ['content-type', 'parameters'],
  ['content-disposition', 'parameters'],
  ['content-location', 'location'],
  // Sender can occur in an embedded message; the catalogue has only what the message itself may have.
  ['sender', 'addresses'],
]);

/** Gives the kind of a field by its name, in any case; an unknown name is text. */
export function fieldKind(name: string): FieldKind {
  const lowerName = name.toLowerCase();
  const row = findHeader(lowerName);
  return byName.get(lowerName) ?? (row ? bySyntax[row.syntax] : 'text');
}
