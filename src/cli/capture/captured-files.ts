// The files of a capture route's Maildir (D98), as the capture commands read them beside a running server. Where the names
// alone tell enough, no file is opened, so that a hundred thousand messages cost little time and memory.

import { constants } from 'node:fs';
import { type FileHandle, open, opendir, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { errorCode } from '../../base/errors.ts';
import { MAX_HEADER_SECTION_BYTES } from '../../mail/header/header-reader.ts';

/** A captured message, as the name of its file tells it. */
export interface CapturedFile {
  /** The message's id, a UUIDv7. */
  readonly id: string;
  /** When the message was accepted, milliseconds since 1970: the id's own time (RFC 9562 §5.7). */
  readonly acceptedAt: number;
  /** `new`, or `cur` where a mail reader has moved it. */
  readonly folder: 'new' | 'cur';
  /** Name of the file within the folder. */
  readonly name: string;
}

/** A name that Postern writes, with the flags that a mail reader may add behind a colon. Files of other names are ignored. */
const ownName = /^([0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12})\.eml(?::2,[A-Za-z]{0,52})?$/;

/** Whether a text is the id of a message. */
export function isMessageId(text: string): boolean {
  return ownName.test(`${text}.eml`);
}

/** Goes through the messages of a Maildir in no order. A missing folder counts as empty. */
export async function* capturedFiles(maildir: string): AsyncGenerator<CapturedFile> {
  for (const folder of ['new', 'cur'] as const) {
    try {
      for await (const { name } of await opendir(join(maildir, folder), { bufferSize: 512 })) {
        const id = ownName.exec(name)?.[1];
        if (id === undefined) continue;
        yield { id, acceptedAt: Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16), folder, name };
      }
    } catch (error) {
      if (errorCode(error) !== 'ENOENT') throw error;
    }
  }
}

/** The newest `count` messages that `fits` accepts, oldest first. It holds at most twice as many names in memory. */
export async function newestFiles(
  maildir: string,
  { count, fits }: { readonly count: number; readonly fits: (file: CapturedFile) => boolean },
): Promise<readonly CapturedFile[]> {
  let found: CapturedFile[] = [];
  const keepNewest = (): void => {
    found = found.sort((one, other) => (one.id < other.id ? -1 : 1)).slice(-count);
  };
  for await (const file of capturedFiles(maildir)) {
    if (!fits(file)) continue;
    found.push(file);
    if (found.length >= 2 * count) keepNewest();
  }
  keepNewest();
  return found;
}

/** Opens a message; undefined where it no longer exists, or is a symbolic link. */
async function openCaptured(maildir: string, { folder, name }: CapturedFile): Promise<FileHandle | undefined> {
  try {
    const handle = await open(
      join(maildir, folder, name),
      constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK,
    );
    if ((await handle.stat()).isFile()) return handle;
    await handle.close();
    return undefined;
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ELOOP') return undefined;
    throw error;
  }
}

/** The header section of a message with the empty line behind it, and the size of the whole in octets. */
export async function readHead(
  maildir: string,
  file: CapturedFile,
): Promise<{ readonly head: Buffer; readonly size: number } | undefined> {
  const handle = await openCaptured(maildir, file);
  if (!handle) return undefined;
  try {
    const { size } = await handle.stat();
    const octets = Buffer.alloc(Math.min(size, MAX_HEADER_SECTION_BYTES + 4));
    const { bytesRead } = await handle.read(octets, 0, octets.length, 0);
    const read = octets.subarray(0, bytesRead);
    const end = read.indexOf('\r\n\r\n');
    return { head: end < 0 ? read : read.subarray(0, end + 4), size };
  } finally {
    await handle.close();
  }
}

/** The octets of a message, a piece at a time; nothing where it no longer exists. */
export async function* readOctets(maildir: string, file: CapturedFile): AsyncGenerator<Buffer> {
  const handle = await openCaptured(maildir, file);
  if (handle) yield* handle.createReadStream();
}

/** Removes a message. @returns whether it existed */
export async function removeCaptured(maildir: string, { folder, name }: CapturedFile): Promise<boolean> {
  try {
    await unlink(join(maildir, folder, name));
    return true;
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return false;
    throw error;
  }
}
