// Which format a default response is written in: the Accept field, RFC 9110 §12.5.1, in the reading of D61. One pass from
// left to right, whatever the field holds.

import type { EdgeFormat } from './edge-error.ts';

const tab = 0x09;
const space = 0x20;
const quotationMark = 0x22;
const comma = 0x2c;
const semicolon = 0x3b;
const equals = 0x3d;
const backslash = 0x5c;

/** RFC 9110 §5.6.2: which of the first 128 characters are tchar. */
const isTokenCode: readonly boolean[] = Array.from({ length: 128 }, (_, code) =>
  /[!#$%&'*+.^_`|~0-9A-Za-z-]/.test(String.fromCharCode(code)),
);

/** Where the token that begins at `at` ends; `at` itself where there is none. */
function tokenEnd(text: string, at: number): number {
  let end = at;
  while (isTokenCode[text.charCodeAt(end)] === true) end += 1;
  return end;
}

function blanksEnd(text: string, at: number): number {
  let end = at;
  while (text.charCodeAt(end) === space || text.charCodeAt(end) === tab) end += 1;
  return end;
}

/** RFC 9110 §5.6.4: HTAB, SP, VCHAR and obs-text; a field is read as one character an octet. */
function isQuotable(code: number): boolean {
  return code === tab || (code >= space && code <= 0xff && code !== 0x7f);
}

/** Where the quoted-string that begins at `at` ends, behind its last mark; `at` where it is malformed. */
function quotedEnd(text: string, at: number): number {
  for (let end = at + 1; end < text.length; end += 1) {
    if (text.charCodeAt(end) === quotationMark) return end + 1;
    if (text.charCodeAt(end) === backslash) end += 1;
    if (end >= text.length || !isQuotable(text.charCodeAt(end))) return at;
  }
  return at;
}

/** Where the element of the list that begins at `at` ends: at a comma outside of quotation marks, or with the text. */
function elementEnd(text: string, at: number): number {
  let quoted = false;
  let end = at;
  for (; end < text.length; end += 1) {
    const code = text.charCodeAt(end);
    if (code === quotationMark) quoted = !quoted;
    else if (code === backslash && quoted) end += 1;
    else if (code === comma && !quoted) return end;
  }
  return text.length;
}

// RFC 9110 §12.4.2.
const qvalueForm = /^(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)$/;

/** A range of the list: its name in lower case, and q in thousandths. */
interface Range {
  readonly name: string;
  readonly q: number;
}

/** Reads what follows the name; undefined where a parameter or the first q is malformed. A second q is ignored (D61). */
function readWeight(text: string, from: number): number | undefined {
  let q: number | undefined;
  let at = blanksEnd(text, from);
  while (at < text.length) {
    if (text.charCodeAt(at) !== semicolon) return undefined;
    at = blanksEnd(text, at + 1);
    // RFC 9110 §5.6.6: a parameter between two semicolons, or behind the last, may be absent.
    if (at === text.length || text.charCodeAt(at) === semicolon) continue;
    const nameEnd = tokenEnd(text, at);
    if (nameEnd === at || text.charCodeAt(nameEnd) !== equals) return undefined;
    const valueStart = nameEnd + 1;
    const isQuoted = text.charCodeAt(valueStart) === quotationMark;
    const valueEnd = isQuoted ? quotedEnd(text, valueStart) : tokenEnd(text, valueStart);
    if (valueEnd === valueStart) return undefined;
    if (q === undefined && nameEnd === at + 1 && (text[at] === 'q' || text[at] === 'Q')) {
      const value = text.slice(valueStart, Math.min(valueEnd, valueStart + 6));
      if (!qvalueForm.test(value)) return undefined;
      q = Math.round(Number(value) * 1000);
    }
    at = blanksEnd(text, valueEnd);
  }
  return q ?? 1000;
}

/** Reads one element of the list; undefined where it is empty or malformed. */
function readRange(element: string): Range | undefined {
  const start = blanksEnd(element, 0);
  const slash = tokenEnd(element, start);
  if (slash === start || element[slash] !== '/') return undefined;
  const end = tokenEnd(element, slash + 1);
  if (end === slash + 1) return undefined;
  const q = readWeight(element, end);
  return q === undefined ? undefined : { name: element.slice(start, end).toLowerCase(), q };
}

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

/** What the list says of a range: its highest q, and where it stood first. */
interface Weight {
  readonly q: number;
  readonly position: number;
}

function readRanges(accept: string): ReadonlyMap<string, Weight> {
  const weights = new Map<string, Weight>();
  for (let at = 0; at < accept.length; ) {
    const end = elementEnd(accept, at);
    const range = readRange(accept.slice(at, end));
    if (range && knownRanges.has(range.name)) {
      const earlier = weights.get(range.name);
      weights.set(range.name, {
        q: Math.max(range.q, earlier?.q ?? 0),
        position: earlier?.position ?? at,
      });
    }
    at = end + 1;
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

/**
 * Chooses the format of a default response (D61): the highest q, then the earliest range, then the order inside a
 * wildcard; malformed ranges are skipped. Linear in the length of the field; never throws.
 * @param accept the Accept field, several lines of it joined by ", "; undefined where there is none
 * @returns HTML where nothing usable is asked for
 */
export function negotiate(accept: string | undefined): EdgeFormat {
  if (accept === undefined) return 'html';
  const weights = readRanges(accept);
  let best: Candidate | undefined;
  for (const format of formats) {
    const candidate = candidateOf(format, weights);
    if (!candidate) continue;
    const ahead = best ? candidate.q - best.q || best.position - candidate.position || best.order - candidate.order : 1;
    if (ahead > 0) best = candidate;
  }
  return best?.format ?? 'html';
}
