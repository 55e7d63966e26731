// The reference at /docs: the OpenAPI document as one readable page. Nothing is fetched, no script runs.

import { isRecord, type UnknownRecord as Json } from '../base/is-record.ts';

function member(value: unknown, ...names: readonly string[]): unknown {
  return names.reduce<unknown>((at, name) => (isRecord(at) ? at[name] : undefined), value);
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function escape(value: string): string {
  return value.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}

/** Escapes, and sets `code` where a description has backquotes. */
function prose(value: unknown): string {
  return escape(text(value))
    .replace(/`([^`]+)`/g, '<code>$1</code>')
    .replaceAll('\n\n', '<br>');
}

function anchor(name: string): string {
  return name.replace(/[^A-Za-z0-9]+/g, '-').replace(/^-|-$/g, '');
}

const scalars: Readonly<Record<string, string>> = {
  integer: 'integer',
  string: 'string',
  boolean: 'boolean',
  null: 'null',
};

/** A schema's type in few words, its components linked. */
function typeOf(schema: unknown): string {
  const ref = text(member(schema, '$ref'));
  if (ref !== '') {
    const name = ref.slice(ref.lastIndexOf('/') + 1);
    return `<a href="#${anchor(name)}">${escape(name)}</a>`;
  }
  const union = member(schema, 'anyOf');
  if (Array.isArray(union)) return union.map(typeOf).join(' or ');
  const values = member(schema, 'enum');
  if (Array.isArray(values)) return values.map((value) => `<code>${escape(String(value))}</code>`).join(' or ');
  const constant = member(schema, 'const');
  if (constant !== undefined) return `<code>${escape(JSON.stringify(constant))}</code>`;
  const type = member(schema, 'type');
  if (type === 'array') {
    const items = member(schema, 'items');
    return items === undefined ? 'array' : `array of ${typeOf(items)}`;
  }
  if (Array.isArray(type)) return type.map((name) => escape(String(name))).join(' or ');
  return scalars[text(type)] ?? (text(type) || 'any');
}

const bounds = {
  maxLength: 'characters at most',
  minLength: 'characters at least',
  maximum: 'at most',
  minimum: 'at least',
  maxItems: 'items at most',
  minItems: 'items at least',
};

function notes(schema: unknown): string {
  const parts = [prose(member(schema, 'description'))];
  for (const [name, words] of Object.entries(bounds)) {
    const value = member(schema, name);
    if (typeof value !== 'number') continue;
    parts.push(words.startsWith('at') ? `${words} ${value}` : `${value} ${words}`);
  }
  const examples = member(schema, 'examples');
  if (Array.isArray(examples)) parts.push(`for example <code>${escape(JSON.stringify(examples[0]))}</code>`);
  return parts.filter((part) => part !== '').join('; ');
}

function row(cells: readonly string[]): string {
  return `<tr>${cells.map((cell) => `<td>${cell}</td>`).join('')}</tr>`;
}

function table(head: readonly string[], rows: readonly string[]): string {
  if (rows.length === 0) return '';
  return `<div class="wide"><table><thead><tr>${head.map((cell) => `<th>${cell}</th>`).join('')}</tr></thead><tbody>${rows.join('')}</tbody></table></div>`;
}

function members(schema: unknown): string {
  const properties = member(schema, 'properties');
  if (!isRecord(properties)) return `<p>${typeOf(schema)}. ${notes(schema)}</p>`;
  const required = member(schema, 'required');
  const needed: readonly unknown[] = Array.isArray(required) ? required : [];
  const rows = Object.entries(properties).map(([name, property]) => {
    const nested = isRecord(member(property, 'properties')) ? members(property) : '';
    return row([
      `<code>${escape(name)}</code>${needed.includes(name) ? '<span class="need" title="required">*</span>' : ''}`,
      typeOf(property),
      notes(property) + nested,
    ]);
  });
  return table(['Name', 'Type', ''], rows);
}

function parameters(operation: unknown): string {
  const list = member(operation, 'parameters');
  const rows = (Array.isArray(list) ? list : []).map((parameter: unknown) =>
    row([
      `<code>${escape(text(member(parameter, 'name')))}</code>${member(parameter, 'required') === true ? '<span class="need" title="required">*</span>' : ''}`,
      escape(text(member(parameter, 'in'))),
      [prose(member(parameter, 'description')), notes(member(parameter, 'schema'))]
        .filter((part) => part !== '')
        .join('; '),
    ]),
  );
  return table(['Parameter', 'In', ''], rows);
}

function operationSection(method: string, path: string, operation: unknown): string {
  const name = `${method.toUpperCase()} ${path}`;
  const body = member(operation, 'requestBody', 'content', 'application/json', 'schema');
  const responses = member(operation, 'responses');
  const result = member(responses, '200', 'content', 'application/json', 'schema', 'properties', 'result');
  const failures = Object.entries(isRecord(responses) ? responses : {}).filter(([status]) => status !== '200');
  return `<section id="${anchor(name)}">
<h2>${escape(text(member(operation, 'summary')) || name)}</h2>
<p class="path"><b>${escape(method.toUpperCase())}</b> <code>${escape(path)}</code></p>
<p>${prose(member(operation, 'description'))}</p>
${parameters(operation)}
${body === undefined ? '' : `<p>Body: ${typeOf(body)}</p>`}
<p>Answer 200, in <code>result</code>: ${typeOf(result)}</p>
${table(
  ['Failure', 'Tokens'],
  failures.map(([status, failure]) => row([escape(status), prose(member(failure, 'description'))])),
)}
</section>`;
}

const style = `:root{color-scheme:light dark;--line:color-mix(in srgb,currentColor 18%,transparent);--soft:color-mix(in srgb,currentColor 7%,transparent)}
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:0 auto;padding:1.5rem;overflow-wrap:anywhere}
h1{margin:.2em 0}h2{margin:0 0 .3em}section{border-top:1px solid var(--line);padding:1.4rem 0}
code{font:.9em ui-monospace,monospace;background:var(--soft);padding:.1em .3em;border-radius:.25em}
table{border-collapse:collapse;width:100%;margin:.7rem 0}th,td{text-align:left;vertical-align:top;padding:.35rem .8rem .35rem 0;border-bottom:1px solid var(--line)}
th{font-weight:600;font-size:.85em}td:first-child{white-space:nowrap}.wide{overflow-x:auto}
.path b{margin-right:.4em}.need{color:#c0392b;margin-left:.15em}nav ul{columns:2;padding-left:1.2em}a{color:inherit}
@media(max-width:40rem){nav ul{columns:1}td:first-child{white-space:normal}}`;

/** Renders the page. */
export function renderReference(document: Json): string {
  const paths = member(document, 'paths');
  const operations = Object.entries(isRecord(paths) ? paths : {}).flatMap(([path, methods]) =>
    Object.entries(isRecord(methods) ? methods : {}).map(([method, operation]) => ({ path, method, operation })),
  );
  const schemas = member(document, 'components', 'schemas');
  const named = Object.entries(isRecord(schemas) ? schemas : {});
  const links = operations.map(
    ({ path, method, operation }) =>
      `<li><a href="#${anchor(`${method.toUpperCase()} ${path}`)}">${escape(text(member(operation, 'summary')) || path)}</a></li>`,
  );
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Postern: HTTP reference</title>
<style>${style}</style>
</head>
<body>
<h1>Postern: HTTP reference</h1>
<p>${prose(member(document, 'info', 'description'))} The same as <a href="/openapi.json">OpenAPI 3.1</a>.</p>
<p>Every request carries <code>Authorization: Bearer TOKEN</code>. A field marked <span class="need">*</span> is required.</p>
<nav><ul>${links.join('')}</ul></nav>
${operations.map(({ method, path, operation }) => operationSection(method, path, operation)).join('\n')}
${named
  .map(
    ([name, schema]) =>
      `<section id="${anchor(name)}"><h2>${escape(name)}</h2><p>${prose(member(schema, 'description'))}</p>${members(schema)}</section>`,
  )
  .join('\n')}
</body>
</html>
`;
}
