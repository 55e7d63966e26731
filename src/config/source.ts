// Reads the YAML text (1.2) of a configuration and tells at which place of the text a path is.

import { type Document, isAlias, isMap, isScalar, isSeq, LineCounter, type Node, parseAllDocuments } from 'yaml';
import type { ConfigFault } from './fault.ts';

/** A place in the text; both count from 1. */
export interface Position {
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

/** The node under a key or position, and the place of the key. */
function descend(part: Part, step: string | number): { readonly part: Part; readonly keyAt?: number } | undefined {
  if (isSeq<Node>(part)) return typeof step === 'number' && part.items[step] ? { part: part.items[step] } : undefined;
  if (!isMap<Node, Node | null>(part)) return undefined;
  const pair = part.items.find((item) => isScalar(item.key) && String(item.key.value) === String(step));
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

function duplicateKey(text: string, offset: number): string {
  const key = /^[^\s:,}]{1,60}/.exec(text.slice(offset, offset + 60))?.[0] ?? 'a key';
  return `${key}: this key is given twice in one mapping`;
}

/**
 * Parses a configuration's text. Duplicate keys, several documents, unknown tags and unresolved aliases are faults;
 * an empty text is an empty mapping.
 */
export function parseSource(text: string): Source {
  const lines = new LineCounter();
  const parsed = parseAllDocuments(text, { lineCounter: lines, prettyErrors: false, uniqueKeys: true, version: '1.2' });
  const documents = 'empty' in parsed ? [] : parsed;
  const positionAt = (offset: number): Position => {
    const { line, col } = lines.linePos(offset);
    return { line: Math.max(1, line), column: Math.max(1, col) };
  };
  const problems = documents.flatMap((document) => [...document.errors, ...document.warnings]);
  const syntaxFaults = problems.map((problem) => ({
    position: positionAt(problem.pos[0]),
    text:
      problem.code === 'DUPLICATE_KEY' ? duplicateKey(text, problem.pos[0]) : problem.message.replaceAll(/\s+/g, ' '),
  }));
  const [first, second] = documents;
  if (second) {
    syntaxFaults.push({ position: positionAt(second.range?.[0] ?? 0), text: 'a second document; want one' });
  }
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
