// Whether the spool has room for mail: looked at once a second, and each time that so many octets have been written.

import { statfsSync } from 'node:fs';
import { errorCode, errorMessage } from '../../../base/errors.ts';
import { defaultMinFreeBytes } from '../../spool-limits.ts';

/** Why the spool takes no mail. */
export interface SpoolFault {
  readonly reason: 'room' | 'store';
  /** The reason in words, for the log and the operator. */
  readonly text: string;
}

/**
 * The free room on the file system with the least of it, and the fault if that is too little.
 * @param folders those that mail is written to; one that is not there yet is left out
 */
export function roomIn(
  folders: readonly string[],
  minFreeBytes: number | undefined,
): { readonly freeBytes: number; readonly fault?: SpoolFault } {
  let least = Number.POSITIVE_INFINITY;
  let fault: SpoolFault | undefined;
  for (const folder of folders) {
    let free: number;
    let total: number;
    try {
      const { bavail, blocks, bsize } = statfsSync(folder);
      [free, total] = [bavail * bsize, blocks * bsize];
    } catch (thrown) {
      if (errorCode(thrown) === 'ENOENT') continue;
      fault = { reason: 'store', text: `Cannot look at ${folder}: ${errorMessage(thrown)}` };
      continue;
    }
    least = Math.min(least, free);
    const wanted = minFreeBytes ?? defaultMinFreeBytes(total);
    if (free < wanted)
      fault = { reason: 'room', text: `${folder} has ${free} octets free, less than minFreeBytes (${wanted})` };
  }
  return { freeBytes: least, ...(fault ? { fault } : {}) };
}
