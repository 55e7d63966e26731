// A fault of the configuration, and how it is told: place, path, value, what is wanted.

import {
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  Lexer,
  LineCounter,
  type Node,
  type Pair,
  parseAllDocuments,
  visit,
  type YAMLMap,
} from 'yaml';
import { oncePer } from '../../base/once-per.ts';

/** A place in the text; both count from 1. */
interface Position {
  readonly line: number;
  readonly column: number;
}

/** A parsed text: its value as plain objects, and a way to find the place of a value in the text. */
export interface Source {
  readonly contents: unknown;
  /** Faults of the YAML itself. If there are any, `contents` is undefined. */
  readonly syntaxFaults: readonly { readonly position: Position; readonly text: string }[];
  /** The place of a fault, or of the nearest value above it where the text does not have the value itself. */
  locate(fault: Pick<ConfigFault, 'path' | 'atKey'>): Position;
}

type Part = Node | null | undefined;

/** The members of mappings by key, made for those in which a fault is looked for: each may have as many faults as keys. */
const membersOf = oncePer(({ items }: YAMLMap<Node, Node | null>): ReadonlyMap<string, Pair<Node, Node | null>> => {
  return new Map(items.flatMap((item) => (isScalar(item.key) ? [[String(item.key.value), item]] : [])));
});

/** The node under a key or position, and the place of the key. */
function descend(part: Part, step: string | number): { readonly part: Part; readonly keyAt?: number } | undefined {
  if (isSeq<Node>(part)) return typeof step === 'number' && part.items[step] ? { part: part.items[step] } : undefined;
  if (!isMap<Node, Node | null>(part)) return undefined;
  const pair = membersOf(part).get(String(step));
  if (!pair) return undefined;
  const keyAt = pair.key.range?.[0];
  return { part: pair.value, ...(keyAt === undefined ? {} : { keyAt }) };
}

function offsetOf(document: Document, { path, atKey }: Pick<ConfigFault, 'path' | 'atKey'>): number {
  let part: Part = document.contents;
  let offset = part?.range?.[0] ?? 0;
  for (const [index, step] of path.entries()) {
    const found = descend(isAlias(part) ? part.resolve(document) : part, step);
    if (!found) return offset;
    const ownOffset = found.part?.range?.[0];
    // An empty value has no useful place, so the place of its key is taken.
    const isEmpty = isScalar(found.part) && found.part.value === null;
    const wantsKey = isEmpty || (atKey === true && index === path.length - 1);
    offset = (wantsKey ? found.keyAt : ownOffset) ?? found.keyAt ?? offset;
    part = found.part;
  }
  return offset;
}

/** Where keys stand that are given again in one mapping. The parser's own check compares each key with all others. */
function repeatedKeys(document: Document): readonly number[] {
  const found: number[] = [];
  visit(document, {
    Map(_key, { items }) {
      const known = new Set<unknown>();
      for (const { key } of items) {
        if (!isScalar(key)) continue;
        if (known.has(key.value)) found.push(key.range?.[0] ?? 0);
        known.add(key.value);
      }
    },
  });
  return found;
}

function duplicateKey(text: string, offset: number): string {
  const key = /^[^\s:,}]{1,60}/.exec(text.slice(offset, offset + 60))?.[0] ?? 'a key';
  return `${key}: this key is given twice in one mapping`;
}

/** Brackets that may stand open at once. The parser works longer by the square of them, until its stack is full. */
const deepest = 100;

/** Where more brackets are open than a configuration has use for; undefined where nowhere. */
function tooDeepAt(text: string): number | undefined {
  let open = 0;
  // Whatever they stand in, most texts never have so many open, and are taken apart once.
  for (let at = 0; at < text.length && open <= deepest; at += 1) {
    if ('[{'.includes(text.charAt(at))) open += 1;
    else if (open > 0 && ']}'.includes(text.charAt(at))) open -= 1;
  }
  if (open <= deepest) return undefined;
  let [offset, depth] = [0, 0];
  for (const token of new Lexer().lex(text)) {
    if (token === '[' || token === '{') depth += 1;
    else if (token === ']' || token === '}') depth -= 1;
    if (depth > deepest) return offset;
    // The lexer's own marks are no text.
    if (!/^[\x02\x14\x18\x1f]$/.test(token)) offset += token.length;
  }
  return undefined;
}

