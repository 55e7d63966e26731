// Writes steps of JSON pointers (RFC 6901) of bounded length. The longest allowed header name has 100 characters (D10); a longer
// name is cut, so that a request with long names does not make a large answer.

import { cutText } from './cut-text.ts';

/** The longest name that stands in a pointer as it is, in characters. */
const wholeName = 100;
const shownOfLonger = 60;

/**
 * Writes a name as a step of a JSON pointer (RFC 6901 §3).
 * @param name a name of more than 100 characters is cut at 60 and its length told; programs cannot follow such a pointer
 */
export function pointerStep(name: string | number): string {
  const text = typeof name === 'number' ? String(name) : cutText(name, wholeName, shownOfLonger);
  return `/${text.replaceAll('~', '~0').replaceAll('/', '~1')}`;
}
