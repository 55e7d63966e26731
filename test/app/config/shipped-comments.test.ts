// config/postern.yaml shows every key that there is, with a comment: docs/operations.md promises it.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { schema } from '../../../src/app/config/schema.ts';

/** What is read of a schema, in the form of JSON Schema. */
interface Node {
  readonly properties?: Readonly<Record<string, Node>>;
  readonly anyOf?: readonly Node[];
  readonly items?: Node;
  readonly patternProperties?: Readonly<Record<string, Node>>;
}

/** The paths of all keys below a part of the schema. */
function keysOf({ properties = {}, anyOf = [], items, patternProperties = {} }: Node, path = ''): readonly string[] {
  const inner = [...anyOf, ...(items ? [items] : []), ...Object.values(patternProperties)];
  return [
    ...Object.entries(properties).flatMap(([key, value]) => [`${path}${key}`, ...keysOf(value, `${path}${key}.`)]),
    ...inner.flatMap((value) => keysOf(value, path)),
  ];
}

/** Fields of the API's bodies, which docs/proxy.md and docs/edge-custom-errors.md tell, and types of records in DNS. */
const elsewhere = /^zones\.(?:applications|records)\.|\.(?:content_type|status_code)$/;

/** Keys that have below them what others have, where it is shown. */
const asOthers: readonly (readonly [path: string, shown: string])[] = [
  ['accounts.customErrors', 'zones.customErrors'],
  ['proxy.limits.applications', 'proxy.limits'],
  ['routes.tlsByDomain', 'routes.tls'],
  ['routes.urls.auth', 'routes.auth'],
  ['routes.urls.tls', 'routes.tls'],
  ['smtp.listeners.policy', 'accounts.credentials.policy'],
];

function shownAs(key: string): string {
  const [path = '', shown = ''] = asOthers.find(([one]) => key.startsWith(`${one}.`)) ?? [];
  return path === '' ? key : shown + key.slice(path.length);
}

/** A line of the file, and the path of its key; of a line of prose, that of the mapping in which it stands. */
interface Line {
  readonly path: string;
  readonly isKey: boolean;
  readonly text: string;
}

/** The lines with their paths. A key that is commented out stands where it would without the `# `; `- ` is white space. */
function linesOf(yaml: string): readonly Line[] {
  const open: { readonly column: number; readonly key: string }[] = [];
  return yaml.split('\n').map((line) => {
    let text = line;
    while (/^ *# /.test(text)) text = text.replace('# ', '');
    const [, blanks = '', key] = /^((?:- |[ ])*)(?:([A-Za-z]\w*):(?: |$))?/.exec(text) ?? [];
    while ((open.at(-1)?.column ?? -1) >= blanks.length) open.pop();
    if (key !== undefined) open.push({ column: blanks.length, key });
    return { path: open.map((one) => one.key).join('.'), isKey: key !== undefined, text };
  });
}

/** Whether a line shows a key: as its own, inside its value, or as what may stand in its place. */
function shows({ path, isKey, text }: Line, wanted: string): boolean {
  const [above, key] = [
    wanted.slice(0, Math.max(0, wanted.lastIndexOf('.'))),
    wanted.slice(wanted.lastIndexOf('.') + 1),
  ];
  const beside = isKey ? path.slice(0, Math.max(0, path.lastIndexOf('.'))) : path;
  const isNear = above === beside || above === path || (isKey && above.startsWith(`${path}.`));
  return isNear && new RegExp(`(?<![\\w.-])${key}(?!\\w)`).test(text);
}

test('config/postern.yaml names every key where it stands', () => {
  const lines = linesOf(readFileSync(join(import.meta.dirname, '../../../config/postern.yaml'), 'utf8'));
  const keys = keysOf(JSON.parse(JSON.stringify(schema)) as Node).filter((path) => !elsewhere.test(path));
  expect(keys.length).toBeGreaterThan(200);
  expect(keys.filter((key) => !lines.some((line) => shows(line, shownAs(key))))).toEqual([]);
});
