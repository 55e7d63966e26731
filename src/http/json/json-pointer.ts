// Steps of JSON pointers (RFC 6901), bounded: the longest header name that is allowed has 100 characters (D10), and a
// longer name is cut, so that no fault is larger than what is said about it.

import { cutText } from './cut-text.ts';

/** The longest name that stands in a pointer as it is, in characters. */
const wholeName = 100;
const shownOfLonger = 60;

/**
 * Writes a name as a step of a JSON pointer (RFC 6901 §3).
 * @param name one of more than 100 characters is cut at 60, with its length told: such a pointer is for people
 */
export function pointerStep(name: string | number): string {
  const text = typeof name === 'number' ? String(name) : cutText(name, wholeName, shownOfLonger);
  return `/${text.replaceAll('~', '~0').replaceAll('/', '~1')}`;
}
