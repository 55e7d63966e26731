// The page of the console as text: it holds nothing but what it loads.

import { closePage, escapeHtml, openDocument } from '../../http/page/html-page.ts';

/** The mark of the tab: the gate that the pages show beside the name, in a colour that stands out of light and dark tabs. */
const mark =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 22 22"><path fill="#4a7dd6" d="M3 20V9a8 8 0 0 1 16 0v11h-4.5V9.5a3.5 3.5 0 0 0-7 0V20z"/>' +
  '<path fill="#4a7dd6" opacity=".55" d="M9.5 20v-8h3v8z"/></svg>';

/** Where the files are. */
export const assetsPath = '/console/assets/';

/** Writes the page. @param digest of all files @param first modules that every page needs, asked for all at once */
export function pageText(digest: string, first: readonly string[]): string {
  const url = (path: string): string => escapeHtml(`${assetsPath}${digest}/${path}`);
  const preloads = first.map((path) => `<link rel="modulepreload" href="${url(path)}">`).join('\n');
  const loads = `<link rel="icon" type="image/svg+xml" href="data:image/svg+xml,${encodeURIComponent(mark)}">
<script src="${url('web/early.ts')}"></script>
<link rel="stylesheet" href="${url('style.css')}">
${preloads}
<script type="module" src="${url('web/main.ts')}"></script>`;
  return `${openDocument('Postern', loads)}<div id="console"><main class="gate"><p>Loading the console</p></main></div>
<noscript><p>The console needs JavaScript. The HTTP interface needs none; <a href="/docs">its reference</a> describes it.</p></noscript>
${closePage}`;
}
