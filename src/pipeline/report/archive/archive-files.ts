// Reads the messages of an archive one at a time. Nothing outside of the named paths is opened, and no link is followed.

import { constants } from 'node:fs';
import { type FileHandle, lstat, open, opendir } from 'node:fs/promises';
import { join } from 'node:path';
import { errorMessage } from '../../../base/errors.ts';

// Reads an mbox file as a stream (RFC 4155 and its older forms): a message begins at a line `From sender date` at the start
// of the file or behind an empty line. Its memory is bounded, whatever is in the file.

/** One message of an mbox. */
export interface MboxMessage {
  /** The message as it is in the file, without the `From ` line; only the first `most` octets where it is longer. */
  readonly octets: Buffer;
  /** Octets in the file. */
  readonly size: number;
  /** Who the `From ` line names; '' where it names nobody. */
  readonly sender: string;
}

/** A `From ` line has at most so many octets, its end included. */
const longestSeparator = 1000;
const fromLine = `From \\S[^\\n]{0,${longestSeparator - 7}}\\n`;
const first = new RegExp(`^${fromLine}`);
const behindEmptyLine = new RegExp(`(?<=\\n\\r?\\n)${fromLine}`, 'g');

/** Whether a line has a time as asctime writes it, in any order and zone, beside a sender. Lines of a body seldom have both. */
function isSeparator(line: string): boolean {
  return /\d:\d\d/.test(line) && /\b(?:19|20)\d\d\b/.test(line);
}

/** The `From ` line that a text begins with; '' where it begins with none. */
function separatorOf(text: string): string {
  const line = first.exec(text)?.[0] ?? '';
  return isSeparator(line) ? line : '';
}

/** Whether octets are the beginning of an mbox. */
export function beginsMbox(start: Buffer): boolean {
  return separatorOf(start.toString('latin1', 0, longestSeparator)) !== '';
}

/** The beginning of a message: its first `most` octets, a character for each. */
class Begun {
  size = 0;
  readonly #sender: string;
  #kept = '';

  constructor(line: string) {
    this.#sender = /^From (\S+)/.exec(line)?.[1] ?? '';
  }

  add(text: string, most: number): void {
    this.size += text.length;
    this.#kept += text.slice(0, most - this.#kept.length);
  }

