// Finds the files of a pattern, for shells that leave patterns to the program: * ? ** and { , }.

import { type Dirent, readdirSync } from 'node:fs';
import { join } from 'node:path';

/** Whether a name is a pattern. */
export function isPattern(path: string): boolean {
  return /[*?{]/.test(path);
}

const pieces: Readonly<Record<string, string>> = {
  '**/': '(?:[^/]+/)*',
  '**': '.*',
  '*': '[^/]*',
  '?': '[^/]',
  '{': '(?:',
  ',': '|',
  '}': ')',
};

/** The pattern as an expression for a whole path. */
function expression(pattern: string): RegExp {
  let inBraces = false;
  const text = pattern.replace(/\*\*\/|\*\*|[*?{},]|[.+^$()|[\]\\]/g, (piece) => {
    if (piece === '{') inBraces = true;
    if (piece === ',' && !inBraces) return ',';
    if (piece === '}') inBraces = false;
    return pieces[piece] ?? `\\${piece}`;
  });
  return new RegExp(`^${text}$`);
}

/** The entries of a folder; undefined where it cannot be read. */
function entriesOf(folder: string): readonly Dirent[] | undefined {
  try {
    return readdirSync(folder === '' ? '.' : folder, { withFileTypes: true });
  } catch {
    return undefined;
  }
}

/** The files like a pattern, sorted, with folders that cannot be read. Links to folders are not followed, and node_modules is left out. */
export function filesOfPattern(given: string): string[] {
  const pattern = given.replaceAll('\\', '/').replace(/^\.\//, '');
  const fixed = /^[^*?{]*\//.exec(pattern)?.[0] ?? '';
  const wanted = expression(pattern);
  const steps = pattern.includes('**') ? Number.POSITIVE_INFINITY : pattern.split('/').length;
  const found: string[] = [];
  const walk = (folder: string): void => {
    const entries = entriesOf(folder);
    // Whoever reads the folder itself tells why it cannot be.
    if (!entries) found.push(folder);
    for (const entry of entries ?? []) {
      const path = `${folder}${entry.name}`;
      if (entry.isDirectory()) {
        if (entry.name !== 'node_modules' && path.split('/').length < steps) walk(`${path}/`);
      } else if (entry.isFile() && wanted.test(path)) found.push(join(path));
    }
  };
  walk(fixed);
  return found.sort();
}
