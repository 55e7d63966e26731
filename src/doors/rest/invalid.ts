// How the readers of a request refuse a value.

import type { Violation } from '../../pipeline/submit.ts';

/** What no text may hold: line ends would make new header fields; the other controls have no place in a name or an address either. */
export const control = /[\p{Cc}\u2028\u2029]/u;
/** Said of a text that does. */
export const holdsControl = 'holds a line break or another control character';

/** Refuses a value. @param pointer its place in the body, by which the message names it @param reason goes on from its name */
export function invalid(pointer: string, reason: string): Violation {
  return { code: 'E_VALIDATION_ERROR', message: `${pointer.slice(1).replaceAll('/', '.')} ${reason}`, pointer };
}
