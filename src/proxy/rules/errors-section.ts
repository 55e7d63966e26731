// The part of docs/errors.md about the proxy-application API, written from its rules.

import type { RuleCode } from '../../http/v4-code.ts';
import type { Rule } from './rule.ts';
import { ruleRows, rules } from './rules.ts';

function cell(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('<', '&lt;');
}

function row(code: RuleCode, { name, status, when, resolution }: Rule): string {
  // D83: the one code with two statuses.
  const statuses = code === 10002 ? `${status} or 503` : String(status);
  return `| ${[String(code), name, statuses, when, resolution].map(cell).join(' | ')} |`;
}

/**
 * Renders the section. Markdown, beginning with a second-level heading.
 * @public for the test that writes docs/errors.md
 */
export function renderProxyErrors(): string {
  return `## Why a proxy application is refused

Every answer is a JSON object with the members \`success\`, \`errors\`, \`messages\` and \`result\`. \`errors\` has one item for each rule that is
broken, in the order of this table, and the HTTP status is that of the first item. Before these items stands 10001, once for each member of
the body that cannot be read and that no rule is about, with its place in \`source.pointer\`. That is so where the body is no JSON object, where a
member has the wrong type, and where \`protocol\` or \`dns.name\` is missing or cannot be read. ${rules[10002].name} (10002) always stands alone and
names nothing but the Ray ID.

| Code | Name | HTTP status | When | What to do |
| --- | --- | --- | --- | --- |
${ruleRows.map(({ code, rule }) => row(code, rule)).join('\n')}
`;
}
