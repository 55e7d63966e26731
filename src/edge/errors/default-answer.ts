// The answer an edge error gets where no rule and no page of the site's own applies: JSON, Markdown or a page, as the Accept field asks
// (RFC 9110 §12.5.1, in the reading of D61), its type and its caching (D62).

import { oncePer } from '../../base/once-per.ts';
import {
  closePage,
  escapeForeignText,
  escapeHtml,
  openPage,
  pageStyle,
  sheetCss,
} from '../../web/http/page/html-page.ts';
import type { EdgeError, EdgeFormat, EdgeOccurrence, ErrorAnswer } from './catalogue.ts';
import { categories } from './categories.ts';

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

const eachFormat = ['html', 'json', 'markdown', 'problem'] as const satisfies readonly EdgeFormat[];
const knownRanges: ReadonlySet<string> = new Set(Object.values(rangesOf).flat());

/** Reads an element as a known range: its name, and q in thousandths; undefined where it is none, or malformed. */
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
function candidateOf(format: EdgeFormat, weights: ReadonlyMap<string, Weight>) {
  const range = rangesOf[format].find((name) => weights.has(name));
  const weight = range === undefined ? undefined : weights.get(range);
  if (range === undefined || !weight || weight.q === 0) return undefined;
  return { format, ...weight, order: orderInside[range]?.indexOf(format) ?? 0 };
}

/** Chooses the format (D61): the highest q, then the earliest range; malformed ones are skipped. Linear; never throws. @returns else HTML */
export function negotiate(accept: string | undefined): EdgeFormat {
  if (accept === undefined) return 'html';
  const weights = readRanges(accept);
  const wanted = eachFormat.flatMap((format) => candidateOf(format, weights) ?? []);
  const [best] = wanted.toSorted((a, b) => b.q - a.q || a.position - b.position || a.order - b.order);
  return best?.format ?? 'html';
}

/** `footer`: who made the response. */
const attribution = 'Postern generated this response at the edge; it does not come from the origin server.';

/** `title`. */
export function titleOf(error: EdgeError): string {
  return `Error ${error.code}: ${error.shortName}`;
}

/** The URL of the page about an error (D62); undefined where no address is known by which clients reach it. */
function referenceUrlOf({ error, docsBaseUrl }: EdgeOccurrence): string | undefined {
  return docsBaseUrl === undefined ? undefined : `${docsBaseUrl}/errors/${error.code}`;
}

/** Seconds to wait, for `retry_after` and Retry-After alike; undefined where the catalogue has none: not retryable. */
function retrySecondsOf(occurrence: EdgeOccurrence): number | undefined {
  const usual = occurrence.error.retryAfterSeconds;
  return usual === undefined ? undefined : (occurrence.retryAfterSeconds ?? usual);
}

/** The first-level heading of an error: its number above its name, read as one title. */
export function errorHeading({ code, shortName }: EdgeError): string {
  return `<h1><span>Error ${code}<i>: </i></span>${escapeHtml(shortName)}</h1>`;
}

/** What the error is laid to: that of its category, but for an error of category config which the client causes (1038). */
export function responsiblePartyOf({ category, ownerAction }: EdgeError): string {
  if (category === 'config' && !ownerAction) return categories.unsupported.responsible;
  return categories[category].responsible;
}

/** Who has to act (D64). */
export function whoActs({ category, ownerAction }: EdgeError): string {
  if (ownerAction) return 'The operator of the site';
  return category === 'platform' ? 'The operators of the platform' : 'The client (browser or program)';
}

const style = pageStyle(`${sheetCss}.lead{font-size:1.125rem}
strong{font-weight:600}
@media print{body{padding:0}}
`);

/** Admits the style of the page and nothing else. */
export const errorPageSecurityPolicy = style.contentSecurityPolicy;

