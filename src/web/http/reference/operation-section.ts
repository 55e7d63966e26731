// One operation of the reference: what it does, what it takes, three examples of a request, and what it answers.

import { member } from '../../../base/is-record.ts';
import { escapeHtml } from '../page/html-page.ts';
import { exampleLanguages } from './example-languages.ts';
import { type Operation, requestExample } from './request-example.ts';
import {
  anchors,
  code,
  entries,
  inline,
  list,
  nameEntry,
  notesOf,
  paragraphs,
  text,
  typeOf,
  withErrorLinks,
} from './words.ts';

/** What the sections of a page have in common. */
export interface ReferenceContext {
  /** The components that `$ref` names. */
  readonly schemas: unknown;
  /** Keys of the errors that the page describes. */
  readonly errors: ReadonlySet<string>;
}

/** The title of an operation: its summary, else its method and path. */
export function titleOf({ method, path, operation }: Operation): string {
  return text(member(operation, 'summary')) || `${method.toUpperCase()} ${path}`;
}

/** The `id` of an operation's section on the page. */
export function anchorOf({ method, path, operation }: Operation): string {
  return anchors.operation(method, path, text(member(operation, 'operationId')));
}

function parameters(operation: unknown): string {
  const shown = list(member(operation, 'parameters')).map((parameter) => {
    const schema = member(parameter, 'schema');
    return nameEntry(text(member(parameter, 'name')), {
      required: member(parameter, 'required') === true,
      typeHtml: `${escapeHtml(text(member(parameter, 'in')))}, ${typeOf(schema)}`,
      notesHtml: notesOf(schema, member(parameter, 'description')),
    });
  });
  return shown.length === 0 ? '' : `<h4>Parameters</h4>\n<dl class="names">\n${shown.join('')}</dl>\n`;
}

function body(operation: unknown): string {
  const contents = entries(member(operation, 'requestBody', 'content'));
  const schema = member(contents[0]?.[1], 'schema');
  if (schema === undefined) return '';
  return `<h4>Body</h4>\n<p>${typeOf(schema)}, as ${contents.map(([type]) => code(type)).join(' or ')}</p>\n`;
}

/** Writes the examples. One is open at a time, at first the first one. */
function examples(shown: Operation, { schemas }: ReferenceContext): string {
  const request = requestExample(shown, schemas);
  const group = `example-${anchorOf(shown)}`;
  const each = exampleLanguages.map(
    ({ name, write }, index) => `<details name="${group}"${index === 0 ? ' open' : ''}>
<summary>${name}</summary>
<pre><code>${escapeHtml(write(request))}</code></pre>
</details>
`,
  );
  return `<h4>Example</h4>\n<div class="examples">\n${each.join('')}</div>\n`;
}

function answers(operation: unknown, { errors }: ReferenceContext): string {
  const responses = entries(member(operation, 'responses'));
  const shown = responses.map(([status, response]) => {
    const result = member(response, 'content', 'application/json', 'schema', 'properties', 'result');
    const html =
      result === undefined
        ? withErrorLinks(text(member(response, 'description')), errors)
        : `Done; in ${code('result')}: ${typeOf(result)}`;
    return `<dt>${escapeHtml(status)}</dt><dd>${html}</dd>\n`;
  });
  return `<h4>Answers</h4>\n<dl class="answers">\n${shown.join('')}</dl>\n`;
}

/** Writes a path as HTML that may break its line behind each slash. */
function pathHtml(path: string): string {
  return `<code>${escapeHtml(path).replaceAll('/', '/<wbr>')}</code>`;
}

/** Writes the section of an operation; its heading is one level below that of its group. */
export function operationSection(shown: Operation, context: ReferenceContext): string {
  const { method, path, operation } = shown;
  return `<section class="operation" id="${anchorOf(shown)}">
<h3>${inline(titleOf(shown))}</h3>
<p class="path"><b>${escapeHtml(method.toUpperCase())}</b> ${pathHtml(path)}</p>
${paragraphs(member(operation, 'description'))}${parameters(operation)}${body(operation)}${examples(shown, context)}${answers(
  operation,
  context,
)}</section>
`;
}
