// Builds the package into dist, or into the folder that is named: one module for each entry, made of the gateway's own sources, with what stands for Node and for
// the gateway's libraries in its place. Nothing here waits for anything, so that `async` and `await` are taken out of what is
// bundled: a verdict is given at once.

import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { build } from 'rolldown';
import { parseAst } from 'rolldown/parseAst';

const folder = resolve(dirname(fileURLToPath(import.meta.url)), '..');
const gateway = resolve(folder, '../../src');
const seamFolder = join(folder, 'src/seam');

/** What stands for what, read from the module that the console reads too. */
const seams = new Map(
  [...readFileSync(join(seamFolder, 'modules.ts'), 'utf8').matchAll(/^ {2}'?([^':]+(?::[^']+)?)'?: '([^']+)',$/gm)].map(
    ([, of, by]) => [of, join(seamFolder, `${by}.ts`)],
  ),
);

const seamPlugin = {
  name: 'seams',
  resolveId(specifier, importer) {
    if (!specifier.startsWith('.')) return seams.get(specifier) ?? null;
    if (importer === undefined) return null;
    return seams.get(relative(gateway, resolve(dirname(importer), specifier)).replace(/\.ts$/, '')) ?? null;
  },
};

/** Modules that are imported at their first use are imported at once, Buffer is what stands for it, and no module asks for its own URL. */
const sourcePlugin = {
  name: 'sources',
  transform(code, path) {
    if (!path.endsWith('.ts')) return null;
    const hoisted = [];
    const text = code.replaceAll('import.meta.url', "''").replace(/await import\(('[^']+')\)/g, (_, specifier) => {
      hoisted.push(`import * as hoisted${hoisted.length} from ${specifier};`);
      return `hoisted${hoisted.length - 1}`;
    });
    const needsBuffer = /\bBuffer\b/.test(text) && !path.startsWith(seamFolder);
    const buffer = needsBuffer ? `import { Buffer } from ${JSON.stringify(join(seamFolder, 'octets.ts'))};` : '';
    return { code: `${buffer}${hoisted.join('')}${text}`, map: null };
  },
};

/** Every node of a syntax tree. */
function* nodesOf(node) {
  if (Array.isArray(node)) for (const one of node) yield* nodesOf(one);
  else if (typeof node === 'object' && node !== null) {
    if (typeof node.type === 'string') yield node;
    for (const value of Object.values(node)) if (typeof value === 'object') yield* nodesOf(value);
  }
}

/** Takes `async` and `await` out of a module. */
function withoutWaiting(code) {
  const cuts = [];
  for (const node of nodesOf(parseAst(code))) {
    if (node.type === 'AwaitExpression') cuts.push([node.start, code.slice(node.start).match(/^await\s*/)[0].length]);
    // A method's own node begins behind its `async`.
    if (node.type === 'MethodDefinition' && node.value.async) {
      const [text] = code.slice(node.start).match(/^(?:static\s+)?async\s+/);
      cuts.push([node.start + text.lastIndexOf('async'), 6]);
    } else if (node.type === 'Property' && node.method && node.value.async) cuts.push([node.start, 6]);
    else if (node.async === true && code.startsWith('async', node.start)) cuts.push([node.start, 6]);
  }
  cuts.sort(([one], [other]) => other - one);
  let text = code;
  for (const [start, length] of cuts) text = text.slice(0, start) + text.slice(start + length);
  return text;
}

/** Bundles an entry for any platform. */
async function bundle(entry) {
  const { output } = await build({
    input: join(folder, 'src', entry),
    cwd: folder,
    platform: 'neutral',
    plugins: [seamPlugin, sourcePlugin],
    treeshake: { moduleSideEffects: false },
    output: { format: 'esm', codeSplitting: false, comments: false },
    write: false,
  });
  if (output.length !== 1) throw new Error(`${entry} became ${output.length} files`);
  const [{ code, imports, dynamicImports }] = output;
  const outside = [...imports, ...dynamicImports];
  if (outside.length > 0) throw new Error(`${entry} would import ${outside.join(', ')}`);
  return withoutWaiting(code);
}

/** Bundles what runs in Node alone, beside the built library. */
async function bundleForNode(entry) {
  const beside = {
    name: 'beside',
    resolveId: (specifier) => (specifier === './judge.ts' ? { id: './index.js', external: true } : null),
  };
  const { output } = await build({
    input: join(folder, 'src', entry),
    cwd: folder,
    platform: 'node',
    plugins: [beside],
    output: { format: 'esm', codeSplitting: false, comments: false },
    write: false,
  });
  return output[0].code;
}

/** Makes a module as small as it can be, for browsers. */
async function minified(name, code) {
  const { output } = await build({
    input: name,
    platform: 'neutral',
    plugins: [{ name: 'given', resolveId: (id) => id, load: () => code }],
    output: { format: 'esm', minify: true },
    write: false,
  });
  return output[0].code;
}

const declarations = `${readFileSync(join(folder, 'src/types.ts'), 'utf8')}
/** The limits of the policy; a value exactly at its limit is accepted. Bytes are bytes of UTF-8. */
export declare const limits: {
  readonly nameBytes: number;
  readonly valueBytes: number;
  readonly allowlisted: number;
  readonly totalBytes: number;
};

/** Judges a message, its fields, or the body of a request, as a gateway would. It throws for nothing that they hold, and its cost is linear in them. */
export declare function judge(input: JudgeInput, options?: JudgeOptions): Judgement;
`;

const matcherDeclarations = `import type { JudgeInput, JudgeOptions } from './index.js';

/** The answer of a matcher. */
interface Answer {
  readonly pass: boolean;
  readonly message: () => string;
}

/** Passes where a gateway would accept the message. */
export declare function toPassPostern(received: JudgeInput, options?: JudgeOptions): Answer;

/** The matchers, for \`expect.extend\`. */
declare const matchers: { readonly toPassPostern: typeof toPassPostern };
export default matchers;

declare global {
  namespace jest {
    interface Matchers<R, T = {}> {
      /** Passes where a Postern gateway would accept the message, with these settings of a credential. */
      toPassPostern(options?: JudgeOptions): R;
    }
  }
}
`;

const dist = resolve(process.argv[2] ?? join(folder, 'dist'));
rmSync(dist, { recursive: true, force: true });
mkdirSync(dist, { recursive: true });
const policy = await bundle('index.ts');
writeFileSync(join(dist, 'index.js'), policy);
const small = await minified('index.js', policy);
writeFileSync(join(dist, 'index.min.js'), small);
writeFileSync(join(dist, 'index.d.ts'), declarations);
writeFileSync(join(dist, 'lint.js'), `#!/usr/bin/env node\n${await bundleForNode('lint.ts')}`, { mode: 0o755 });
writeFileSync(join(dist, 'matchers.js'), withoutWaiting(await bundleForNode('matchers.ts')));
writeFileSync(join(dist, 'matchers.d.ts'), matcherDeclarations);
const [gzip, brotli] = [gzipSync(small, { level: 9 }), brotliCompressSync(small)].map(({ length }) => length.toLocaleString('en'));
console.log(`index.min.js: ${small.length.toLocaleString('en')} octets, ${gzip} as gzip, ${brotli} as brotli`);
