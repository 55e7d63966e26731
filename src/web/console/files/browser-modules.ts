// The modules that a browser loads, one importing another: types are taken out of our own, and what a module imports is named by a
// relative URL. So no import map is needed, which would have to be a script within the page.

import { readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { dirname, posix } from 'node:path';

/** A module as a browser gets it. */
export interface BrowserModule {
  /** Relative to the folder of all files of the console, with `/`. */
  readonly path: string;
  readonly text: string;
  /** The paths of those that it imports at once. */
  readonly imports: readonly string[];
}

/** Where modules are. */
interface ModulePlaces {
  /** The file that stands for a specifier. @throws Error where a browser could not load it */
  readonly fileOf: (specifier: string, importer: string) => string;
  /** The path of a file, as `BrowserModule` has it. */
  readonly pathOf: (file: string) => string;
  /** What a module imports besides: `Buffer` of a file. */
  readonly buffer?: string;
}

/** What is imported, at once or at its first use: what stands before the specifier, the quotation mark and the specifier. */
const imports =
  /((?:^|[;}])\s*(?:import\b[^'"();=]*?|export\s*(?:\{[^}]*\}|\*[^'"();=]*?)\s*from\s*)|\bimport\()(['"])([^'"]+)\2/gm;

/** Reads files and all that they import. @throws Error where a file cannot be read */
export function modulesFrom(
  entries: readonly string[],
  { fileOf, pathOf, buffer }: ModulePlaces,
): readonly BrowserModule[] {
  const files = new Set(entries);
  return files
    .values()
    .map((file): BrowserModule => {
      const [text, path] = [readFileSync(file, 'utf8'), pathOf(file)];
      const code = file.endsWith('.ts') ? stripTypeScriptTypes(text) : text.replace(/^\/\/# sourceMappingURL=.*$/m, '');
      const atOnce: string[] = [];
      const urlOf = (target: string): string => {
        files.add(target);
        const url = posix.relative(posix.dirname(path), pathOf(target));
        return url.startsWith('.') ? url : `./${url}`;
      };
      const rewritten = code.replace(imports, (_, before: string, quote: string, specifier: string) => {
        const target = fileOf(specifier, file);
        if (!before.endsWith('import(')) atOnce.push(pathOf(target));
        return `${before}${quote}${urlOf(target)}${quote}`;
      });
      const isLacking = buffer !== undefined && /\bBuffer\b/.test(code) && dirname(file) !== dirname(buffer);
      const first = isLacking ? `import { Buffer } from '${urlOf(buffer)}';` : '';
      return { path, text: first + rewritten, imports: atOnce };
    })
    .toArray();
}
