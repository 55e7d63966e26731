// The part of docs/errors.md about edge errors, written from the catalogue.

import { allEdgeErrors } from './catalogue.ts';
import type { CatalogueError } from './catalogue-error.ts';
import { categoryTitles } from './error-reference.ts';

function cell(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('<', '&lt;');
}

function row(error: CatalogueError): string {
  const cells = [
    `${error.code}${error.chosen === true ? ' *' : ''}`,
    `\`${error.name}\``,
    String(error.status),
    error.retryAfterSeconds === undefined ? '-' : `${error.retryAfterSeconds} s`,
    error.ownerAction ? 'yes' : 'no',
    `**${cell(error.shortName)}.** ${cell(error.detail)}`,
    cell(error.guidance),
  ];
  return `| ${cells.join(' | ')} |`;
}

function table(category: string, title: string): string {
  const rows = allEdgeErrors.filter((error) => error.category === category).map(row);
  return `### ${title} (\`${category}\`)

| Code | error_name | Status | Retry after | Owner must act | What happened | What to do |
| --- | --- | --- | --- | --- | --- | --- |
${rows.join('\n')}`;
}

/**
 * Renders the section. Markdown, beginning with a second-level heading.
 * @public for the test that writes docs/errors.md
 */
export function renderEdgeErrors(): string {
  return `## Edge errors

What the edge answers when it cannot complete a request, as HTML, JSON (RFC 9457) or Markdown. \`error_name\` and
\`error_category\` are stable, so programs should match on them and not on the texts. Where a time to retry after is given
the error is \`retryable\`, and \`retry_after\` equals the Retry-After header; the value a rate limit sets for itself takes the
place of the one of 1015. A code marked with * stands in no table of the interface's specification: its class is Postern's
choice. Every error has a page of its own at \`/errors/{code}\`, where \`type\` points; \`/errors\` lists them.

What a person sees of 522, in [light](screenshots/error-522-desktop-light.png) and in
[dark](screenshots/error-522-desktop-dark.png), and on a phone in [light](screenshots/error-522-phone-light.png) and in
[dark](screenshots/error-522-phone-dark.png).

${Object.entries(categoryTitles)
  .map(([category, title]) => table(category, title))
  .join('\n\n')}
`;
}
