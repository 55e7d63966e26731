// The modules by which a browser judges messages: those of the header policy, as the gateway itself runs them, with what stands for
// Node and for its libraries in the package postern-policy. One more module names them all, so that they come at once.

import { existsSync } from 'node:fs';
import { dirname, extname, join, posix, relative, resolve, sep } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type BrowserModule, modulesFrom } from './browser-modules.ts';

const project = resolve(import.meta.dirname, '../../../..');
const packageFolder = join(project, 'packages/policy/src');
/** `.ts`; `.js` in an image, where the sources are plain JavaScript. */
const extension = extname(import.meta.filename);

/** The module that the pages import; absent where the package does not lie beside the gateway. */
const entryPath = 'policy/judge.js';

function pathOf(file: string): string {
  return `policy/${relative(project, file).split(sep).join('/')}`;
}

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
  const buffer = join(packageFolder, `seam/octets${extension}`);
  const fileFor = (specifier: string, importer: string): string => fileOf(specifier, importer, seams);
  const modules = modulesFrom([entry], { fileOf: fileFor, pathOf, buffer });
  const all = modules.map(({ path }) => `import './${posix.relative('policy', path)}';\n`);
  const own = `export { judge, shownVerdicts } from './${posix.relative('policy', pathOf(entry))}';\n`;
  return [{ path: entryPath, text: `${all.join('')}${own}`, imports: [] }, ...modules];
}
