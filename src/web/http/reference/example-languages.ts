// Writes a request for curl, JavaScript and Python. Each runs as it stands, and keeps the token out of a shell's history.

import { isRecord } from '../../../base/is-record.ts';
import type { RequestExample } from './request-example.ts';

/** POSIX shell, §2.2.2: nothing within single quotes means anything but a single quote. */
function shellText(value: string): string {
  return `'${value.replaceAll("'", "'\\''")}'`;
}

/** Escapes text that stands in double quotes beside a variable (POSIX shell, §2.2.3). */
function besideVariable(value: string): string {
  return value.replace(/[\\"$`]/g, '\\$&');
}

/** A command of curl for a POSIX shell. */
export function curlExample({ method, target, headers, body }: RequestExample): string {
  const words = [
    `curl "$POSTERN_URL${besideVariable(target)}"`,
    ...(method === 'GET' ? [] : [`--request ${method}`]),
    '--header "Authorization: Bearer $POSTERN_TOKEN"',
    ...Object.entries(headers).map(([name, value]) => `--header ${shellText(`${name}: ${value}`)}`),
    ...(body === undefined ? [] : [`--data ${shellText(JSON.stringify(body, null, 2))}`]),
  ];
  return words.join(' \\\n  ');
}

/** Writes text between single quotes, with the escapes of JSON, which JavaScript and Python have too. */
function quotedText(value: string): string {
  const escaped = JSON.stringify(value).slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'");
  return `'${escaped}'`;
}

function indent(code: string, by: string): string {
  return code.replaceAll('\n', `\n${by}`);
}

/** A name of a member that needs no quotes (ECMAScript, IdentifierName within ASCII). */
const plainName = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** Writes the name of a member of an object; brackets keep `__proto__` a member, which JavaScript would take as the prototype. */
function scriptName(name: string): string {
  if (name === '__proto__') return `['__proto__']`;
  return plainName.test(name) ? name : quotedText(name);
}

function scriptLiteral(value: unknown): string {
  if (typeof value === 'string') return quotedText(value);
  if (Array.isArray(value)) return `[${value.map(scriptLiteral).join(', ')}]`;
  if (!isRecord(value)) return JSON.stringify(value);
  const lines = Object.entries(value).map(([name, part]) => {
    return `  ${scriptName(name)}: ${indent(scriptLiteral(part), '  ')},\n`;
  });
  return lines.length === 0 ? '{}' : `{\n${lines.join('')}}`;
}

function inTemplate(value: string): string {
  return value.replace(/[\\`]|\$\{/g, '\\$&');
}

/** A JavaScript module for Node.js that uses `fetch` alone. */
export function scriptExample({ method, target, headers, body }: RequestExample): string {
  const sent = Object.entries(headers).map(([name, value]) => `    ${scriptName(name)}: ${quotedText(value)},\n`);
  return `const response = await fetch(\`\${process.env.POSTERN_URL}${inTemplate(target)}\`, {
  method: ${quotedText(method)},
  headers: {
    Authorization: \`Bearer \${process.env.POSTERN_TOKEN}\`,
${sent.join('')}  },
${body === undefined ? '' : `  body: JSON.stringify(${indent(scriptLiteral(body), '  ')}),\n`}});
console.log(response.status, await response.json());`;
}

const pythonWords: ReadonlyMap<unknown, string> = new Map<unknown, string>([
  [true, 'True'],
  [false, 'False'],
  [null, 'None'],
]);

function pythonText(value: string): string {
  return JSON.stringify(value);
}

function pythonLiteral(value: unknown): string {
  if (typeof value === 'string') return pythonText(value);
  if (Array.isArray(value)) return `[${value.map(pythonLiteral).join(', ')}]`;
  if (!isRecord(value)) return pythonWords.get(value) ?? JSON.stringify(value);
  const lines = Object.entries(value).map(
    ([name, part]) => `    ${pythonText(name)}: ${indent(pythonLiteral(part), '    ')},\n`,
  );
  return lines.length === 0 ? '{}' : `{\n${lines.join('')}}`;
}

/** A program for Python 3 that uses its standard library alone. */
export function pythonExample({ method, target, headers, body }: RequestExample): string {
  const sent = Object.entries(headers).map(([name, value]) => `        ${pythonText(name)}: ${pythonText(value)},\n`);
  return `import json
import os
import urllib.request

request = urllib.request.Request(
    os.environ["POSTERN_URL"] + ${pythonText(target)},
    method=${pythonText(method)},
    headers={
        "Authorization": "Bearer " + os.environ["POSTERN_TOKEN"],
${sent.join('')}    },
${body === undefined ? '' : `    data=json.dumps(${indent(pythonLiteral(body), '    ')}).encode(),\n`})
with urllib.request.urlopen(request) as response:
    print(response.status, json.load(response))`;
}

/** The languages of the reference in the order in which they stand there. */
export const exampleLanguages = [
  { name: 'curl', write: curlExample },
  { name: 'JavaScript', write: scriptExample },
  { name: 'Python', write: pythonExample },
] as const;