// The part of a body that no occurrence changes is made once.
const htmlParts = oncePer((error: EdgeError) => ({
  opening: `${openPage(titleOf(error), style)}<main>
${errorHeading(error)}
<section aria-labelledby="happened">
<h2 id="happened">What happened</h2>
<p class="lead">${escapeHtml(error.detail)}</p>
</section>
<section aria-labelledby="advice">
<h2 id="advice">What you can do</h2>
`,
  facts: `<p>${escapeHtml(error.guidance)}</p>
</section>
<dl>
<dt>Responsible</dt><dd>${escapeHtml(responsiblePartyOf(error))}</dd>
<dt>Who has to act</dt><dd>${escapeHtml(whoActs(error))}</dd>
<dt>Site</dt><dd><bdi>`,
}));

/** The link to the page about the error, where there is one to follow. */
function referenceLink(occurrence: EdgeOccurrence): string {
  const url = referenceUrlOf(occurrence);
  const about = `About error ${occurrence.error.code}`;
  return url === undefined ? '' : ` <a href="${escapeHtml(url)}" rel="noreferrer">${about}</a>`;
}

function inWords(seconds: number): string {
  if (seconds >= 60 && seconds % 60 === 0) return seconds === 60 ? '1 minute' : `${seconds / 60} minutes`;
  return seconds === 1 ? '1 second' : `${seconds} seconds`;
}

function retryLine(occurrence: EdgeOccurrence): string {
  const seconds = retrySecondsOf(occurrence);
  if (seconds === undefined) return '';
  const from = new Date(occurrence.at + seconds * 1000).toISOString();
  return `<p><strong>Try again in ${inWords(seconds)}</strong>, at <time datetime="${from}">${from.slice(11, 19)} UTC</time> or later.</p>\n`;
}

/** Renders the page; everything in it is escaped, whatever the Host was. */
export function renderHtml(occurrence: EdgeOccurrence): string {
  const { opening, facts } = htmlParts(occurrence.error);
  const timestamp = new Date(occurrence.at).toISOString();
  return `${opening}${retryLine(occurrence)}${facts}${escapeForeignText(occurrence.zone)}</bdi></dd>
<dt>Ray ID</dt><dd><code>${escapeForeignText(occurrence.rayId)}</code></dd>
<dt>Time</dt><dd><time datetime="${timestamp}">${timestamp.slice(0, 10)} ${timestamp.slice(11, 19)} UTC</time></dd>
</dl>
</main>
<footer>
<p>${attribution}${referenceLink(occurrence)}</p>
</footer>
${closePage}`;
}

const plainCharacters = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;
/** Digits with what a number or a date may have between them, and numbers of other bases, as YAML 1.1 knows them. */
const numberLike = /^(?:[0-9._eE-]+$|[0-9][xXoObB])/;
/** YAML 1.1 booleans and nulls, in any case. */
const words = new Set(['y', 'n', 'yes', 'no', 'true', 'false', 'on', 'off', 'null', 'nan', 'inf']);

function escapeCharacter(character: string): string {
  if (character === '"' || character === '\\') return `\\${character}`;
  const codePoint = character.codePointAt(0) ?? 0;
  const hex = codePoint.toString(16).toUpperCase();
  if (codePoint < 0x100) return `\\x${hex.padStart(2, '0')}`;
  return codePoint < 0x10000 ? `\\u${hex.padStart(4, '0')}` : `\\U${hex.padStart(8, '0')}`;
}

/** Writes a string on one line: plain where that is safe, else double-quoted; lone surrogates become U+FFFD. */
export function yamlString(text: string): string {
  const isPlain = plainCharacters.test(text) && !numberLike.test(text) && !words.has(text.toLowerCase());
  if (isPlain) return text;
  return `"${text.toWellFormed().replace(/["\\]|[^ -~]/gu, escapeCharacter)}"`;
}

