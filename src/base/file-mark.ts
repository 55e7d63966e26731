// Whether a file is still the one that was read: by its place on disk, its size and its times, without reading it.

import { statSync } from 'node:fs';

/**
 * A mark of a file as it is now; another one once it was written or another file was put in its place. Links are followed.
 * @returns undefined where there is no file that could be looked at
 */
export function fileMark(file: string): string | undefined {
  const stat = statSync(file, { throwIfNoEntry: false, bigint: true });
  if (!stat) return undefined;
  // The time of the last change is there for a file that was written under its old time, by cp -p or rsync.
  return [stat.dev, stat.ino, stat.size, stat.mtimeNs, stat.ctimeNs].join(' ');
}
