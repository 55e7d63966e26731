// Large bodies as files (D94), named by message id: durable before their row is committed, deleted after it is deleted.

import { type FileHandle, mkdir, open, readFile, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { syncFolder } from '../base/database/sync-folder.ts';
import { errorCode, errorMessage, Unavailable, unlessCode } from '../base/errors.ts';
import { lazily } from '../base/load/lazily.ts';

/** Bodies above this size, in octets, are files (D94). */
export const bodyFileThreshold = 256 * 1024;

/** The folder of the bodies that are files. */
export class BodyFiles {
  readonly folder: string;
  readonly #make: () => Promise<void>;

  /** @param folder absolute; made at the first write */
  constructor(folder: string) {
    this.folder = folder;
    this.#make = lazily(async () => {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      await syncFolder(dirname(folder));
    });
  }

  /** Writes a body from the given buffer, uncopied. When this resolves, the octets and the file's name are on disk. */
  async write(id: string, body: Buffer): Promise<void> {
    await this.#make();
    await using handle = await this.#open(this.#path(id));
    try {
      await handle.writeFile(body);
      await handle.sync();
    } catch (thrown) {
      await this.remove(id);
      throw thrown;
    }
    await syncFolder(this.folder);
  }

  /** The body's octets; undefined when there is no such file. */
  async read(id: string): Promise<Buffer | undefined> {
    return await readFile(this.#path(id)).catch(unlessCode('ENOENT'));
  }

  /** Deletes a body; one that is gone already is no error. */
  async remove(id: string): Promise<void> {
    await unlink(this.#path(id)).catch(unlessCode('ENOENT'));
  }

  /** Opens a new file; where somebody has removed the folder meanwhile, it is made again, but never what it lies in. */
  async #open(path: string): Promise<FileHandle> {
    const opened = await open(path, 'wx', 0o600).catch(unlessCode('ENOENT'));
    if (opened) return opened;
    // Of several who find it gone, one makes it.
    await mkdir(this.folder, { mode: 0o700 }).catch(unlessCode('EEXIST'));
    await syncFolder(dirname(this.folder));
    return await open(path, 'wx', 0o600);
  }

  #path(id: string): string {
    // Whatever its source, an id must not lead out of the folder.
    if (!/^[\w-]+$/.test(id)) throw new Error(`"${id}" is no message id`);
    return join(this.folder, id);
  }
}

/** System errors that say that nothing can be written to the folder now, whatever it is: the disk, its rights, its place. */
const unwritable: ReadonlySet<string> = new Set(['EROFS', 'EIO', 'EACCES', 'EPERM', 'ENOENT', 'ENOTDIR']);

/** Maps the error of a body that could not be written: Unavailable where the disk is full or cannot be written. */
export function bodyError(thrown: unknown, retryAfterSeconds: number): unknown {
  const code = errorCode(thrown) ?? '';
  const isFull = code === 'ENOSPC' || code === 'EDQUOT';
  if (!isFull && !unwritable.has(code)) return thrown;
  const details = { reason: isFull ? 'room' : 'store', retryAfterSeconds } as const;
  return new Unavailable(`A body cannot be written: ${errorMessage(thrown)}`, details);
}

/** A buffer over the same octets. */
export function bufferOver(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
