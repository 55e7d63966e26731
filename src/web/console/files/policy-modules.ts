// The modules by which a browser judges messages: those of the header policy, as the gateway itself runs them, with what stands for
// Node and for its libraries in the package postern-policy. One more module names them all, so that they come at once.

import { existsSync, readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { dirname, extname, join, posix, relative, resolve, sep } from 'node:path';
import { pathToFileURL } from 'node:url';

const project = resolve(import.meta.dirname, '../../../..');
const packageFolder = join(project, 'packages/policy/src');
/** `.ts`; `.js` in an image, where the sources are plain JavaScript. */
const extension = extname(import.meta.filename);

/** A module as a browser gets it. */
export interface BrowserModule {
  /** Relative to the folder of all files of the console, with `/`. */
  readonly path: string;
  readonly text: string;
}

/** The module that the pages import; absent where the package does not lie beside the gateway. */
const entryPath = 'policy/judge.js';

function pathOf(file: string): string {
  return `policy/${relative(project, file).split(sep).join('/')}`;
}

/** What is imported, at once or at its first use: what stands before the specifier, the quotation mark and the specifier. */
const imports =
  /((?:^|[;}])\s*(?:import\b[^'"();=]*?|export\s*(?:\{[^}]*\}|\*[^'"();=]*?)\s*from\s*)|\bimport\()(['"])([^'"]+)\2/gm;

/** Finds the file that stands for a specifier. @throws Error where a browser could not load it */
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
  const octets = join(packageFolder, `seam/octets${extension}`);
  const modules = new Map<string, string>();
  const files = new Set([entry]);
  for (const file of files) {
    const text = readFileSync(file, 'utf8');
    const code = file.endsWith('.ts') ? stripTypeScriptTypes(text) : text;
    const urlOf = (target: string): string => {
      files.add(target);
      const url = posix.relative(posix.dirname(pathOf(file)), pathOf(target));
      return url.startsWith('.') ? url : `./${url}`;
    };
    const rewritten = code.replace(
      imports,
      (_, before: string, quote: string, specifier: string) =>
        `${before}${quote}${urlOf(fileOf(specifier, file, seams))}${quote}`,
    );
    const needsBuffer = /\bBuffer\b/.test(code) && dirname(file) !== dirname(octets);
    modules.set(file, needsBuffer ? `import { Buffer } from '${urlOf(octets)}';${rewritten}` : rewritten);
  }
  const all = [...modules.keys()].map((file) => `import './${posix.relative('policy', pathOf(file))}';\n`);
  const own = `export { judge, shownVerdicts } from './${posix.relative('policy', pathOf(entry))}';\n`;
  return [
    { path: entryPath, text: `${all.join('')}${own}` },
    ...[...modules].map(([file, text]) => ({ path: pathOf(file), text })),
  ];
}
