import { X509Certificate } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { errorCode } from '../errors.ts';
import { fileMark, readRegularFile } from '../named-file.ts';

/** A certificate chain and its key, PEM, and the folder that they were read from. */
export interface FoundCertificate {
  readonly cert: string;
  readonly key: string;
  readonly folder: string;
}

/** How many folders are searched. Of further ones, only the folder with the name of the host is found. */
const mostFolders = 1000;
/** Milliseconds before the folders are listed again, because many names may be asked for at the same time. */
const listAgainMs = 1000;

interface Seen {
  readonly mark: string;
  /** The first certificate of the chain; absent where the file has none. */
  readonly leaf?: X509Certificate;
}

/** Reads a folder; undefined where it has no certificate or no key. */
function readFolder(folder: string): FoundCertificate | undefined {
  try {
    const [cert = '', key = ''] = ['fullchain.pem', 'privkey.pem'].map((file) =>
      readRegularFile(join(folder, file)).toString(),
    );
    return { cert, key, folder };
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ENOTDIR') return undefined;
    throw error;
  }
}

function look(file: string, before: Seen | undefined): Seen | undefined {
  try {
    const mark = fileMark(file);
    if (mark === undefined) return undefined;
    if (before?.mark === mark) return before;
    try {
      return { mark, leaf: new X509Certificate(readRegularFile(file)) };
    } catch {
      // The file has no certificate. It is not read again before it changes.
      return { mark };
    }
  } catch {
    return undefined;
  }
}

function foldersOf(tlsFolder: string): readonly string[] {
  try {
    return readdirSync(tlsFolder).sort().slice(0, mostFolders);
  } catch {
    return [];
  }
}

/**
 * Makes the search for the certificate of a hostname: in the folder of its name, or else in one whose certificate is valid for it by a
 * wildcard or by one of several names (RFC 9525 §6.3, D84).
 * @param tlsFolder has a folder for each certificate, with `fullchain.pem` and `privkey.pem`
 * @returns a function that gives the certificate of a name, of several the one that is valid longest. It throws the system's
 *   error where the files of the name's own folder cannot be read
 */
export function createCertificateFinder(tlsFolder: string): (name: string) => FoundCertificate | undefined {
  let seen = new Map<string, Seen>();
  let listedAt = Number.NEGATIVE_INFINITY;
  const list = (): void => {
    if (performance.now() - listedAt < listAgainMs) return;
    const now = new Map<string, Seen>();
    for (const folder of foldersOf(tlsFolder)) {
      const one = look(join(tlsFolder, folder, 'fullchain.pem'), seen.get(folder));
      if (one) now.set(folder, one);
    }
    seen = now;
    listedAt = performance.now();
  };
  return (name) => {
    const own = readFolder(join(tlsFolder, name));
    if (own) return own;
    list();
    const fitting = [...seen].flatMap(([folder, { leaf }]) =>
      leaf?.checkHost(name, { subject: 'never', partialWildcards: false }) === undefined ? [] : [{ folder, leaf }],
    );
    const best = fitting.sort((one, other) => Number(other.leaf.validToDate) - Number(one.leaf.validToDate));
    for (const { folder } of best) {
      const found = readFolder(join(tlsFolder, folder));
      if (found) return found;
    }
    return undefined;
  };
}
