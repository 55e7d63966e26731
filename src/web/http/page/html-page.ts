// The frame of every HTML page: one document with its own style, light and dark, that runs no script and loads nothing.

import { createHash } from 'node:crypto';

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Escapes text for an element or a quoted attribute. */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => entities[character] ?? character);
}

/** Characters. A DNS name has at most 253; a longer text is no name and is cut, so that the page stays small. */
const LONGEST_SHOWN = 253;

/** Escapes a stranger's text: controls and bidirectional overrides as \u{hex}, so that it shows what was sent; at most 253 characters. */
export function escapeForeignText(text: string): string {
  const shown = text.length > LONGEST_SHOWN ? `${text.slice(0, LONGEST_SHOWN)}…` : text;
  return escapeHtml(
    shown.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`),
  );
}

/** A style sheet, and the Content-Security-Policy that admits it and nothing else. */
interface PageStyle {
  readonly element: string;
  readonly contentSecurityPolicy: string;
}

/** Makes a page style of CSS text. */
export function pageStyle(css: string): PageStyle {
  const hash = createHash('sha256').update(css).digest('base64');
  return {
    element: `<style>${css}</style>`,
    // The pages have an empty icon as a data: URL. Without it a browser would ask the failing site for /favicon.ico.
    contentSecurityPolicy: `default-src 'none'; style-src 'sha256-${hash}'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  };
}

/** Writes the document up to its body. `title` is text, not HTML; `loads`, the elements that load something, is HTML. */
export function openDocument(title: string, loads: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<title>${escapeHtml(title)}</title>
${loads}
</head>
<body>
`;
}

/** Writes a page that loads nothing up to its body. `title` is text, not HTML. */
export function openPage(title: string, style: PageStyle): string {
  return openDocument(title, `<link rel="icon" href="data:,">\n${style.element}`);
}

/** The end of the document. */
export const closePage = `</body>
</html>
`;

const colours = `:root{color-scheme:light dark;--ground:#fafaf8;--ink:#1d2329;--soft:#5a636c;--line:#dcdfdf;--accent:#0f6073}
@media(prefers-color-scheme:dark){:root{--ground:#14181b;--ink:#e6e8e9;--soft:#a2abb3;--line:#31393f;--accent:#7fc6d6}}
*{box-sizing:border-box}
`;
const ground =
  'background:var(--ground);color:var(--ink);font:1rem/1.6 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;overflow-wrap:anywhere;-webkit-text-size-adjust:100%';
const textCss = `p{text-wrap:pretty}
code{font:.9375em ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
a{color:var(--accent);text-underline-offset:.2em}
:focus-visible{outline:2px solid var(--accent);outline-offset:3px}
`;

/** CSS that all pages share: colours, fonts, links and focus. `--well` is the background of code. */
export const groundCss = `${colours}:root{--well:#f0f1ee}
@media(prefers-color-scheme:dark){:root{--well:#1c2226}}
body{margin:0;${ground}}
${textCss}`;

/** CSS of a page that is one sheet: a title and short sections, their names in a column at the left where there is room. */
export const sheetCss = `${colours}body{margin:0 auto;max-width:52rem;padding:clamp(1.5rem,9vh,6rem) clamp(1.25rem,5vw,2.5rem) 2rem;${ground}}
h1,h2,p,dd{margin:0}
h1,section,dl,footer{display:grid;grid-template-columns:9.5rem minmax(0,1fr);gap:.5rem 1.5rem}
h1{align-items:baseline;margin-bottom:2rem;font-size:clamp(1.625rem,5vw,2.25rem);line-height:1.2;font-weight:600;letter-spacing:-.01em;text-wrap:balance}
h1 span{font-size:1rem;letter-spacing:0;color:var(--accent);font-variant-numeric:tabular-nums}
h1 i{position:absolute;clip-path:inset(50%)}
section,dl{align-items:baseline;margin:0;padding:1.25rem 0;border-top:1px solid var(--line)}
section>:not(h2),footer>*{grid-column:2}
h2,dt{font-size:1rem;font-weight:400;color:var(--soft)}
${textCss}footer{padding-top:1.25rem;border-top:1px solid var(--line);color:var(--soft);font-size:.875rem}
@media(max-width:36rem){h1,section,dl,footer{grid-template-columns:minmax(0,1fr);gap:.25rem}section>:not(h2),footer>*{grid-column:1}dt:not(:first-child){margin-top:.5rem}}
`;

/** A document made once: every answer sends the same octets, and none to a client that has it (RFC 9110 §13.1.2). */
export interface FixedDocument {
  readonly body: Buffer;
  /** Names in lower case; ETag and Cache-Control are among them. */
  readonly headers: Readonly<Record<string, string>>;
}

/** Makes a document. @param style that of an HTML page; absent: it is JSON */
export function fixedDocument(text: string, style?: PageStyle): FixedDocument {
  const body = Buffer.from(text);
  const digest = createHash('sha256').update(body).digest('base64url').slice(0, 22);
  return {
    body,
    headers: {
      'content-type': `${style ? 'text/html' : 'application/json'}; charset=utf-8`,
      etag: `"${digest}"`,
      // Clients may keep the document but must ask each time: another release has another document under the same URL.
      'cache-control': 'no-cache',
      'x-content-type-options': 'nosniff',
      ...(style ? { 'content-security-policy': style.contentSecurityPolicy } : {}),
    },
  };
}

/** Whether If-None-Match names the ETag, or is `*`, compared weakly (RFC 9110 §13.1.2). @param ifNoneMatch all its lines */
export function hasTag(ifNoneMatch: string | undefined, { headers }: FixedDocument): boolean {
  if (ifNoneMatch === undefined) return false;
  if (ifNoneMatch.trim() === '*') return true;
  // RFC 9110 §8.8.3: etagc.
  return (ifNoneMatch.match(/"[!#-~\u0080-\u00ff]*"/g) ?? []).some((tag) => tag === headers['etag']);
}
