// Reads the file of an Error Page that the configuration names (D65).

import { isUtf8 } from 'node:buffer';
import { readFileSync, statSync } from 'node:fs';
import { errorCode, errorMessage } from '../../base/errors.ts';
import type { EdgeAccountSlice, EdgeZone } from '../zone/zone.ts';
import { maxPageBytes, pageFault } from './error-page.ts';

/**
 * Reads a page. Only a regular file is read, and only after its size was checked.
 * @param file an absolute path
 * @returns the HTML, or what is wrong, with the name of the file
 */
export function readErrorPage(file: string): { readonly html: string } | { readonly problem: string } {
  try {
    const stat = statSync(file);
    if (!stat.isFile()) return { problem: `"${file}" is no file` };
    if (stat.size > maxPageBytes) {
      return { problem: `"${file}" is ${stat.size} octets, want at most ${maxPageBytes}` };
    }
    const octets = readFileSync(file);
    if (!isUtf8(octets)) return { problem: `"${file}" is not UTF-8` };
    const html = octets.toString();
    const fault = pageFault(html);
    return fault === undefined ? { html } : { problem: `"${file}" ${fault}` };
  } catch (cause) {
    const reason = errorCode(cause) === 'ENOENT' ? 'there is no such file' : errorMessage(cause);
    return { problem: `cannot read "${file}": ${reason}` };
  }
}

/** Zones and accounts with their custom errors. */
export interface ErrorPageOwners {
  readonly zones: readonly Pick<EdgeZone, 'name' | 'customErrors'>[];
  readonly accounts: readonly Pick<EdgeAccountSlice, 'id' | 'customErrors'>[];
}

/** What is wrong with the pages' files that a configuration names, one line each; every file is read. */
export function errorPageFaults({ zones, accounts }: ErrorPageOwners): string[] {
  const owners = [
    ...zones.map(({ name, customErrors }) => ({ path: `zone ${name}`, file: customErrors?.errorPage?.file })),
    ...accounts.map(({ id, customErrors }) => ({ path: `account ${id}`, file: customErrors?.errorPage?.file })),
  ];
  return owners.flatMap(({ path, file }) => {
    if (file === undefined) return [];
    const page = readErrorPage(file);
    return 'problem' in page ? [`${path}: customErrors.errorPage.file: ${page.problem}`] : [];
  });
}
