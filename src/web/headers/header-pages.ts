// `/headers` lists every name, `/headers/NAME` tells its rule, examples, who sends it and the cure. Refusals lead there.

import { headerCatalogue } from '../../pipeline/policy/header-catalogue.ts';
import { guideOf, type HeaderGuide, otherNames } from '../../pipeline/policy/header-guide.ts';
import {
  closePage,
  escapeForeignText,
  escapeHtml,
  type FixedDocument,
  fixedDocument,
  openPage,
  pageStyle,
  sheetCss,
} from '../http/page/html-page.ts';
import { plain, sendFixed } from '../http/plain-routes.ts';
import { inline } from '../http/reference/words.ts';
import type { RootPlugin } from '../http/v4-app.ts';

const style = pageStyle(`${sheetCss}nav{margin-bottom:1.5rem;font-size:.875rem}
h1{display:block}
pre{margin:0 0 .5rem;white-space:pre-wrap;font:.9375em ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
ul{list-style:none;margin:0;padding:0;columns:16rem}
`);

function pageOf(title: string, body: string): FixedDocument {
  return fixedDocument(`${openPage(title, style)}${body}${closePage}`, style);
}

function section(heading: string, html: string): string {
  return html === '' ? '' : `<section>\n<h2>${heading}</h2>\n<div>${html}</div>\n</section>\n`;
}

const paragraphs = (texts: readonly string[]): string => texts.map((text) => `<p>${inline(text)}</p>`).join('\n');
const blocks = (texts: readonly string[]): string => texts.map((text) => `<pre>${escapeHtml(text)}</pre>`).join('\n');

function standardOf({ reference }: HeaderGuide): string {
  if (!reference) return '';
  const text = escapeHtml(reference.text);
  return `<p>${reference.url === undefined ? text : `<a href="${reference.url}">${text}</a>`}</p>`;
}

function renderGuide(guide: HeaderGuide): FixedDocument {
  const sections = [
    section('Rule', paragraphs([guide.rule, ...(guide.about === undefined ? [] : [guide.about])])),
    ...[section('Good', blocks(guide.good)), section('Refused', blocks(guide.bad))],
    ...[section('Who sends it', paragraphs(guide.senders)), section('Cure', paragraphs(guide.cure))],
    section('Standard', standardOf(guide)),
  ];
  const head = `<nav><a href="../headers">All headers</a></nav>\n<main>\n<h1>${escapeForeignText(guide.name)}</h1>\n`;
  return pageOf(guide.name, `${head}${sections.join('')}</main>\n`);
}

function listed(names: readonly string[]): string {
  const items = names.map((name) => `<li><a href="headers/${encodeURIComponent(name)}">${escapeHtml(name)}</a></li>`);
  return `<ul>${items.join('')}</ul>`;
}

const knownNames = Object.values(headerCatalogue).map(({ name }) => name);

function renderIndex(): FixedDocument {
  return pageOf(
    'Headers',
    `<main>
<h1>Headers</h1>
${section('On the lists', listed(knownNames))}${section('On no list, and often sent', listed(otherNames))}</main>
`,
  );
}

/** The pages of the names that are listed, made at their first use; those of other names are made each time. */
const made = new Map<string, FixedDocument>();

function madeOnce(name: string, make: () => FixedDocument): FixedDocument {
  const known = made.get(name) ?? make();
  made.set(name, known);
  return known;
}

const listedNames: ReadonlySet<string> = new Set([...knownNames, ...otherNames]);

/** Finds the page of a name; undefined where no header can have it. */
function findPage(given: string): FixedDocument | undefined {
  const guide = guideOf(given);
  if (!guide) return undefined;
  return listedNames.has(guide.name) ? madeOnce(guide.name, () => renderGuide(guide)) : renderGuide(guide);
}

/** Registers the pages. */
export const headerPages: RootPlugin = (app) => {
  app.get('/headers', async (request, reply) => sendFixed(request, reply, madeOnce('', renderIndex)));
  app.get<{ Params: { name: string } }>('/headers/:name', async (request, reply) => {
    const page = findPage(request.params.name);
    return page ? sendFixed(request, reply, page) : plain(reply, 404, 'No header can have this name');
  });
};
