// The files of the console as they are answered from memory: the page that loads everything, which is the same under every URL of
// the console, and the modules and the style, whose paths hold a digest of all.

import { createHash } from 'node:crypto';
import { Worker } from 'node:worker_threads';
import { lazily } from '../../../base/load/lazily.ts';
import type { MadeFile, MadeFiles } from './make-files.ts';

/** The codings that files are kept in. */
export type Coding = 'br' | 'gzip' | 'identity';

/** A file of the pages. */
export interface PageFile {
  readonly contentType: string;
  /** Without quotes; the tag of a coding has the coding behind it. */
  readonly tag: string;
  readonly octets: Readonly<Record<Coding, Buffer>>;
}

/** All files of the pages. */
interface PageFiles {
  /** What every page's URL is answered with. */
  readonly index: PageFile;
  /** The digest of all files together, which stands in their paths. */
  readonly hash: string;
  /** The file of a path below the digest; undefined where there is none. */
  find(path: string): PageFile | undefined;
}

/** Makes the files on a thread, which ends with it. @throws Error where a file is missing or cannot be read */
function makeOnThread(): Promise<MadeFiles> {
  return new Promise((resolve, reject) => {
    // Node 24 says at each start that taking types out is experimental. `tsc` checks the files beforehand, and the tests run
    // what comes out in a browser.
    const worker = new Worker(new URL('./make-files.ts', import.meta.url), {
      execArgv: ['--disable-warning=ExperimentalWarning'],
    });
    worker.once('message', (files: MadeFiles) => resolve(files));
    worker.once('error', reject);
    worker.once('exit', () => reject(new Error('The thread that makes the files of the console ended too early')));
  });
}

/** Octets that came from the thread, as a Buffer over the same memory. */
function buffer({ buffer: memory, byteOffset, byteLength }: Uint8Array<ArrayBuffer>): Buffer {
  return Buffer.from(memory, byteOffset, byteLength);
}

function pageFile({ contentType, plain, gzip, br }: MadeFile): PageFile {
  const octets = { identity: buffer(plain), gzip: buffer(gzip), br: buffer(br) };
  const tag = createHash('sha256').update(octets.identity).digest('base64url').slice(0, 22);
  return { contentType, tag, octets };
}

async function make(): Promise<PageFiles> {
  const { digest, files, index } = await makeOnThread();
  const byPath = new Map(files.map((file) => [file.path, pageFile(file)]));
  return { index: pageFile(index), hash: digest, find: (path) => byPath.get(path) };
}

/**
 * Gives the files of the console. They are the same while the process runs, and are made at the first call, which takes some
 * tenths of a second of a thread of its own. A call after one that failed tries again.
 * @throws Error where a file is missing
 */
export const pageFiles = lazily(make);
