// The reference at /docs: the OpenAPI document as one page by tag, which fetches nothing and runs no script.

import { member, type UnknownRecord } from '../../../base/is-record.ts';
import { closePage, escapeHtml, groundCss, openPage, pageStyle } from '../page/html-page.ts';
import { exampleLanguages } from './example-languages.ts';
import { type Operation, requestExample } from './request-example.ts';
import {
  anchors,
  code,
  type DescribedError,
  entries,
  inline,
  linkTo,
  list,
  membersOf,
  nameEntry,
  paragraphs,
  text,
  typeOf,
  withErrorLinks,
} from './words.ts';

function titleOf({ operation }: Operation): string {
  return inline(text(member(operation, 'summary')));
}

function anchorOf({ operation }: Operation): string {
  return anchors.operation(text(member(operation, 'operationId')));
}

function parameters(operation: unknown): string {
  const shown = list(member(operation, 'parameters')).map((parameter) => {
    const required = member(parameter, 'required') === true;
    const at = { required, place: text(member(parameter, 'in')), description: member(parameter, 'description') };
    return nameEntry(text(member(parameter, 'name')), member(parameter, 'schema'), at);
  });
  return shown.length === 0 ? '' : `<h4>Parameters</h4>\n<dl class="names">\n${shown.join('')}</dl>\n`;
}

function body(operation: unknown): string {
  const contents = entries(member(operation, 'requestBody', 'content'));
  const schema = member(contents[0]?.[1], 'schema');
  if (schema === undefined) return '';
  return `<h4>Body</h4>\n<p>${typeOf(schema)}, as ${contents.map(([type]) => code(type)).join(' or ')}</p>\n`;
}

/** Writes the examples. One is open at a time, at first the first one. */
function examples(shown: Operation, schemas: unknown): string {
  const request = requestExample(shown, schemas);
  const group = `example-${anchorOf(shown)}`;
  const each = exampleLanguages.map(
    ({ name, write }, index) => `<details name="${group}"${index === 0 ? ' open' : ''}>
<summary>${name}</summary>
<pre><code>${escapeHtml(write(request))}</code></pre>
</details>
`,
  );
  return `<h4>Example</h4>\n<div class="examples">\n${each.join('')}</div>\n`;
}

function answers(operation: unknown, errors: ReadonlySet<string>): string {
  const responses = entries(member(operation, 'responses'));
  const shown = responses.map(([status, response]) => {
    const result = member(response, 'content', 'application/json', 'schema', 'properties', 'result');
    const html =
      result === undefined
        ? withErrorLinks(text(member(response, 'description')), errors)
        : `Done; in ${code('result')}: ${typeOf(result)}`;
    return `<dt>${escapeHtml(status)}</dt><dd>${html}</dd>\n`;
  });
  return `<h4>Answers</h4>\n<dl class="answers">\n${shown.join('')}</dl>\n`;
}

/** Writes an operation. @param schemas the components that `$ref` names @param errors the keys that have an entry */
function operationSection(shown: Operation, schemas: unknown, errors: ReadonlySet<string>): string {
  const { method, path, operation } = shown;
  const parts = [
    ...[paragraphs(member(operation, 'description')), parameters(operation), body(operation)],
    ...[examples(shown, schemas), answers(operation, errors)],
  ];
  // A path may break its line behind each slash.
  return `<section class="operation" id="${anchorOf(shown)}">
<h3>${titleOf(shown)}</h3>
<p class="path"><b>${escapeHtml(method.toUpperCase())}</b> ${code(path).replaceAll(/(?<!<)\//g, '/<wbr>')}</p>
${parts.join('')}</section>
`;
}

