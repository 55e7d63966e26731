// The page at `/` on the API's own host, which tells what is served here. It holds nothing that an attacker would look for: no
// version, no configuration, no name of a zone.

import { closePage, escapeHtml, openPage, pageStyle, sheetCss } from './html-page.ts';

const style = pageStyle(`${sheetCss}.lead{font-size:1.125rem}
dd{margin:0}
`);

/** Admits the style of the page and nothing else. */
export const homePageSecurityPolicy = style.contentSecurityPolicy;

/** The links of the page. Paths are relative, so that they hold below any base URL. */
const places = [
  { path: 'docs', text: 'The reference of the HTTP interface, with examples of every request.' },
  { path: 'openapi.json', text: 'The same for programs: an OpenAPI 3.1 document.' },
  { path: 'headers', text: 'What each header of a message may hold, one page a header.' },
  { path: 'errors', text: 'What the errors of served sites mean, one page a code.' },
  { path: 'livez', text: 'Whether the process runs.' },
  { path: 'readyz', text: 'Whether it takes requests and mail.' },
  { path: 'metrics', text: 'Its figures, for Prometheus.' },
] as const;

/** Renders the page, which is always the same. */
export function renderHome(): string {
  const entries = places.map(
    ({ path, text }) => `<dt><a href="${path}">/${escapeHtml(path)}</a></dt><dd>${escapeHtml(text)}</dd>\n`,
  );
  return `${openPage('Postern: Outbound mail gateway', style)}<main>
<h1><span>Postern<i>: </i></span>Outbound mail gateway</h1>
<section aria-labelledby="what">
<h2 id="what">What this is</h2>
<p class="lead">Programs hand mail to Postern by SMTP or over HTTP. It admits a message only when every header in it is allowed, builds and signs the message that leaves, keeps it safe on disk before it says yes, and delivers it.</p>
</section>
<dl>
<dt><code>/client/v4/</code></dt><dd>The HTTP interface: JSON, with a token.</dd>
${entries.join('')}</dl>
<section aria-labelledby="sites">
<h2 id="sites">Sites</h2>
<p>Postern also stands before web sites, called zones. Each is served under its own host name, on every path; this page stands only under the names and addresses of the interface itself.</p>
</section>
</main>
${closePage}`;
}
