// Files that the operator names: what marks one as it is now, and how one is read that may be anything.

import { closeSync, constants, fstatSync, openSync, readFileSync, statSync } from 'node:fs';

/** Octets of the largest file of keys, certificates or a secret that is read. */
const mostOctets = 4 * 1024 * 1024;

/** Marks a file as it is now, by device, inode, size and times; links are followed. undefined where it cannot be accessed. */
export function fileMark(file: string): string | undefined {
  const stat = statSync(file, { throwIfNoEntry: false, bigint: true });
  if (!stat) return undefined;
  // ctime shows a change even where the writer restored the old mtime, as cp -p and rsync do.
  return [stat.dev, stat.ino, stat.size, stat.mtimeNs, stat.ctimeNs].join(' ');
}

/**
 * Reads a file that the operator names. For a pipe the whole gateway would wait until somebody writes to it, and a device may have no end.
 * @param most octets that it may have
 * @throws Error where it has more or is no regular file, and the system's own error where it cannot be read
 */
export function readRegularFile(file: string, most = mostOctets): Buffer {
  // O_NONBLOCK: to open a pipe waits too.
  const opened = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const stat = fstatSync(opened);
    if (stat.isFIFO()) throw new Error('it is a pipe');
    // Of a folder, the system's own error tells.
    if (!stat.isFile() && !stat.isDirectory()) throw new Error('it is a device');
    if (stat.size > most) throw new Error(`it has ${stat.size} octets, want at most ${most}`);
    return readFileSync(opened);
  } finally {
    closeSync(opened);
  }
}
