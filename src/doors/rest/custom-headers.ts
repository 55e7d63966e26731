// Turns the member `headers` of a request into header fields: in the order of the text, with repeated names, unjudged (D1, D5).

import type { HeaderField } from '../../mail/header/header-field.ts';
import { pointerStep } from '../../web/http/json/cut-text.ts';
import type { JsonEntry } from '../../web/http/json/json-reader.ts';

const none = Buffer.alloc(0);

/** Makes header fields of the entries; the policy judges them. */
export function customHeaders(entries: readonly JsonEntry[]): readonly HeaderField[] {
  return entries.map(({ name, value }): HeaderField => {
    const pointer = `/headers${pointerStep(name)}`;
    if (typeof value !== 'string') return { name, rawBytes: none, pointer, fault: 'not-a-string' };
    const fault = value.isWellFormed() ? {} : ({ fault: 'lone-surrogate' } as const);
    return { name, rawBytes: Buffer.from(value), pointer, ...fault };
  });
}
