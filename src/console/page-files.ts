// The console's pages as files: read once from a folder, compressed once, and answered from memory. A request names one of a fixed
// list, so no path can lead out of the folder.

import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { extname, join, sep } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.mjs': 'text/javascript; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.map': 'application/json; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.webmanifest': 'application/manifest+json',
  '.png': 'image/png',
  '.ico': 'image/x-icon',
  '.woff2': 'font/woff2',
};
/** Types that are compressed already. */
const dense: ReadonlySet<string> = new Set(['image/png', 'font/woff2']);

/** A file of more octets together with the others is a mistake, and would stay in memory. */
const maxOctets = 8_388_608;

/** The codings that files are kept in. */
export type Coding = 'br' | 'gzip' | 'identity';

/** A file of the pages. */
export interface PageFile {
  readonly contentType: string;
  /** Without quotes; the tag of a coding has the coding behind it. */
  readonly tag: string;
  /** The octets in a coding; compressed at the first call. */
  octets(coding: Coding): Promise<Buffer>;
  /** The codings that it is worth sending in. */
  readonly isDense: boolean;
}

/** All files of the pages. */
export interface PageFiles {
  /** What every page's URL is answered with. Undefined where there is no index.html. */
  readonly index: PageFile | undefined;
  /** The hash of all files together, which stands in their paths. */
  readonly hash: string;
  /** The file of a path below the hash; undefined where there is none. */
  find(path: string): PageFile | undefined;
}

const toGzip = promisify(gzip);
const toBrotli = promisify(brotliCompress);

async function encode(body: Buffer, coding: Coding): Promise<Buffer> {
  if (coding === 'identity') return body;
  if (coding === 'gzip') return await toGzip(body, { level: 9 });
  return await toBrotli(body, { params: { [constants.BROTLI_PARAM_SIZE_HINT]: body.length } });
}

function digest(octets: Buffer): string {
  return createHash('sha256').update(octets).digest('base64url').slice(0, 22);
}

function pageFile(body: Buffer, contentType: string): PageFile {
  const made = new Map<Coding, Promise<Buffer>>();
  return {
    contentType,
    tag: digest(body),
    isDense: dense.has(contentType),
    octets(coding) {
      const octets = made.get(coding) ?? encode(body, coding);
      made.set(coding, octets);
      return octets;
    },
  };
}

/** The files below a folder that have a known type, by their path with slashes; none where there is no folder. */
async function readFolder(folder: string): Promise<Map<string, Buffer>> {
  const names = await readdir(folder, { recursive: true }).catch((): string[] => []);
  const files = new Map<string, Buffer>();
  let octets = 0;
  for (const name of names.filter((each) => Object.hasOwn(types, extname(each))).sort()) {
    const body = await readFile(join(folder, name));
    octets += body.length;
    if (octets > maxOctets) throw new Error(`The files of the console in ${folder} are over ${maxOctets} octets`);
    files.set(name.replaceAll(sep, '/'), body);
  }
  return files;
}

/**
 * Reads the files.
 * @param folder where index.html is; `{assets}` in it stands for the path that the other files are below
 */
export async function readPageFiles(folder: string): Promise<PageFiles> {
  const bodies = await readFolder(folder);
  const all = createHash('sha256');
  for (const [name, body] of bodies) all.update(`${name} ${body.length}\n`).update(body);
  const hash = all.digest('hex').slice(0, 16);
  const files = new Map([...bodies].map(([name, body]) => [name, pageFile(body, types[extname(name)] ?? '')]));
  const html = bodies.get('index.html')?.toString('utf8').replaceAll('{assets}', `/console/assets/${hash}`);
  return {
    index: html === undefined ? undefined : pageFile(Buffer.from(html), types['.html'] ?? ''),
    hash,
    find: (path) => files.get(path),
  };
}
