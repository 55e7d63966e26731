import { statSync } from 'node:fs';

/**
 * Makes a mark of a file as it is now, by its device, inode, size and times. The mark changes when the file is written or replaced.
 * Links are followed.
 * @returns undefined where there is no such file, or it cannot be accessed
 */
export function fileMark(file: string): string | undefined {
  const stat = statSync(file, { throwIfNoEntry: false, bigint: true });
  if (!stat) return undefined;
  // ctime shows a change even where the writer restored the old mtime, as cp -p and rsync do.
  return [stat.dev, stat.ino, stat.size, stat.mtimeNs, stat.ctimeNs].join(' ');
}
