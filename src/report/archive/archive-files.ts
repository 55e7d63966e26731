// Reads the messages of an archive (files, folders, Maildirs and mbox files) one at a time. Nothing outside of the named paths
// is opened: links are not followed, and only plain files are read.

import { constants, type Dirent } from 'node:fs';
import { type FileHandle, lstat, open, opendir } from 'node:fs/promises';
import { join } from 'node:path';
import { errorMessage } from '../../base/errors.ts';
import { beginsMbox, readMbox } from './mbox.ts';

/** One message, or a file that is none. */
export type ArchiveEntry =
  | {
      readonly kind: 'message';
      /** The file, with the number of the message behind it where it is an mbox. */
      readonly name: string;
      /** The first `most` octets of the message at most, with the line ends of the file. */
      readonly octets: Buffer;
      /** Size of the message in the archive, in octets. */
      readonly size: number;
      /** Who the `From ` line of an mbox names; absent elsewhere. */
      readonly sender?: string;
    }
  | { readonly kind: 'skipped'; readonly name: string; readonly why: string };

/** Octets that are read at a time. */
const windowOctets = 1_048_576;
/** How deep folders within folders are searched. */
const deepest = 32;
/** Octets in which a message's first fields must stand. */
const startOctets = 65_536;

const wellKnown = /^(?:from|to|cc|subject|date|received|message-id|return-path|mime-version|content-type|x-mailer):/im;

/** Whether octets are the beginning of a message: a header section with a field that mail has. */
function beginsMessage(start: Buffer): boolean {
  if (start.subarray(0, 1000).includes(0)) return false;
  const text = start.toString('latin1');
  const head = text.split(/\r?\n\r?\n/, 1)[0] ?? '';
  return /^[A-Za-z][\x21-\x39\x3b-\x7e]*[ \t]*:/.test(head) && wellKnown.test(head);
}

/** Folders of a Maildir in which messages are. */
const mailFolders: ReadonlySet<string> = new Set(['cur', 'new']);

async function isMaildir(folder: string): Promise<boolean> {
  const kinds = await Promise.all([...mailFolders].map((name) => lstat(join(folder, name)).catch(() => undefined)));
  return kinds.every((kind) => kind?.isDirectory() === true);
}

interface FoundFile {
  readonly file: string;
  /** Why the file cannot be read. */
  readonly fault?: string;
}

async function* entriesOf(folder: string): AsyncGenerator<Dirent | { readonly fault: string }> {
  try {
    yield* await opendir(folder);
  } catch (cause) {
    yield { fault: errorMessage(cause) };
  }
}

/** The plain files below a folder. Of a Maildir, these are the files in cur and new, and those of Maildirs within it. */
async function* filesBelow(folder: string, depth: number): AsyncGenerator<FoundFile> {
  if (depth > deepest) {
    yield { file: folder, fault: `more than ${deepest} folders deep` };
    return;
  }
  const maildir = await isMaildir(folder);
  for await (const entry of entriesOf(folder)) {
    if ('fault' in entry) {
      yield { file: folder, fault: entry.fault };
      continue;
    }
    const path = join(folder, entry.name);
    if (entry.isDirectory()) {
      if (!(maildir && entry.name === 'tmp')) yield* filesBelow(path, depth + 1);
    } else if (!maildir) {
      yield entry.isFile() ? { file: path } : { file: path, fault: 'no plain file' };
    }
  }
}

async function* windowsOf(handle: FileHandle, onOctets: (octets: number) => void): AsyncGenerator<Buffer> {
  for (let position = 0; ; ) {
    const window = Buffer.allocUnsafeSlow(windowOctets);
    const { bytesRead } = await handle.read(window, 0, windowOctets, position);
    if (bytesRead === 0) return;
    position += bytesRead;
    onOctets(bytesRead);
    yield window.subarray(0, bytesRead);
  }
}

/** How an archive is read. */
export interface ArchiveOptions {
  /** How many octets of one message are kept. */
  readonly most: number;
  /** Called with the number of octets that were just read. */
  readonly onOctets?: (octets: number) => void;
}

async function readStart(handle: FileHandle, octets: number): Promise<Buffer> {
  const start = Buffer.alloc(octets);
  let filled = 0;
  while (filled < octets) {
    const { bytesRead } = await handle.read(start, filled, octets - filled, filled);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return start.subarray(0, filled);
}

async function* messagesOf(file: string, handle: FileHandle, options: ArchiveOptions): AsyncGenerator<ArchiveEntry> {
  const { size } = await handle.stat();
  const onOctets = options.onOctets ?? (() => undefined);
  const start = await readStart(handle, Math.min(size, startOctets));
  if (beginsMbox(start)) {
    let count = 0;
    for await (const { octets, size: of, sender } of readMbox(windowsOf(handle, onOctets), options.most)) {
      count += 1;
      const name = `${file}:${count}`;
      if (beginsMessage(octets.subarray(0, startOctets))) yield { kind: 'message', name, octets, size: of, sender };
      else yield { kind: 'skipped', name, why: 'no message' };
    }
    return;
  }
  onOctets(size);
  if (!beginsMessage(start)) {
    yield { kind: 'skipped', name: file, why: size === 0 ? 'empty' : 'no message' };
    return;
  }
  yield { kind: 'message', name: file, octets: await readStart(handle, Math.min(size, options.most)), size };
}

async function* readFoundFile({ file, fault }: FoundFile, options: ArchiveOptions): AsyncGenerator<ArchiveEntry> {
  if (fault !== undefined) {
    yield { kind: 'skipped', name: file, why: fault };
    return;
  }
  let handle: FileHandle | undefined;
  try {
    // NOFOLLOW refuses a link made since the folder was read; NONBLOCK does not wait at a pipe that nobody writes to.
    handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    if ((await handle.stat()).isFile()) yield* messagesOf(file, handle, options);
    else yield { kind: 'skipped', name: file, why: 'no plain file' };
  } catch (cause) {
    yield { kind: 'skipped', name: file, why: errorMessage(cause) };
  } finally {
    await handle?.close();
  }
}

async function* filesOf(path: string): AsyncGenerator<FoundFile> {
  const kind = await lstat(path).catch((cause: unknown) => errorMessage(cause));
  if (typeof kind === 'string') yield { file: path, fault: kind };
  else if (kind.isDirectory()) yield* filesBelow(path, 0);
  else yield { file: path };
}

/**
 * Reads messages from files, folders, Maildirs and mbox files. Files that are no messages or cannot be read are reported and
 * skipped. It holds one message and its reader in memory, however many there are.
 */
export async function* readArchive(paths: readonly string[], options: ArchiveOptions): AsyncGenerator<ArchiveEntry> {
  for (const path of paths) {
    for await (const found of filesOf(path)) yield* readFoundFile(found, options);
  }
}

/** The octets of all files of an archive, for showing how far its reading is. */
export async function archiveOctets(paths: readonly string[]): Promise<number> {
  let sum = 0;
  for (const path of paths) {
    for await (const { file, fault } of filesOf(path)) {
      if (fault === undefined) sum += (await lstat(file).catch(() => undefined))?.size ?? 0;
    }
  }
  return sum;
}

/** Whether a path is more than one message: a folder, or an mbox file. */
export async function isArchive(path: string): Promise<boolean> {
  const kind = await lstat(path).catch(() => undefined);
  if (kind?.isDirectory()) return true;
  if (!kind?.isFile()) return false;
  const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    return beginsMbox(await readStart(handle, 1024));
  } finally {
    await handle.close();
  }
}
