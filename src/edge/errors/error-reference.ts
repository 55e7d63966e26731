// The reference of edge errors: a page for every code, where the `type` of its answers points, and an index (D62).

import { oncePer } from '../../base/once-per.ts';
import { closePage, escapeHtml, openPage, pageStyle, sheetCss } from '../../web/http/page/html-page.ts';
import { allEdgeErrors, type EdgeError, type ErrorAnswer, edgeErrors, isEdgeCode } from './catalogue.ts';
import { categories } from './categories.ts';
import { errorHeading, responsiblePartyOf, titleOf, whoActs } from './default-answer.ts';

const style = pageStyle(`${sheetCss}nav{margin-bottom:1.5rem;font-size:.875rem}
h1.wide{display:block}
.intro{margin:-1rem 0 2rem}
h2 code{display:block}
ul{list-style:none;margin:0;padding:0}
li{display:grid;grid-template-columns:2.75rem minmax(0,1fr) max-content;gap:0 .75rem;padding:.15rem 0}
li b{font-weight:400;font-variant-numeric:tabular-nums}
li span{color:var(--soft);font-size:.875rem}
@media(max-width:36rem){li{grid-template-columns:2.75rem minmax(0,1fr)}li span{grid-column:2}}
`);

const headers: ErrorAnswer['headers'] = {
  'Content-Type': 'text/html; charset=utf-8',
  'Cache-Control': 'public, max-age=3600',
  'X-Content-Type-Options': 'nosniff',
  'Content-Security-Policy': style.contentSecurityPolicy,
};

function answerPage(title: string, body: string): ErrorAnswer {
  return { status: 200, headers, body: Buffer.from(`${openPage(title, style)}${body}${closePage}`) };
}

function fact(name: string, valueHtml: string): string {
  return `<dt>${name}</dt><dd>${valueHtml}</dd>\n`;
}

function section(heading: string, text: string): string {
  return `<section>\n<h2>${heading}</h2>\n<p>${escapeHtml(text)}</p>\n</section>\n`;
}

function retryText(error: EdgeError): string {
  const seconds = error.retryAfterSeconds;
  return seconds === undefined
    ? 'No: the same request meets the same error'
    : `Yes, after ${seconds} seconds (Retry-After)`;
}

function renderReferencePage(error: EdgeError): ErrorAnswer {
  const sections = [
    section('What it means', error.detail),
    section('If you met it', error.guidance),
    section('If you run the site', error.ownerGuidance),
  ];
  const facts = [
    fact('HTTP status', String(error.status)),
    fact('Name', `<code>${error.name}</code>`),
    fact('Category', `<code>${error.category}</code>`),
    fact('Retry', retryText(error)),
    fact('Responsible', responsiblePartyOf(error)),
    fact('Who has to act', whoActs(error)),
  ];
  return answerPage(
    titleOf(error),
    `<nav><a href="../errors">All edge errors</a></nav>
<main>
${errorHeading(error)}
${sections.join('')}<dl>
${facts.join('')}</dl>
</main>
<footer>
<p>The name and the category are stable: programs should match on them, not on the text.</p>
</footer>
`,
  );
}

function indexItem(error: EdgeError): string {
  const retry = error.retryAfterSeconds === undefined ? '' : `<span>retry after ${error.retryAfterSeconds} s</span>`;
  return `<li><b>${error.code}</b><a href="errors/${error.code}">${escapeHtml(error.shortName)}</a>${retry}</li>`;
}

function renderIndex(errors: readonly EdgeError[]): ErrorAnswer {
  const sections = Object.entries(categories).map(([category, { title }]) => {
    const items = errors.filter((error) => error.category === category).map(indexItem);
    return `<section>\n<h2>${title} <code>${category}</code></h2>\n<ul>\n${items.join('\n')}\n</ul>\n</section>`;
  });
  return answerPage(
    'Edge errors',
    `<main>
<h1 class="wide">Edge errors</h1>
<p class="intro">What the edge answers when it cannot complete a request. Each is given as HTML, JSON (RFC 9457) or Markdown, as the Accept header asks.</p>
${sections.join('\n')}
</main>
`,
  );
}

const pageOf = oncePer(renderReferencePage);
const indexOf = oncePer(renderIndex);

/** The page of a code, for `GET /errors/{code}`: what `type` of its answers points at; undefined for an unknown code. */
export function errorReferencePage(code: number): ErrorAnswer | undefined {
  return isEdgeCode(code) ? pageOf(edgeErrors[code]) : undefined;
}

/** The index of all codes by category, for `GET /errors`. Its links are relative and hold below any base URL. */
export function errorReferenceIndex(): ErrorAnswer {
  return indexOf(allEdgeErrors);
}
