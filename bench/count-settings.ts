// Counts the keys of the configuration: `node bench/count-settings.ts [SCHEMA] [--list]`. SCHEMA is the file that exports `schema`, so
// that one count holds for every commit: that of another checkout is counted by the same lines. A leaf is a key that holds a value
// (where it may hold a mapping instead, the keys of that count); a key is a leaf or what holds leaves. An entry of a list is `[]`,
// an entry of a mapping without fixed keys `{}`.

import { resolve } from 'node:path';
import { parseArgs } from 'node:util';

/** The members of a schema's node that hold others. */
interface Node {
  readonly properties?: Readonly<Record<string, Node>>;
  readonly patternProperties?: Readonly<Record<string, Node>>;
  readonly items?: Node;
  readonly anyOf?: readonly Node[];
}

/** The paths of all keys below a node. */
function pathsOf(node: Node, at: string): readonly string[] {
  const { properties = {}, patternProperties = {}, items, anyOf = [] } = node;
  return [
    ...Object.entries(properties).flatMap(([key, value]) => {
      const path = at === '' ? key : `${at}.${key}`;
      return [path, ...pathsOf(value, path)];
    }),
    ...Object.values(patternProperties).flatMap((value) => pathsOf(value, `${at}{}`)),
    ...(items ? pathsOf(items, `${at}[]`) : []),
    ...anyOf.flatMap((branch) => pathsOf(branch, at)),
  ];
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { list: { type: 'boolean', default: false } },
});
const file = resolve(positionals[0] ?? 'src/app/config/schema.ts');
const { schema }: { readonly schema: Node } = await import(file);
const keys = [...new Set(pathsOf(schema, ''))];
const leaves = keys.filter(
  (key) => !keys.some((other) => /^(?:\.|\[\]|\{\})/.test(other.slice(key.length)) && other.startsWith(key)),
);
if (values.list) for (const leaf of leaves) console.log(leaf);
console.log(`${leaves.length} leaves, ${keys.length} keys`);
