// The entry of the thread that makes the files of the console: it reads them, takes the types out of our own, and compresses
// each once. That takes some tenths of a second of work, which the thread of all sessions must not do.

import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parentPort } from 'node:worker_threads';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { pageText } from './page-text.ts';
import { policyModules } from './policy-modules.ts';

/** The folder of the pages, whose files a browser gets with those of the packages that they import. */
const webFolder = join(import.meta.dirname, '../web');

interface ListedFile {
  /** Relative to the folder of all files, with `/`: `web/main.ts`, `packages/preact.js`. */
  readonly path: string;
  readonly file: string;
}

/**
 * The packages of the browser, by the specifier that imports them. Nothing else of node_modules is ever served. Each file is
 * the one that the package names for ES modules.
 */
const packageFiles = {
  preact: { path: 'packages/preact.js', file: 'preact' },
  'preact/hooks': { path: 'packages/preact-hooks.js', file: 'preact/hooks' },
  '@preact/signals': { path: 'packages/signals.js', file: '@preact/signals' },
  '@preact/signals-core': { path: 'packages/signals-core.js', file: '@preact/signals-core' },
  uplot: { path: 'packages/uplot.js', file: 'uplot/dist/uPlot.esm.js' },
} as const;

/** The paths of the packages, by the specifier that imports them. */
const packagePaths: ReadonlyMap<string, string> = new Map(
  Object.entries(packageFiles).map(([specifier, { path }]) => [specifier, path]),
);

/** The style sheets, in the order in which they are joined into one. */
const styleSheets: readonly string[] = [
  ...['tokens', 'base', 'frame', 'parts', 'lists', 'pages'].map((name) => join(webFolder, `style/${name}.css`)),
  fileURLToPath(import.meta.resolve('uplot/dist/uPlot.min.css')),
];

/** The modules, sorted by path. @throws Error where a package is not installed, or a file cannot be read */
function listModules(): readonly ListedFile[] {
  const own = readdirSync(webFolder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !name.endsWith('.d.ts'))
    .map((name) => ({
      path: `web/${name.replaceAll('\\', '/')}`,
      file: join(webFolder, name),
    }));
  const packages = Object.values(packageFiles).map(({ path, file }) => ({
    path,
    file: fileURLToPath(import.meta.resolve(file)),
  }));
  return [...own, ...packages].sort((one, other) => (one.path < other.path ? -1 : 1));
}

/** The codings that files are kept in. */
export type Coding = 'br' | 'gzip' | 'identity';

/** A file as it is sent. */
export interface MadeFile {
  readonly path: string;
  readonly contentType: string;
  /** Without quotes; the tag of a coding has the coding behind it. */
  readonly tag: string;
  readonly octets: Readonly<Record<Coding, Uint8Array<ArrayBuffer>>>;
}

/** All files of the console. */
export interface MadeFiles {
  /** Of all files together: it stands in their URLs, so that a browser may keep them for ever. */
  readonly digest: string;
  readonly files: readonly MadeFile[];
  /** The page that loads them. */
  readonly index: MadeFile;
}

const fromClause = /((?:^|[;}])\s*(?:import|export)\b[^'"();]*?(?:\bfrom)?\s*)(['"])([^'"]+)\2/gm;

/** Where a module is that another imports, as a path of `listModules`; undefined for what is no module of ours. */
function pathOf(specifier: string, importer: string): string | undefined {
  if (specifier.startsWith('.')) return posix.join(posix.dirname(importer), specifier);
  return packagePaths.get(specifier);
}

/**
 * Takes the types out of a module and replaces the names of packages by relative URLs. So no import map is needed, which
 * would have to be a script within the page.
 */
function browserModule(text: string, path: string): { readonly text: string; readonly imports: readonly string[] } {
  const code = path.endsWith('.ts') ? stripTypeScriptTypes(text) : text.replace(/^\/\/# sourceMappingURL=.*$/m, '');
  const imports: string[] = [];
  const rewritten = code.replace(fromClause, (whole: string, before: string, quote: string, specifier: string) => {
    const target = pathOf(specifier, path);
    if (target === undefined) return whole;
    imports.push(target);
    const url = specifier.startsWith('.') ? specifier : posix.relative(posix.dirname(path), target);
    return `${before}${quote}${url.startsWith('.') ? url : `./${url}`}${quote}`;
  });
  return { text: rewritten, imports };
}

function made(path: string, contentType: string, text: string): MadeFile {
  const identity = Buffer.from(text);
  const tag = createHash('sha256').update(identity).digest('base64url').slice(0, 22);
  const br = brotliCompressSync(identity, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } });
  return { path, contentType, tag, octets: { identity, gzip: gzipSync(identity, { level: 9 }), br } };
}

const script = 'text/javascript; charset=utf-8';

/** The modules that `entry` imports, and those that they import, breadth first. */
function reachedFrom(entry: string, imports: ReadonlyMap<string, readonly string[]>): readonly string[] {
  const reached = new Set([entry]);
  for (const path of reached) for (const next of imports.get(path) ?? []) reached.add(next);
  return [...reached];
}

async function makeFiles(): Promise<MadeFiles> {
  const imports = new Map<string, readonly string[]>();
  const files = listModules().map(({ path, file }) => {
    const module = browserModule(readFileSync(file, 'utf8'), path);
    imports.set(path, module.imports);
    return made(path, script, module.text);
  });
  for (const { path, text } of await policyModules()) files.push(made(path, script, text));
  const css = styleSheets.map((file) => readFileSync(file, 'utf8')).join('\n');
  files.push(made('style.css', 'text/css; charset=utf-8', css));
  const hash = createHash('sha256');
  for (const { path, octets } of files) hash.update(`${path}\0${octets.identity.length}\0`).update(octets.identity);
  const digest = hash.digest('hex').slice(0, 16);
  const page = pageText(digest, reachedFrom('web/main.ts', imports));
  return { digest, files, index: made('index.html', 'text/html; charset=utf-8', page) };
}

parentPort?.postMessage(await makeFiles(), []);
