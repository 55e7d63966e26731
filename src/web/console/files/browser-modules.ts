// The modules that a browser loads, without types and by relative URLs: an import map would have to be a script in the page.

import { existsSync, readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { dirname, extname, join, posix, relative, resolve, sep } from 'node:path';
import { pathToFileURL } from 'node:url';

/** A module as a browser gets it. */
export interface BrowserModule {
  /** Relative to the folder of all files of the console, with `/`. */
  readonly path: string;
  readonly text: string;
  /** The paths of those that it imports at once. */
  readonly imports: readonly string[];
}

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

// The modules of the header policy, with what stands for Node in postern-policy; one more names them all, so that they come at once.

const project = resolve(import.meta.dirname, '../../../..');
const packageFolder = join(project, 'packages/policy/src');
/** `.ts`; `.js` in an image, where the sources are plain JavaScript. */
const extension = extname(import.meta.filename);

/** The module that the pages import; absent where the package does not lie beside the gateway. */
const entryPath = 'policy/judge.js';

function pathOf(file: string): string {
  return `policy/${relative(project, file).split(sep).join('/')}`;
}

function fileOf(specifier: string, importer: string, seams: Readonly<Record<string, string>>): string {
  const file = resolve(dirname(importer), specifier);
  const key = specifier.startsWith('.') ? relative(join(project, 'src'), file).slice(0, -extension.length) : specifier;
  const seam = seams[key.split(sep).join('/')];
  if (seam !== undefined) return join(packageFolder, 'seam', `${seam}${extension}`);
  if (!specifier.startsWith('.')) throw new Error(`${importer} imports ${specifier}, which no browser has`);
  return file;
}

/** Makes the modules, the entry first. Empty where the package is not there. */
export async function policyModules(): Promise<readonly BrowserModule[]> {
  const entry = join(packageFolder, `judge${extension}`);
  if (!existsSync(entry)) return [];
  const { seams }: { readonly seams: Readonly<Record<string, string>> } = await import(
    pathToFileURL(join(packageFolder, `seam/modules${extension}`)).href
  );
  const buffer = join(packageFolder, `seam/octets${extension}`);
  const fileFor = (specifier: string, importer: string): string => fileOf(specifier, importer, seams);
  const modules = modulesFrom([entry], { fileOf: fileFor, pathOf, buffer });
  const all = modules.map(({ path }) => `import './${posix.relative('policy', path)}';\n`);
  const own = `export { judge, shownVerdicts } from './${posix.relative('policy', pathOf(entry))}';\n`;
  return [{ path: entryPath, text: `${all.join('')}${own}`, imports: [] }, ...modules];
}
