// Header fields so long that writing one would delay everything else: they are written on another thread.

import type { FieldKind } from '../../mail/write-field.ts';

/** Writes a field as `writeField` does, on another thread; rejects where that throws, and where the thread fails. */
export type WriteLongField = (name: string, text: string, kind: FieldKind) => Promise<string>;

/** Texts with more characters are sent to the other thread: writing one takes some 10 ms. */
export const longFieldLength = 16_384;
