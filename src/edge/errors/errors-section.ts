// The part of docs/errors.md about edge errors, written from the catalogue.

import { allEdgeErrors, type CatalogueError } from './catalogue.ts';
import { categories } from './categories.ts';

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

When the edge cannot complete a request, it answers with one of these errors, as HTML, JSON (RFC 9457) or Markdown. Programs should match
on \`error_name\` and \`error_category\`, which are stable, and not on the texts. Where the table gives a time to retry after, the error is
\`retryable\`, and \`retry_after\` equals the Retry-After header. In place of the time of 1015 stands that of the rate limit itself, where
it sets one. A code marked with * stands in no table of the interface's specification, so its class is Postern's choice. Every error has a
page of its own at \`/errors/{code}\`, to which the member \`type\` of the JSON points; \`/errors\` lists them all.

A person sees 522 like this in [light](screenshots/error-522-desktop-light.png) and in
[dark](screenshots/error-522-desktop-dark.png), and on a phone in [light](screenshots/error-522-phone-light.png) and in
[dark](screenshots/error-522-phone-dark.png).

${Object.entries(categories)
  .map(([category, { title }]) => table(category, title))
  .join('\n\n')}
`;
}
