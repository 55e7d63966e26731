// The entry of the thread that makes the console's files, which takes some tenths of a second that sessions must not wait for.

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parentPort } from 'node:worker_threads';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { modulesFrom, policyModules } from './browser-modules.ts';
import { pageText } from './page-text.ts';

/** The folder of the pages, whose files a browser gets with those of the packages that they import. */
const webFolder = join(import.meta.dirname, '../web');

/** The browser's packages by specifier, each as its file for ES modules. Nothing else of node_modules is ever served. */
const packages = [
  { name: 'preact', path: 'packages/preact.js', module: 'preact' },
  { name: 'preact/hooks', path: 'packages/preact-hooks.js', module: 'preact/hooks' },
  { name: '@preact/signals', path: 'packages/signals.js', module: '@preact/signals' },
  { name: '@preact/signals-core', path: 'packages/signals-core.js', module: '@preact/signals-core' },
  { name: 'uplot', path: 'packages/uplot.js', module: 'uplot/dist/uPlot.esm.js' },
].map(({ module, ...one }) => ({ ...one, file: fileURLToPath(import.meta.resolve(module)) }));

/** The style sheets, in the order in which they are joined into one. */
const styleSheets: readonly string[] = [
  ...['tokens', 'base', 'frame', 'parts', 'lists', 'pages'].map((name) => join(webFolder, `style/${name}.css`)),
  fileURLToPath(import.meta.resolve('uplot/dist/uPlot.min.css')),
];

function fileOf(specifier: string, importer: string): string {
  if (specifier.startsWith('.')) return resolve(dirname(importer), specifier);
  const found = packages.find(({ name }) => name === specifier);
  if (!found) throw new Error(`${importer} imports ${specifier}, which no browser has`);
  return found.file;
}

function pathOf(file: string): string {
  const ofPackage = packages.find((one) => one.file === file)?.path;
  return ofPackage ?? `web/${relative(webFolder, file).split(sep).join('/')}`;
}

/** The codings that files are kept in. */
export type Coding = 'br' | 'gzip' | 'identity';

/** A file as it is sent. */
export interface MadeFile {
  readonly path: string;
  readonly contentType: string;
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

function made(path: string, contentType: string, text: string): MadeFile {
  const identity = Buffer.from(text);
  const br = brotliCompressSync(identity, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } });
  return { path, contentType, octets: { identity, gzip: gzipSync(identity, { level: 9 }), br } };
}

const script = 'text/javascript; charset=utf-8';

/** The modules that `entry` imports, and those that they import, breadth first. */
function reachedFrom(entry: string, imports: ReadonlyMap<string, readonly string[]>): readonly string[] {
  const reached = new Set([entry]);
  for (const path of reached) for (const next of imports.get(path) ?? []) reached.add(next);
  return [...reached];
}

async function makeFiles(): Promise<MadeFiles> {
  const own = modulesFrom([join(webFolder, 'main.ts'), join(webFolder, 'early.ts')], { fileOf, pathOf });
  const imports = new Map(own.map((module) => [module.path, module.imports]));
  const files = [...own, ...(await policyModules())].map(({ path, text }) => made(path, script, text));
  const css = styleSheets.map((file) => readFileSync(file, 'utf8')).join('\n');
  files.push(made('style.css', 'text/css; charset=utf-8', css));
  const hash = createHash('sha256');
  for (const { path, octets } of files) hash.update(`${path}\0${octets.identity.length}\0`).update(octets.identity);
  const digest = hash.digest('hex').slice(0, 16);
  const page = pageText(digest, reachedFrom('web/main.ts', imports));
  return { digest, files, index: made('index.html', 'text/html; charset=utf-8', page) };
}

parentPort?.postMessage(await makeFiles(), []);