/** The style sheet of the reference, and the Content-Security-Policy that admits nothing else. */
export const referenceStyle = pageStyle(`${groundCss}html{scroll-padding-top:1rem}
.page{max-width:50rem;margin:0 auto;padding:1.5rem clamp(1.25rem,5vw,2.5rem) 4rem}
.skip{position:absolute;left:1rem;top:-4rem;padding:.5rem 1rem;background:var(--ground);border:1px solid var(--line)}
.skip:focus{top:1rem}
h1,h2,h3,h4{margin:0;line-height:1.25;text-wrap:balance;font-weight:600}
h1{font-size:clamp(1.625rem,5vw,2.25rem);letter-spacing:-.01em}
h2{font-size:1.5rem;padding-bottom:.5rem}
h3{font-size:1.1875rem}
h4{margin:1.25rem 0 .25rem;font-size:1rem;font-weight:400;color:var(--soft)}
p{margin:.5rem 0}
ul{padding-left:1.25rem}
main>section{margin-top:3.5rem;padding-top:1.5rem;border-top:1px solid var(--line)}
main>section:first-child{margin-top:1rem}
.operation{padding:1.25rem 0 1.5rem;border-top:1px solid var(--line)}
.path b,nav b{font:600 .8125rem ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;color:var(--accent)}
.path{margin-top:.25rem}
.path b{margin-right:.5rem}
dl{margin:.25rem 0}
dd{margin:0}
.names>dt{padding-top:.5rem;border-top:1px solid var(--line)}
.names>dt:first-child{border-top:0}
.names>dt>span{color:var(--soft);font-size:.9375rem}
.names strong{font-weight:400;font-size:.875rem;color:var(--accent)}
.names>dd{padding-bottom:.5rem}
.names dd>p{margin:.125rem 0}
.names dd>.names{margin:.5rem 0 0;padding-left:1rem;border-left:2px solid var(--line)}
.answers{display:grid;grid-template-columns:3rem minmax(0,1fr);gap:.25rem .75rem}
.answers dt{color:var(--soft);font-variant-numeric:tabular-nums}
pre{margin:.5rem 0;padding:.75rem 1rem;background:var(--well);border-radius:.25rem;white-space:pre-wrap;font-size:.9375rem;line-height:1.5}
.examples{border:1px solid var(--line);border-radius:.25rem}
.examples details+details{border-top:1px solid var(--line)}
.examples pre{margin:0;border-radius:0}
summary{padding:.375rem .75rem;cursor:pointer}
:target{scroll-margin-top:1rem}
:target>h2,:target>h3,dt:target>code{text-decoration:underline;text-decoration-color:var(--accent);text-underline-offset:.25em}
nav{font-size:.9375rem}
nav summary{padding:.5rem 0;font-weight:600}
nav ul{list-style:none;margin:0;padding:0}
nav details>ul>li{padding:.375rem 0;font-weight:600}
nav ul ul{padding-top:.125rem;font-weight:400}
nav ul ul a{display:flex;gap:.625rem;padding:.1875rem 0;color:inherit;text-decoration:none}
nav ul ul a:hover{text-decoration:underline}
nav b{flex:none;width:3.375rem;padding-top:.1875rem}
@media(min-width:64rem){
.page{display:grid;grid-template:auto 1fr/19rem minmax(0,1fr);gap:0 3.5rem;max-width:76rem}
nav{grid-area:1/1/3/2;position:sticky;top:0;align-self:start;max-height:100vh;overflow-y:auto;padding:.5rem .5rem 2rem 0}
header,main{grid-column:2}
}
@media(min-width:64rem){@supports selector(::details-content){nav summary{display:none}nav details::details-content{content-visibility:visible;block-size:auto}}}
@media(max-width:36rem){.answers{grid-template-columns:minmax(0,1fr);gap:0}.answers dd{padding-bottom:.5rem}}
@media print{nav,.skip{display:none}}
`);

/** The operations by their first tag, in the order of the document. */
function groupsOf(document: UnknownRecord): readonly (readonly [string, readonly Operation[]])[] {
  const operations = entries(member(document, 'paths')).flatMap(([path, methods]) =>
    entries(methods).map(([method, operation]) => ({ method, path, operation })),
  );
  return [...Map.groupBy(operations, ({ operation }) => text(list(member(operation, 'tags'))[0]))];
}

function item(id: string, html: string): string {
  return `<li>${linkTo(id, html)}</li>\n`;
}

function group(id: string, title: string, items: readonly string[]): string {
  return `<li>${linkTo(id, escapeHtml(title))}\n<ul>\n${items.join('')}</ul></li>\n`;
}

function contents(groups: ReturnType<typeof groupsOf>, schemaNames: readonly string[]): string {
  const operations = groups.map(([name, within]) => {
    const items = within.map((shown) =>
      item(anchorOf(shown), `<b>${escapeHtml(shown.method.toUpperCase())}</b> <span>${titleOf(shown)}</span>`),
    );
    return group(anchors.tag(name), name, items);
  });
  const schemas = schemaNames.map((name) => item(anchors.schema(name), escapeHtml(name)));
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

/** Renders an OpenAPI 3.1 document as HTML for the Content-Security-Policy of `referenceStyle`. @param errors become links */
export function renderReference(document: UnknownRecord, errors: readonly DescribedError[]): string {
  const schemas = member(document, 'components', 'schemas');
  const groups = groupsOf(document);
  const keys = new Set(errors.map(({ key }) => key));
  const named = entries(schemas);
  const title = `${text(member(document, 'info', 'title'))}: HTTP reference`;
  const sections = groups.map(
    ([name, operations]) => `<section id="${anchors.tag(name)}">
<h2>${escapeHtml(name)}</h2>
${operations.map((shown) => operationSection(shown, schemas, keys)).join('')}</section>
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
