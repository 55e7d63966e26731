// The OpenAPI document, the reference, and the page at `/`, made once when first asked for, so that no client has them made again.

import type { AnswerTable, V4Token } from './envelope.ts';
import { type DocumentedRoute, openApiDocument, statusesOf } from './openapi.ts';
import { closePage, escapeHtml, fixedDocument, openPage, pageStyle, sheetCss } from './page/html-page.ts';
import { referenceStyle, renderReference } from './reference/reference-page.ts';
import type { DescribedError } from './reference/words.ts';

// The page at `/` holds nothing that an attacker would look for: no version, no configuration, no name of a zone.

const style = pageStyle(`${sheetCss}.lead{font-size:1.125rem}
dd{margin:0}
`);

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

function renderHome(): string {
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

/** The error numbers without a token that routes name: each once, with all its statuses, in ascending order. */
function describedCodes(routes: readonly DocumentedRoute[]): readonly DescribedError[] {
  const found = new Map<number, DescribedError>();
  for (const { number, status, described } of routes.flatMap(({ schema }) => schema.codes ?? [])) {
    const known = found.get(number);
    const statuses = [...new Set([...(known?.statuses ?? []), status])];
    const texts = described ?? known;
    if (texts) found.set(number, { ...texts, key: String(number), number, statuses });
  }
  return [...found.values()].sort((one, other) => one.number - other.number);
}

function describedErrors(routes: readonly DocumentedRoute[], answers: AnswerTable): readonly DescribedError[] {
  const isToken = (key: string): key is V4Token => Object.hasOwn(answers, key);
  const tokens = Object.keys(answers)
    .filter(isToken)
    .map((key) => {
      const { number, when, remedy } = answers[key];
      return { key, number, statuses: statusesOf(key, answers), when, remedy };
    });
  return [...tokens, ...describedCodes(routes)];
}

function makeDocuments(routes: readonly DocumentedRoute[], answers: AnswerTable) {
  const document = openApiDocument(routes, answers);
  return {
    openApi: fixedDocument(`${JSON.stringify(document, null, 2)}\n`),
    reference: fixedDocument(renderReference(document, describedErrors(routes, answers)), referenceStyle),
    home: fixedDocument(renderHome(), style),
  };
}

/** The documents. All answers share their octets. */
export type Documents = Readonly<ReturnType<typeof makeDocuments>>;

/** Gives what makes the documents at its first call. @param routes may still grow until then */
export function createDocuments(routes: readonly DocumentedRoute[], answers: AnswerTable): () => Documents {
  let documents: Documents | undefined;
  return () => (documents ??= makeDocuments(routes, answers));
}