/** Parses a configuration. Keys that are given twice, several documents, unknown tags and unresolved aliases are faults. */
export function parseSource(text: string): Source {
  const lines = new LineCounter();
  const deepAt = tooDeepAt(text);
  if (deepAt !== undefined) {
    const before = text.slice(0, deepAt).split('\n');
    const position = { line: before.length, column: (before.at(-1)?.length ?? 0) + 1 };
    const words = `more than ${deepest} brackets are open here; want fewer`;
    return { contents: undefined, syntaxFaults: [{ position, text: words }], locate: () => position };
  }
  const parsed = parseAllDocuments(text, {
    lineCounter: lines,
    prettyErrors: false,
    uniqueKeys: false,
    version: '1.2',
  });
  const documents = 'empty' in parsed ? [] : parsed;
  const positionAt = (offset: number): Position => {
    const { line, col } = lines.linePos(offset);
    return { line: Math.max(1, line), column: Math.max(1, col) };
  };
  const problems = documents.flatMap((document) => [
    ...[...document.errors, ...document.warnings].map(({ pos: [at], message }) => ({
      at,
      words: /call stack/.test(message) ? 'nested too deeply to be read' : message.replaceAll(/\s+/g, ' '),
    })),
    ...repeatedKeys(document).map((at) => ({ at, words: duplicateKey(text, at) })),
  ]);
  const syntaxFaults = problems
    .toSorted((one, other) => one.at - other.at)
    .map(({ at, words }) => ({ position: positionAt(at), text: words }));
  const [first, second] = documents;
  if (second) syntaxFaults.push({ position: positionAt(second.range?.[0] ?? 0), text: 'a second document; want one' });
  if (!first) return { contents: {}, syntaxFaults, locate: () => ({ line: 1, column: 1 }) };
  let contents: unknown;
  if (syntaxFaults.length === 0) {
    try {
      contents = first.toJS({ maxAliasCount: 100 }) ?? {};
    } catch (error) {
      syntaxFaults.push({ position: positionAt(0), text: error instanceof Error ? error.message : String(error) });
    }
  }
  return { contents, syntaxFaults, locate: (fault) => positionAt(offsetOf(first, fault)) };
}

/** The path to a value: keys and list positions from the top. */
export type ConfigPath = readonly (string | number)[];

/** One fault of the configuration. */
export interface ConfigFault {
  readonly path: ConfigPath;
  /** The text that stands behind the path: `got "x", want ...`. It never holds a secret. */
  readonly text: string;
  /** Whether the fault is at the key and not at its value, as for an unknown key. */
  readonly atKey?: boolean;
}

const plainKey = /^[A-Za-z_][A-Za-z0-9_-]*$/;

/** Writes a path: `smtp.listeners[0].listen`, `zones[1].records["a.b"]`; the top is `(top level)`. */
export function formatPath(path: ConfigPath): string {
  let text = '';
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`;
    else if (!plainKey.test(step)) text += `[${JSON.stringify(step.slice(0, 60))}]`;
    else text += text === '' ? step : `.${step}`;
  }
  return text === '' ? '(top level)' : text;
}

const longestShown = 60;

/** Quotes a value for an error: as JSON, shortened, with the user part of a URL hidden. */
export function quote(value: unknown): string {
  if (value === null) return 'nothing (null)';
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (typeof value === 'object') return 'a mapping';
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  if (typeof value !== 'string') return `a ${typeof value}`;
  const shown = value.replace(/^([A-Za-z0-9+.-]{1,30}:\/\/)[^/]*@/, '$1[hidden]@');
  return JSON.stringify(shown.length > longestShown ? `${shown.slice(0, longestShown)}...` : shown);
}

/** The kind of a secret's value, which an error shows instead of the value. */
export function kindOf(value: unknown): string {
  if (value === null || typeof value === 'object') return quote(value);
  return `a ${typeof value === 'string' ? 'text' : typeof value} (not shown)`;
}
