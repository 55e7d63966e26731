// The frame of every HTML page of the edge: one small document that carries its own style, runs no script and loads
// nothing, in light and dark.

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

/** A DNS name has at most 253 characters; what is longer is no name, and the page stays small. */
const LONGEST_SHOWN = 253;

/**
 * Escapes text that a stranger chose, and writes controls, bidirectional overrides and the like as \u{hex}: what is shown
 * is what was sent, in its order. At most 253 characters.
 */
export function escapeForeignText(text: string): string {
  const shown = text.length > LONGEST_SHOWN ? `${text.slice(0, LONGEST_SHOWN)}…` : text;
  return escapeHtml(
    shown.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`),
  );
}

/** One look: its style sheet, and the Content-Security-Policy that admits this and nothing else. */
export interface PageStyle {
  readonly element: string;
  readonly contentSecurityPolicy: string;
}

/** Makes a look of CSS text. */
export function pageStyle(css: string): PageStyle {
  const hash = createHash('sha256').update(css).digest('base64');
  return {
    element: `<style>${css}</style>`,
    // The empty icon is a data: URL; without one a browser would ask the failing site for /favicon.ico.
    contentSecurityPolicy: `default-src 'none'; style-src 'sha256-${hash}'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  };
}

/** The document up to its body; `title` is text. */
export function openPage(title: string, style: PageStyle): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<title>${escapeHtml(title)}</title>
<link rel="icon" href="data:,">
${style.element}
</head>
<body>
`;
}

/** The end of the document. */
export const closePage = `</body>
</html>
`;

/** CSS that all pages share: colours, type, the sheet and its parts. */
export const sharedCss = `:root{color-scheme:light dark;--ground:#eef1f3;--sheet:#fff;--ink:#1c2530;--soft:#55616e;--line:#dbe1e6;--accent:#1d5f7a;--wash:#eaf3f6}
@media(prefers-color-scheme:dark){:root{--ground:#11161b;--sheet:#1a2128;--ink:#e4e9ed;--soft:#a3afba;--line:#303a44;--accent:#86c5dc;--wash:#1d2d35}}
*{box-sizing:border-box}
body{margin:0;padding:clamp(1rem,6vh,5rem) 1rem 2rem;background:var(--ground);color:var(--ink);font:1rem/1.6 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;overflow-wrap:anywhere;-webkit-text-size-adjust:100%}
main,footer,nav{max-width:40rem;margin:0 auto}
main{background:var(--sheet);border:1px solid var(--line);border-top:4px solid var(--accent);border-radius:.5rem;padding:clamp(1.25rem,5vw,2.5rem)}
h1{margin:0;font-size:clamp(1.5rem,5vw,2rem);line-height:1.25;font-weight:650;text-wrap:balance}
h1 span{display:block;margin-bottom:.4rem;font-size:1rem;color:var(--accent);font-variant-numeric:tabular-nums}
h1 i{position:absolute;clip-path:inset(50%)}
h2{margin:1.75rem 0 .35rem;font-size:1rem;line-height:1.4}
p{margin:0;text-wrap:pretty}
dl{margin:1.75rem 0 0;padding-top:1.25rem;border-top:1px solid var(--line);display:grid;grid-template-columns:max-content 1fr;gap:.35rem 1.5rem;font-size:.9375rem}
dt{color:var(--soft)}
dd{margin:0}
code{font:.9em ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
a{color:var(--accent);text-underline-offset:.15em}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
footer{padding:1rem clamp(1.25rem,5vw,2.5rem);color:var(--soft);font-size:.875rem}
@media(max-width:30rem){dl{grid-template-columns:1fr;gap:0}dd{margin-bottom:.6rem}}
`;

/** The first-level heading of an error: its number above its name, read as one title. */
export function errorHeading(code: number, shortName: string): string {
  return `<h1><span>Error ${code}<i>: </i></span>${escapeHtml(shortName)}</h1>`;
}