/** Escapes what Markdown (CommonMark §2.4) or HTML in it would read as more than text. */
function proseText(text: string): string {
  return text.replace(/[\\`*_[\]<>&#|~]/g, '\\$&');
}

const markdownParts = oncePer((error: EdgeError) => ({
  classified: `---
status: ${error.status}
error_code: ${error.code}
error_name: ${yamlString(error.name)}
error_category: ${yamlString(error.category)}
`,
  retryable: `platform_error: true
retryable: ${error.retryAfterSeconds !== undefined}
`,
  prose: `owner_action_required: ${error.ownerAction}
---

# ${proseText(titleOf(error))}

## What Happened

${proseText(error.detail)}

## What You Should Do

${proseText(error.guidance)}

---

${proseText(attribution)}
`,
}));

/** Renders the body; what comes from the request stands in the front matter alone, where it cannot become markup. */
export function renderMarkdown(occurrence: EdgeOccurrence): string {
  const { classified, retryable, prose } = markdownParts(occurrence.error);
  const seconds = retrySecondsOf(occurrence);
  const retryAfter = seconds === undefined ? '' : `retry_after: ${seconds}\n`;
  // Quoted whatever it is: YAML 1.1 reads a bare one as a date.
  const timestamp = `"${new Date(occurrence.at).toISOString()}"`;
  return `${classified}ray_id: ${yamlString(occurrence.rayId)}
timestamp: ${timestamp}
zone: ${yamlString(occurrence.zone)}
${retryable}${retryAfter}${prose}`;
}

/** Members as text, without the braces around them. */
function membersText(members: Readonly<Record<string, string | number | boolean>>): string {
  return JSON.stringify(members).slice(1, -1);
}

const jsonParts = oncePer((error: EdgeError) => ({
  told: membersText({ title: titleOf(error), status: error.status, detail: error.detail }),
  classified: membersText({ error_code: error.code, error_name: error.name, error_category: error.category }),
  retryable: membersText({ platform_error: true, retryable: error.retryAfterSeconds !== undefined }),
  advice: membersText({
    owner_action_required: error.ownerAction,
    what_you_should_do: error.guidance,
    footer: attribution,
  }),
}));

/** Renders the body: the members of RFC 9457 first, then the extension members; one line without an end. */
export function renderJson(occurrence: EdgeOccurrence): string {
  const { told, classified, retryable, advice } = jsonParts(occurrence.error);
  // RFC 8259 §8.1, I-JSON: no lone surrogates.
  // RFC 9457 §4.2.1: about:blank says that there is no page about the error; `error_code` tells which one it is all the same.
  const type = JSON.stringify((referenceUrlOf(occurrence) ?? 'about:blank').toWellFormed());
  const rayId = JSON.stringify(occurrence.rayId.toWellFormed());
  const zone = JSON.stringify(occurrence.zone.toWellFormed());
  const seconds = retrySecondsOf(occurrence);
  const retryAfter = seconds === undefined ? '' : `,"retry_after":${seconds}`;
  return `{"type":${type},${told},"instance":${rayId},${classified},"ray_id":${rayId},"timestamp":"${new Date(occurrence.at).toISOString()}","zone":${zone},${retryable}${retryAfter},${advice}}`;
}

function headersOf(type: string): ErrorAnswer['headers'] {
  return {
    'Content-Type': `${type}; charset=utf-8`,
    'Cache-Control': 'private, no-store',
    Vary: 'Accept',
    'X-Content-Type-Options': 'nosniff',
  };
}

const formats = {
  json: { render: renderJson, headers: headersOf('application/json') },
  problem: { render: renderJson, headers: headersOf('application/problem+json') },
  markdown: { render: renderMarkdown, headers: headersOf('text/markdown') },
  html: {
    render: renderHtml,
    headers: { ...headersOf('text/html'), 'Content-Security-Policy': errorPageSecurityPolicy },
  },
} as const satisfies Record<
  EdgeFormat,
  { readonly render: (occurrence: EdgeOccurrence) => string; readonly headers: ErrorAnswer['headers'] }
>;

/** Makes the answer in a format. Retry-After (RFC 9110 §10.2.3) equals `retry_after`, or neither is there. */
export function defaultAnswer(occurrence: EdgeOccurrence, format: EdgeFormat): ErrorAnswer & { readonly body: Buffer } {
  const { render, headers } = formats[format];
  const seconds = retrySecondsOf(occurrence);
  return {
    status: occurrence.error.status,
    headers: seconds === undefined ? headers : { ...headers, 'Retry-After': String(seconds) },
    body: Buffer.from(render(occurrence)),
  };
}
