// The proposed lines of a credential as a change of the configuration file, which stays as it is otherwise and is valid with it.

import { isDeepStrictEqual } from 'node:util';
import { isMap, isScalar, isSeq, type Node, type Pair, parseDocument, type YAMLMap } from 'yaml';
import { ConfigurationError } from '../../base/errors.ts';
import { isRecord } from '../../base/is-record.ts';
import { type CredentialLines, yamlText, yamlValue } from '../../pipeline/report/settings.ts';
import { type DiffLine, diffLines, linesOf } from '../../web/console/web/text/line-diff.ts';
import { type ConfigSource, loadConfig, readConfigText } from './config.ts';

/** A change of the file. */
export interface MergedCure {
  /** The number of the first line that is replaced, or that new lines stand behind. */
  readonly line: number;
  /** A unified diff. */
  readonly diff: string;
  readonly after: string;
}

/** Characters of a file that is changed: one of 83,000 takes 3.5 s. */
export const longestText = 131_072;

interface Place {
  readonly account: string;
  readonly credential: string;
}

interface Edit {
  readonly from: number;
  readonly to: number;
  readonly text: string;
}

type Entry = YAMLMap<Node, Node | null>;

const context = 3;

function entryNamed(parent: unknown, list: string, name: string): Entry | undefined {
  const entries = isMap(parent) ? parent.get(list, true) : undefined;
  if (!isSeq(entries)) return undefined;
  return entries.items.find((one): one is Entry => isMap(one) && one.get('name') === name);
}

/** The end of what a node says, without the line ends that a block has behind it. */
function endOf(text: string, node: Node): number {
  let end = node.range?.[1] ?? 0;
  while (/\s/.test(text[end - 1] ?? 'x')) end -= 1;
  return end;
}

function startOf(node: Node | null | undefined): number {
  return node?.range?.[0] ?? 0;
}

/** The end of the line that a place is in, with the comment behind it. */
function lineEnd(text: string, at: number): number {
  const end = text.slice(at).search(/\r?\n/);
  return end < 0 ? text.length : at + end;
}

/** Adds members behind the last of a list or mapping, in its own form. @param first where its first member begins */
function addition(
  text: string,
  { flow, first, last }: { readonly flow: boolean; readonly first: number; readonly last: Node },
  members: readonly string[],
): Edit {
  const end = endOf(text, last);
  if (flow) return { from: end, to: end, text: members.map((one) => `, ${one}`).join('') };
  const indent = ' '.repeat(first - (text.lastIndexOf('\n', first - 1) + 1));
  const lineFeed = text.includes('\r\n') ? '\r\n' : '\n';
  const at = lineEnd(text, end);
  return { from: at, to: at, text: members.map((one) => `${lineFeed}${indent}${one}`).join('') };
}

/** What a key says with the wanted value: what is there stays in its order, unless some of it goes. */
function mergedValue(present: unknown, wanted: unknown): unknown {
  if (!Array.isArray(present) || !Array.isArray(wanted)) return wanted;
  const [before, after] = [new Set<unknown>(present), new Set<unknown>(wanted)];
  return before.isSubsetOf(after) ? [...present, ...after.difference(before)] : wanted;
}

function changeOf(text: string, { key, value }: Pair<Node, Node | null>, to: { present: unknown; merged: unknown }) {
  const { present, merged } = to;
  const added = Array.isArray(present) && Array.isArray(merged) ? merged.slice(present.length) : [];
  const isLonger = Array.isArray(present) && isDeepStrictEqual(merged, [...present, ...added]);
  const lastItem: unknown = isSeq(value) ? value.items.at(-1) : undefined;
  if (isLonger && isSeq(value) && isScalar(lastItem)) {
    const at = { flow: value.flow === true, first: startOf(value), last: lastItem };
    const items = added.map((one) => `${at.flow ? '' : '- '}${yamlText(String(one))}`);
    return addition(text, at, items);
  }
  const lastPair = isMap<Node, Node | null>(value) ? value.items.at(-1) : undefined;
  if (isMap<Node>(value) && lastPair?.value && isRecord(present) && isRecord(merged)) {
    const at = { flow: value.flow === true, first: startOf(value.items[0]?.key), last: lastPair.value };
    const names = Object.keys(merged).filter((name) => !Object.hasOwn(present, name));
    const members = names.map((name) => `${yamlText(name)}: ${yamlText(String(merged[name]))}`);
    return addition(text, at, members);
  }
  const from = key.range?.[1] ?? 0;
  return { from, to: value ? endOf(text, value) : from, text: `: ${yamlValue(merged)}` };
}

type Values = Readonly<Record<string, unknown>>;

