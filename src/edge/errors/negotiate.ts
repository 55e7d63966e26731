// Which format a default response is written in: the Accept field, RFC 9110 §12.5.1, in the reading of D61.

import type { EdgeFormat } from './catalogue.ts';

// RFC 9110 §5.6.2, §5.6.4. No part of these forms can be read in two ways, so that matching takes linear time.
const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
const quoted = String.raw`"(?:[\t !#-\[\]-~\x80-\xff]|\\[\t -~\x80-\xff])*"`;
// RFC 9110 §5.6.6: a parameter between two semicolons, or behind the last, may be absent.
const parameter = String.raw`;[\t ]*(?:(${token})=(${token}|${quoted})[\t ]*)?`;

/** An element of the list: up to a comma outside of quotation marks, or with the text. */
const elementForm = /(?:[^",]+|"(?:[^"\\]|\\[^])*(?:"|\\?$))+/g;
/** The name of a range, with the blanks around it. */
const headForm = /^[\t ]*([^\t ;]*)[\t ]*/;
const parametersForm = new RegExp(`^(?:${parameter})*$`);
const parameterForm = new RegExp(parameter, 'g');
// RFC 9110 §12.4.2.
const qvalueForm = /^(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)$/;

/** The ranges that match each format, the most specific one first. */
const rangesOf = {
  json: ['application/json', 'application/*', '*/*'],
  problem: ['application/problem+json', 'application/*', '*/*'],
  markdown: ['text/markdown', 'text/*', '*/*'],
  html: ['text/html', 'text/*', '*/*'],
} as const satisfies Record<EdgeFormat, readonly string[]>;

/** The order inside each wildcard (D61); of an exact range there is only one format. */
const orderInside: Readonly<Record<string, readonly EdgeFormat[]>> = {
  'text/*': ['markdown', 'html'],
  'application/*': ['json', 'problem'],
  '*/*': ['html', 'json', 'markdown', 'problem'],
};

const formats = ['html', 'json', 'markdown', 'problem'] as const satisfies readonly EdgeFormat[];
const knownRanges: ReadonlySet<string> = new Set(Object.values(rangesOf).flat());

function readRange(element: string): { readonly name: string; readonly q: number } | undefined {
  const [head = '', given = ''] = headForm.exec(element) ?? [];
  const name = given.toLowerCase();
  if (!knownRanges.has(name)) return undefined;
  const parameters = element.slice(head.length);
  if (parameters === '') return { name, q: 1000 };
  if (!parametersForm.test(parameters)) return undefined;
  for (const [, parameter, value = ''] of parameters.matchAll(parameterForm)) {
    // A second q is ignored (D61).
    if (parameter?.toLowerCase() !== 'q') continue;
    return qvalueForm.test(value) ? { name, q: Math.round(Number(value) * 1000) } : undefined;
  }
  return { name, q: 1000 };
}

/** What the list says of a range: its highest q, and where it stood first. */
interface Weight {
  readonly q: number;
  readonly position: number;
}

function readRanges(accept: string): ReadonlyMap<string, Weight> {
  const weights = new Map<string, Weight>();
  for (const { 0: element, index } of accept.matchAll(elementForm)) {
    const range = readRange(element);
    if (!range) continue;
    const earlier = weights.get(range.name);
    weights.set(range.name, { q: Math.max(range.q, earlier?.q ?? 0), position: earlier?.position ?? index });
  }
  return weights;
}

/** A format that is wanted; `order` is its place inside the range that decides. */
interface Candidate extends Weight {
  readonly format: EdgeFormat;
  readonly order: number;
}

function candidateOf(format: EdgeFormat, weights: ReadonlyMap<string, Weight>): Candidate | undefined {
  const range = rangesOf[format].find((name) => weights.has(name));
  const weight = range === undefined ? undefined : weights.get(range);
  if (range === undefined || !weight || weight.q === 0) return undefined;
  return { format, ...weight, order: orderInside[range]?.indexOf(format) ?? 0 };
}

/** Chooses the format (D61): the highest q, then the earliest range; malformed ones are skipped. Linear; never throws. @returns else HTML */
export function negotiate(accept: string | undefined): EdgeFormat {
  if (accept === undefined) return 'html';
  const weights = readRanges(accept);
  const wanted = formats.flatMap((format) => candidateOf(format, weights) ?? []);
  const [best] = wanted.toSorted((a, b) => b.q - a.q || a.position - b.position || a.order - b.order);
  return best?.format ?? 'html';
}
