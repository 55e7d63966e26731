import { closeSync, fsyncSync, openSync } from 'node:fs';
import { open } from 'node:fs/promises';

/** Syncs a folder, so that the names made, moved or removed in it survive a crash (fsync(2)). @throws the system's error */
export async function syncFolder(folder: string): Promise<void> {
  await using handle = await open(folder, 'r');
  await handle.sync();
}

/** Syncs a file or a folder while the caller waits. @throws the system's error */
export function syncPath(path: string): void {
  const descriptor = openSync(path, 'r');
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
