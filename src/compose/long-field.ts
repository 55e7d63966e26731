// Header fields so long that writing one would keep everything else waiting: they are written elsewhere.

import type { FieldKind } from '../mail/write-field.ts';

/** Writes a field as `writeField` does, elsewhere; rejects where that throws, and where nobody can write it. */
export type WriteLongField = (name: string, text: string, kind: FieldKind) => Promise<string>;

/** A text of more characters is worth the way to another thread and back; writing it takes some 10 ms. */
export const longFieldLength = 16_384;