function editsOf(text: string, entry: Entry, { present, merged }: { present: Values; merged: Values }): Edit[] {
  const edits: Edit[] = [];
  const added: string[] = [];
  for (const [key, value] of Object.entries(merged)) {
    const pair = entry.items.find((one) => isScalar(one.key) && one.key.value === key);
    const was = present[key];
    if (!pair) added.push(`${key}: ${yamlValue(value)}`);
    else if (!isDeepStrictEqual(was, value)) edits.push(changeOf(text, pair, { present: was, merged: value }));
  }
  const last = entry.items.at(-1);
  if (added.length === 0 || !last) return edits;
  const at = { flow: entry.flow === true, first: startOf(entry.items[0]?.key), last: last.value ?? last.key };
  return [...edits, addition(text, at, added)];
}

/** Applies edits, the last in the text first. Of two at one place the one that was made later stands behind the other. */
function edited(text: string, edits: readonly Edit[]): string {
  let result = text;
  for (const { from, to, text: put } of edits.toReversed().toSorted((one, two) => two.from - one.from))
    result = result.slice(0, from) + put + result.slice(to);
  return result;
}

const marks = { same: ' ', removed: '-', added: '+' } as const satisfies Record<DiffLine['kind'], string>;

/** The diff's hunks. @param within numbers of the lines that may stand around: those of other accounts are not shown */
function hunksOf(lines: readonly DiffLine[], within: { first: number; last: number }): readonly string[] {
  const groups: { readonly from: number; to: number }[] = [];
  for (const [index, { kind }] of lines.entries()) {
    if (kind === 'same') continue;
    const last = groups.at(-1);
    if (last && index - last.to <= 2 * context) last.to = index;
    else groups.push({ from: index, to: index });
  }
  const isWithin = ({ kind, left }: DiffLine): boolean =>
    kind !== 'same' || left === undefined || (left >= within.first && left <= within.last);
  return groups.flatMap(({ from, to }) => {
    const part = lines.slice(Math.max(0, from - context), to + context + 1).filter(isWithin);
    const left = part.filter(({ kind }) => kind !== 'added');
    const right = part.filter(({ kind }) => kind !== 'removed');
    const head = `@@ -${left[0]?.left ?? 0},${left.length} +${right[0]?.right ?? 0},${right.length} @@`;
    return [head, ...part.map(({ kind, text }) => `${marks[kind]}${text}`)];
  });
}

function withNamed(list: unknown, name: string, change: (one: Values) => object): unknown {
  if (!Array.isArray(list)) return list;
  return list.map((one: unknown) => (isRecord(one) && one['name'] === name ? change(one) : one));
}

function expected(contents: unknown, { account, credential }: Place, entry: object): unknown {
  if (!isRecord(contents)) return contents;
  const changed = (one: Values): object => ({
    ...one,
    credentials: withNamed(one['credentials'], credential, () => entry),
  });
  return { ...contents, accounts: withNamed(contents['accounts'], account, changed) };
}

/** Whether a text is a valid configuration. */
export function isSound(place: ConfigSource, text: string): boolean {
  try {
    loadConfig({ ...place, text });
    return true;
  } catch (error) {
    if (error instanceof ConfigurationError) return false;
    throw error;
  }
}

/** Makes the change that brings lines into a credential's entry; what the entry has stands among the lines. */
export type MergeCure = (place: Place, lines: CredentialLines) => MergedCure | undefined;

/** Reads the file once. @returns what makes changes; it gives undefined where no change of the text alone does it, or none is sound */
export function cureMerger(source: ConfigSource): MergeCure {
  const before = source.text ?? readConfigText(source);
  // The whole file is checked for each credential: of a very large one the lines alone are told.
  if (before.length > longestText) return () => undefined;
  const document = parseDocument(before, { version: '1.2' });
  return (place, lines) => {
    const account = entryNamed(document.contents, 'accounts', place.account);
    const entry = entryNamed(account, 'credentials', place.credential);
    const present: unknown = entry?.toJS(document);
    if (!account || !entry || !isRecord(present)) return undefined;
    const merged = Object.fromEntries(
      Object.entries(lines).map(([key, value]: [string, unknown]) => [key, mergedValue(present[key], value)]),
    );
    const after = edited(before, editsOf(before, entry, { present, merged }));
    if (after === before) return undefined;
    const wanted = expected(document.toJS(), place, { ...present, ...merged });
    const changed = parseDocument(after, { version: '1.2' });
    if (changed.errors.length > 0 || !isDeepStrictEqual(changed.toJS(), wanted) || !isSound(source, after))
      return undefined;
    const difference = diffLines(linesOf(before), linesOf(after));
    const first = difference.findIndex(({ kind }) => kind !== 'same');
    const line = difference[first]?.left ?? difference[first - 1]?.left ?? 1;
    const lineAt = (offset: number): number => linesOf(before.slice(0, offset + 1)).length;
    const within = { first: lineAt(startOf(account)), last: lineAt(endOf(before, account) - 1) };
    return { line, diff: `${hunksOf(difference, within).join('\n')}\n`, after };
  };
}
