// The reference at /docs: the OpenAPI document as one readable page, grouped by tag. It fetches nothing and runs no script, and
// without its style it is still a table of contents and the text behind it.

import { member, type UnknownRecord } from '../../../base/is-record.ts';
import { closePage, escapeHtml, openPage } from '../page/html-page.ts';
import { entries, list, text } from './json.ts';
import { anchorOf, operationSection, type ReferenceContext, titleOf } from './operation-section.ts';
import { referenceStyle } from './reference-style.ts';
import type { Operation } from './request-example.ts';
import { anchors, code, type DescribedError, inline, linkTo, membersOf, paragraphs } from './words.ts';

interface Group {
  readonly name: string;
  readonly operations: readonly Operation[];
}

/** The operations by their first tag, in the order of the document. */
function groupsOf(document: UnknownRecord): readonly Group[] {
  const groups = new Map<string, Operation[]>();
  for (const [path, methods] of entries(member(document, 'paths'))) {
    for (const [method, operation] of entries(methods)) {
      const tag = text(list(member(operation, 'tags'))[0]) || 'Other operations';
      groups.set(tag, [...(groups.get(tag) ?? []), { method, path, operation }]);
    }
  }
  return [...groups].map(([name, operations]) => ({ name, operations }));
}

function item(id: string, html: string): string {
  return `<li>${linkTo(id, html)}</li>\n`;
}

function group(id: string, title: string, items: string): string {
  return `<li>${linkTo(id, escapeHtml(title))}\n<ul>\n${items}</ul></li>\n`;
}

function contents(groups: readonly Group[], schemaNames: readonly string[]): string {
  const operations = groups.map(({ name, operations: within }) => {
    const items = within.map((shown) => {
      const method = `<b>${escapeHtml(shown.method.toUpperCase())}</b>`;
      return item(anchorOf(shown), `${method} <span>${inline(titleOf(shown))}</span>`);
    });
    return group(anchors.tag(name), name, items.join(''));
  });
  const schemas = schemaNames.map((name) => item(anchors.schema(name), escapeHtml(name))).join('');
  return `<nav aria-label="Contents">
<details>
<summary>Contents</summary>
<ul>
${item('start', 'How to call it')}${operations.join('')}${item('errors', 'Errors')}${group('schemas', 'Schemas', schemas)}</ul>
</details>
</nav>
`;
}

function start(document: UnknownRecord): string {
  const schemes = entries(member(document, 'components', 'securitySchemes')).map(
    ([, scheme]) => `<li>${code(schemeHeader(scheme))}: ${inline(text(member(scheme, 'description')))}</li>\n`,
  );
  return `<section id="start">
<h2>How to call it</h2>
${paragraphs(member(document, 'info', 'description'))}<p>This page is made from the <a href="openapi.json">OpenAPI document</a>, which programs can read. Requests authenticate with the first of these headers, or with the other two together:</p>
<ul>
${schemes.join('')}</ul>
<p>The examples read where the gateway is and the token from the environment. The names and ids in them are those of the configuration that Postern comes with: put your own.</p>
<pre><code>export POSTERN_URL=http://127.0.0.1:8080
export POSTERN_TOKEN=...</code></pre>
</section>
`;
}

function schemeHeader(scheme: unknown): string {
  return text(member(scheme, 'scheme')) === 'bearer' ? 'Authorization: Bearer TOKEN' : text(member(scheme, 'name'));
}

function errorEntry({ key, number, statuses, title, when, remedy }: DescribedError): string {
  const facts = key === String(number) ? '' : `, code ${number}`;
  return `<dt id="${anchors.error(key)}">${code(key)} <span>${title === undefined ? '' : `${inline(title)}, `}status ${statuses.join(' or ')}${facts}</span></dt>
<dd><p>${inline(when)} ${inline(remedy)}</p></dd>
`;
}

function errorSection(errors: readonly DescribedError[]): string {
  return `<section id="errors">
<h2>Errors</h2>
<p>A refused request names every fault at once, in ${code('errors')}; the HTTP status is the first one’s. Most messages begin with an E_ token, which programs should match on; rules of proxy applications have a number of their own. What the edge answers for sites that it serves has <a href="errors">pages of its own</a>, one a code, such as <a href="errors/522">522</a>.</p>
<dl class="names">
${errors.map(errorEntry).join('')}</dl>
</section>
`;
}

function schemaSection([name, schema]: readonly [string, unknown]): string {
  return `<section class="operation" id="${anchors.schema(name)}">
<h3>${escapeHtml(name)}</h3>
${paragraphs(member(schema, 'description'))}${membersOf(schema)}</section>
`;
}

/**
 * Renders the page.
 * @param document an OpenAPI 3.1 document; everything in it is shown as text
 * @param errors the meaning of the tokens and numbers of its answers; only these become links
 * @returns HTML, to be served with the Content-Security-Policy of `referenceStyle`; its links are relative
 */
export function renderReference(document: UnknownRecord, errors: readonly DescribedError[]): string {
  const schemas = member(document, 'components', 'schemas');
  const groups = groupsOf(document);
  const context: ReferenceContext = { schemas, errors: new Set(errors.map(({ key }) => key)) };
  const named = entries(schemas);
  const title = `${text(member(document, 'info', 'title'))}: HTTP reference`;
  const sections = groups.map(
    ({ name, operations }) => `<section id="${anchors.tag(name)}">
<h2>${escapeHtml(name)}</h2>
${operations.map((shown) => operationSection(shown, context)).join('')}</section>
`,
  );
  return `${openPage(title, referenceStyle)}<a class="skip" href="#start">Skip the contents</a>
<div class="page">
<header>
<h1>${escapeHtml(title)}</h1>
</header>
${contents(
  groups,
  named.map(([name]) => name),
)}<main>
${start(document)}${sections.join('')}${errorSection(errors)}<section id="schemas">
<h2>Schemas</h2>
${named.map(schemaSection).join('')}</section>
</main>
</div>
${closePage}`;
}
