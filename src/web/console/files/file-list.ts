// Which files a browser gets for the console: our own of src/web/console/web, and those of the packages that they import.

import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The folder of the pages. */
const webFolder = join(import.meta.dirname, '../web');

/** A file as it is on disk, and the path under which browsers ask for it. */
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
export const packagePaths: ReadonlyMap<string, string> = new Map(
  Object.entries(packageFiles).map(([specifier, { path }]) => [specifier, path]),
);

/** The style sheets, in the order in which they are joined into one. */
export const styleSheets: readonly string[] = [
  ...['tokens', 'base', 'frame', 'parts', 'lists', 'pages'].map((name) => join(webFolder, `style/${name}.css`)),
  fileURLToPath(import.meta.resolve('uplot/dist/uPlot.min.css')),
];

/** The modules, sorted by path. @throws Error where a package is not installed, or a file cannot be read */
export function listModules(): readonly ListedFile[] {
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
