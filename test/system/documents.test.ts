// The commands in the documents do what the documents say: every block with curl, swaks or a program of docs/examples is
// run as written, only the ports are those of the process under test.

import { copyFileSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { documentedCommands, inTheWordsOf } from '../support/documented-commands.ts';
import { makePackedProject, type PackedProject } from '../support/packed-package.ts';
import { type PosternProcess, projectRoot, startPostern, testToken } from '../support/postern-process.ts';
import { requirePrograms, runProgram } from './programs.ts';

const documents = ['README.md', ...readdirSync(join(projectRoot, 'docs')).map((name) => `docs/${name}`)].filter(
  (name) => name.endsWith('.md'),
);

let postern: PosternProcess;
let project: PackedProject;
beforeAll(async () => {
  requirePrograms('curl', 'swaks');
  postern = await startPostern();
  project = makePackedProject();
});
afterAll(async () => {
  await postern?.cleanUp();
  project?.remove();
});

/** The documented ports, and those of the process. */
function withPorts(script: string): string {
  const ports: Readonly<Record<string, string>> = {
    2587: 'submission',
    2465: 'submissions',
    8080: 'http',
    8443: 'https',
  };
  return script.replace(/(?<=127\.0\.0\.1:)(?:2587|2465|8080|8443)\b/g, (port) => {
    const bound = postern.ports[ports[port] ?? ''];
    if (bound === undefined)
      throw new Error(`No listener is documented at ${port}; there are ${Object.keys(postern.ports).join(', ')}`);
    return `${bound}`;
  });
}

function run(script: string) {
  // -s: curl's progress meter goes to standard error, which is read with the answer.
  const quiet = script.replace(/\bcurl /g, 'curl -sS ');
  // --norc: a shell whose standard input is a socket takes itself for one that rshd began, and would read bash.bashrc.
  return runProgram('bash', ['--norc', '-euo', 'pipefail', '-c', withPorts(quiet)], {
    cwd: postern.folder,
    env: { TOKEN: testToken, POSTERN: `http://127.0.0.1:${postern.ports['http']}` },
  });
}

const commands = documents.flatMap((document) =>
  documentedCommands(readFileSync(join(projectRoot, document), 'utf8'), /\b(curl|swaks)\b/).map((command) => ({
    ...command,
    where: `${document}:${command.line}`,
  })),
);

test('there are commands to run', () => {
  expect(commands.map(({ where }) => where)).toEqual(expect.arrayContaining([expect.stringMatching(/^README\.md:/)]));
  expect(commands.filter(({ answer }) => answer !== undefined).length).toBeGreaterThan(1);
});

describe.each(commands)('$where', ({ script, answer }) => {
  test('does what it says', async () => {
    const before = postern.captured().length;
    const { code, output } = await run(script);
    expect([code, output]).toEqual([0, expect.any(String)]);
    if (/\bswaks\b|\bsmtp:/.test(script)) {
      // Each handed a message over by SMTP.
      const messages = (script.match(/\b(swaks|curl)\b/g) ?? []).length;
      expect(output.match(/250 2\.0\.0 Ok <\S+@platform\.example>/g)?.length).toBe(messages);
      await postern.until(() => postern.captured().length >= before + messages);
      return;
    }
    const actual: unknown = JSON.parse(output);
    if (answer === undefined) expect(actual).toMatchObject({ success: true, errors: [] });
    else expect(inTheWordsOf(answer, actual)).toEqual(answer);
  });
});

test('docs/examples/send.mjs sends, once under its key', async () => {
  copyFileSync(join(projectRoot, 'docs/examples/send.mjs'), join(project.folder, 'send.mjs'));
  const env = { POSTERN_ENDPOINT: `http://127.0.0.1:${postern.ports['http']}`, POSTERN_TOKEN: testToken };
  const send = (to: string) => runProgram(process.execPath, ['send.mjs', to], { cwd: project.folder, env });
  const first = await send('ann@example.net');
  expect(first).toEqual({ code: 0, output: expect.stringMatching(/^Accepted as \S+@platform\.example\n$/) });
  expect(await send('ann@example.net')).toEqual(first);
  const other = await send('ben@example.net');
  expect([other.code, other.output]).toEqual([1, expect.stringMatching(/^Not sent: E_IDEMPOTENCY_CONFLICT: /)]);
  const copies = await postern.until(() => {
    const found = postern.captured().filter((message) => message.includes('Subject: Your order 4711'));
    return found.length > 0 ? found : undefined;
  });
  expect(copies.length).toBe(1);
  expect(copies[0]?.toString('latin1')).toMatch(/\r\nReply-To: help@example\.com\r\n/);
});

test('the program in docs/binding.md runs', async () => {
  const [, program = ''] =
    /```js\n([\s\S]*?)```/.exec(readFileSync(join(projectRoot, 'docs/binding.md'), 'utf8')) ?? [];
  expect(program).toContain('createEmailBinding');
  const { code, output } = await runProgram(process.execPath, ['--input-type=module', '-e', withPorts(program)], {
    cwd: project.folder,
    env: { POSTERN_TOKEN: testToken },
  });
  expect([code, output]).toEqual([0, expect.stringMatching(/^\S+@platform\.example\n$/)]);
});
