// The parts of docs/errors.md about edge errors and about the proxy-application API, written from the tables of the program.

import { allEdgeErrors, type EdgeError } from '../../src/edge/errors/catalogue.ts';
import { categories, type EdgeCategory } from '../../src/edge/errors/categories.ts';
import { type Rule, ruleRows, rules } from '../../src/proxy/rules/rules.ts';
import type { RuleCode } from '../../src/web/http/envelope.ts';
import { cell } from './policy-errors-page.ts';

/** The codes that the specification does not classify (D63). */
export const chosenCodes: Readonly<Partial<Record<EdgeCategory, readonly number[]>>> = {
  access_denied: [1003, 1009, 1011, 1020, 1034],
  config: [1000, 1002, 1013, 1018, 1023, 1038],
  worker: [1019],
  rewrite: [1035, 1040, 1041],
};

function edgeRow(error: EdgeError): string {
  const cells = [
    `${error.code}${chosenCodes[error.category]?.includes(error.code) === true ? ' *' : ''}`,
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
  const rows = allEdgeErrors.filter((error) => error.category === category).map(edgeRow);
  return `### ${title} (\`${category}\`)

| Code | error_name | Status | Retry after | Owner must act | What happened | What to do |
| --- | --- | --- | --- | --- | --- | --- |
${rows.join('\n')}`;
}

/** The section about edge errors. Markdown, beginning with a second-level heading. */
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

function ruleRow(code: RuleCode, { name, status, when, resolution }: Required<Rule>): string {
  // D83: the one code with two statuses.
  const statuses = code === 10002 ? `${status} or 503` : String(status);
  return `| ${[String(code), name, statuses, when, resolution].map(cell).join(' | ')} |`;
}

/** The section about the proxy-application API. Markdown, beginning with a second-level heading. */
export function renderProxyErrors(): string {
  return `## Why a proxy application is refused

Every answer is a JSON object with the members \`success\`, \`errors\`, \`messages\` and \`result\`. \`errors\` has one item for each rule that is
broken, in the order of this table, and the HTTP status is that of the first item. Before these items stands 10001, once for each member of
the body that cannot be read and that no rule is about, with its place in \`source.pointer\`. That is so where the body is no JSON object, where a
member has the wrong type, and where \`protocol\` or \`dns.name\` is missing or cannot be read. ${rules[10002].name} (10002) always stands alone and
names nothing but the Ray ID.

| Code | Name | HTTP status | When | What to do |
| --- | --- | --- | --- | --- |
${ruleRows.map(({ code, rule }) => ruleRow(code, rule)).join('\n')}
`;
}
