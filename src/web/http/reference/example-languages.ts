// Writes a request for curl, JavaScript and Python. Each runs as it stands, and keeps the token out of a shell's history.

import type { RequestExample } from './request-example.ts';

/** POSIX shell, §2.2.2: nothing within single quotes means anything but a single quote. */
function shellText(value: string): string {
  return `'${value.replaceAll("'", "'\\''")}'`;
}

/** A command of curl for a POSIX shell. */
export function curlExample({ method, target, body }: RequestExample): string {
  const words = [
    `curl "$POSTERN_URL${target}"`,
    ...(method === 'GET' ? [] : [`--request ${method}`]),
    '--header "Authorization: Bearer $POSTERN_TOKEN"',
    ...(body === undefined ? [] : ["--header 'Content-Type: application/json'"]),
    ...(body === undefined ? [] : [`--data ${shellText(JSON.stringify(body, null, 2))}`]),
  ];
  return words.join(' \\\n  ');
}

/** A JavaScript module for Node.js that uses `fetch` alone. JSON is JavaScript, too. */
export function scriptExample({ method, target, body }: RequestExample): string {
  const value = JSON.stringify(body, null, 2)?.replaceAll('\n', '\n  ');
  return `const response = await fetch(\`\${process.env.POSTERN_URL}${target}\`, {
  method: '${method}',
  headers: {
    Authorization: \`Bearer \${process.env.POSTERN_TOKEN}\`,
${value === undefined ? '' : "    'Content-Type': 'application/json',\n"}  },
${value === undefined ? '' : `  body: JSON.stringify(${value}),\n`}});
console.log(response.status, await response.json());`;
}

const pythonWords: Readonly<Record<string, string>> = { true: 'True', false: 'False', null: 'None' };

/** A program for Python 3 that uses its standard library alone. Of JSON, only the three words differ from Python. */
export function pythonExample({ method, target, body }: RequestExample): string {
  const value = JSON.stringify(body, null, 4)
    ?.replace(/"(?:[^"\\]|\\.)*"|true|false|null/g, (token) => pythonWords[token] ?? token)
    .replaceAll('\n', '\n    ');
  return `import json
import os
import urllib.request

request = urllib.request.Request(
    os.environ["POSTERN_URL"] + "${target}",
    method="${method}",
    headers={
        "Authorization": "Bearer " + os.environ["POSTERN_TOKEN"],
${value === undefined ? '' : '        "Content-Type": "application/json",\n'}    },
${value === undefined ? '' : `    data=json.dumps(${value}).encode(),\n`})
with urllib.request.urlopen(request) as response:
    print(response.status, json.load(response))`;
}

/** The languages of the reference in the order in which they stand there. */
export const exampleLanguages = [
  { name: 'curl', write: curlExample },
  { name: 'JavaScript', write: scriptExample },
  { name: 'Python', write: pythonExample },
] as const;