  /** Removes the quoting of mboxrd and mboxo: `>From ` at the start of a line stands for `From `, `>>From ` for `>From `. */
  finish(): MboxMessage {
    const octets = Buffer.from(this.#kept.replace(/\n>(?=>{0,50}From )/g, '\n'), 'latin1');
    return { octets, size: this.size, sender: this.#sender };
  }
}

async function* withEnd(windows: AsyncIterable<Buffer>): AsyncGenerator<Buffer | undefined> {
  yield* windows;
  yield undefined;
}

/**
 * Gives the messages of an mbox in their order. A file that does not begin with a `From ` line is one message up to the
 * first such line. Memory: one message of at most `most` octets and two windows.
 * @param windows the file's octets in pieces
 * @param most octets kept of one message
 */
export async function* readMbox(windows: AsyncIterable<Buffer>, most: number): AsyncGenerator<MboxMessage> {
  // From `at` on the text is in no message yet; what is before shows whether an empty line is.
  let [text, at] = ['', 0];
  let current: Begun | undefined;
  for await (const window of withEnd(windows)) {
    text += window?.toString('latin1') ?? '';
    // What may be the beginning of a `From ` line, and the line end before it, is read together with the next window.
    const limit = window ? text.length - longestSeparator - 2 : text.length;
    if (limit < 0) continue;
    if (!current) {
      const line = separatorOf(text);
      current = new Begun(line);
      at = line.length;
    }
    behindEmptyLine.lastIndex = at;
    for (const { 0: line, index } of text.matchAll(behindEmptyLine)) {
      if (index > limit) break;
      if (!isSeparator(line)) continue;
      current.add(text.slice(at, index - (text[index - 2] === '\r' ? 2 : 1)), most);
      yield current.finish();
      current = new Begun(line);
      at = index + line.length;
    }
    const used = Math.max(at, limit);
    current.add(text.slice(at, used), most);
    text = text.slice(Math.max(0, used - 3));
    at = Math.min(used, 3);
  }
  if (current && current.size > 0) yield current.finish();
}

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

const windowOctets = 1_048_576;
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

/** The path of a name in a folder, in octets: names need not be UTF-8. @param name each octet as a character */
function pathIn(folder: Buffer, name: string): Buffer {
  return Buffer.from(join(folder.toString('latin1'), name), 'latin1');
}

async function isMaildir(folder: Buffer): Promise<boolean> {
  const paths = ['cur', 'new'].map((name) => pathIn(folder, name));
  const kinds = await Promise.all(paths.map((path) => lstat(path).catch(() => undefined)));
  return kinds.every((kind) => kind?.isDirectory() === true);
}

interface FoundFile {
  readonly file: Buffer;
  readonly fault?: string;
}

/** The plain files below a folder. Of a Maildir, these are the files in cur and new, and those of Maildirs within it. */
async function* filesBelow(folder: Buffer, depth: number): AsyncGenerator<FoundFile> {
  if (depth > deepest) {
    yield { file: folder, fault: `more than ${deepest} folders deep` };
    return;
  }
  const maildir = await isMaildir(folder);
  try {
    for await (const entry of await opendir(folder, { encoding: 'latin1' })) {
      const path = pathIn(folder, entry.name);
      if (entry.isDirectory()) {
        if (!(maildir && entry.name === 'tmp')) yield* filesBelow(path, depth + 1);
      } else if (!maildir) {
        yield entry.isFile() ? { file: path } : { file: path, fault: 'no plain file' };
      }
    }
  } catch (cause) {
    yield { file: folder, fault: errorMessage(cause) };
  }
}

async function* windowsOf(handle: FileHandle): AsyncGenerator<Buffer> {
  for (let position = 0; ; ) {
    const window = Buffer.allocUnsafeSlow(windowOctets);
    const { bytesRead } = await handle.read(window, 0, windowOctets, position);
    if (bytesRead === 0) return;
    position += bytesRead;
    yield window.subarray(0, bytesRead);
  }
}

/** How an archive is read. */
export interface ArchiveOptions {
  /** How many octets of one message are kept. */
  readonly most: number;
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

async function* messagesOf(file: string, handle: FileHandle, { most }: ArchiveOptions): AsyncGenerator<ArchiveEntry> {
  const { size } = await handle.stat();
  const start = await readStart(handle, Math.min(size, startOctets));
  if (beginsMbox(start)) {
    let count = 0;
    for await (const { octets, size: of, sender } of readMbox(windowsOf(handle), most)) {
      count += 1;
      const name = `${file}:${count}`;
      if (beginsMessage(octets.subarray(0, startOctets))) yield { kind: 'message', name, octets, size: of, sender };
      else yield { kind: 'skipped', name, why: 'no message' };
    }
    return;
  }
  if (!beginsMessage(start)) {
    yield { kind: 'skipped', name: file, why: size === 0 ? 'empty' : 'no message' };
    return;
  }
  yield { kind: 'message', name: file, octets: await readStart(handle, Math.min(size, most)), size };
}

async function* readFoundFile({ file, fault }: FoundFile, options: ArchiveOptions): AsyncGenerator<ArchiveEntry> {
  const name = file.toString();
  if (fault !== undefined) {
    yield { kind: 'skipped', name, why: fault };
    return;
  }
  try {
    // NOFOLLOW refuses a link made since the folder was read; NONBLOCK does not wait at a pipe that nobody writes to.
    await using handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    if ((await handle.stat()).isFile()) yield* messagesOf(name, handle, options);
    else yield { kind: 'skipped', name, why: 'no plain file' };
  } catch (cause) {
    yield { kind: 'skipped', name, why: errorMessage(cause) };
  }
}

async function* filesOf(path: string): AsyncGenerator<FoundFile> {
  const kind = await lstat(path).catch((cause: unknown) => errorMessage(cause));
  const file = Buffer.from(path);
  if (typeof kind === 'string') yield { file, fault: kind };
  else if (kind.isDirectory()) yield* filesBelow(file, 0);
  else yield { file };
}

/** Reads messages of files, folders, Maildirs and mbox files, one at a time. What is none or unreadable is reported. */
export async function* readArchive(paths: readonly string[], options: ArchiveOptions): AsyncGenerator<ArchiveEntry> {
  for (const path of paths) {
    for await (const found of filesOf(path)) yield* readFoundFile(found, options);
  }
}

/** Whether a path is more than one message: a folder, or an mbox file. */
export async function isArchive(path: string): Promise<boolean> {
  const kind = await lstat(path).catch(() => undefined);
  if (kind?.isDirectory()) return true;
  if (!kind?.isFile()) return false;
  await using handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK).catch(() => undefined);
  // Whoever reads it as one message tells why it cannot be read.
  return handle !== undefined && beginsMbox(await readStart(handle, 1024));
}
