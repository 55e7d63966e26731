// Writes docs/headers.md from what the pages of headers tell.

import { headerCatalogue } from '../../src/pipeline/policy/header-catalogue.ts';
import { guideOf, type HeaderGuide, otherNames } from '../../src/pipeline/policy/header-guide.ts';

function code(text: string): string {
  return text
    .split('\n')
    .map((line) => `\`${line}\``)
    .join(' and ');
}

function listed(what: string, texts: readonly string[], between = ' '): string[] {
  return texts.length === 0 ? [] : [`- ${what}: ${texts.join(between)}`];
}

function entry({ name, rule, about, reference, good, bad, senders, cure }: HeaderGuide): string {
  const standard = reference?.url === undefined ? reference?.text : `[${reference.text}](${reference.url})`;
  return [
    `### ${name.replace('*', '\\*')}`,
    '',
    [rule, ...(about === undefined ? [] : [about]), ...(standard === undefined ? [] : [`(${standard})`])]
      .join(' ')
      .replace(/(^|[^`])(<[^>]*>)/g, '$1`$2`'),
    '',
    ...listed('Good', good.map(code), ', '),
    ...listed('Refused', bad.map(code), ', '),
    ...listed('Who sends it', senders),
    ...listed('Cure', cure),
  ].join('\n');
}

/** The document. @public for the test that writes it */
export function renderHeadersPage(): string {
  const guides = (names: readonly string[]): string =>
    names
      .flatMap((name) => guideOf(name) ?? [])
      .map(entry)
      .join('\n\n');
  return `# Headers

This page is for whoever was refused for a header, and wants its rule, examples, and the cure. A gateway serves the same by header, at
\`/headers/NAME\`. It is written from the program's own tables, and \`npm test\` fails when the two differ. [errors.md](errors.md) lists the
tokens and limits, and [headers.json](headers.json) has all of it for programs.

- [On the lists](#on-the-lists)
- [On no list, and often sent](#on-no-list-and-often-sent)

An example that begins with \`"headers"\` is a member of the request of \`send\`; the others are lines of a message.

## On the lists

${guides(Object.values(headerCatalogue).map(({ name }) => name))}

## On no list, and often sent

${guides(otherNames)}
`;
}
