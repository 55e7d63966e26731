// The commands in the documents do what the documents say: every `sh` block is run as it is written, beside a gateway whose
// ports take the place of the documented ones, or stands in test/support/document-plan.ts with the test that runs it or the
// reason why none can. A block on neither side fails, and so does an entry of the plan without a block.

import { spawn } from 'node:child_process';
import { copyFileSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { startDnsServer } from '../support/dns-server.ts';
import { type ArrangedBlock, arranged, elsewhere, type NamedBlock } from '../support/document-plan.ts';
import { type DocumentedCommand, documentedCommands, inTheWordsOf } from '../support/documented-commands.ts';
import { type DocumentsCheckout, makeDocumentsCheckout } from '../support/documents-checkout.ts';
import { fencedBlocks, markdownPages, readPage } from '../support/markdown.ts';
import { makePackedProject, type PackedProject } from '../support/packed-package.ts';
import { projectRoot, testToken } from '../support/postern-process.ts';
import { requirePrograms, runProgram } from './programs.ts';

/** A block of commands with its page. */
interface Block extends DocumentedCommand {
  readonly page: string;
  readonly where: string;
}

const blocks: readonly Block[] = markdownPages().flatMap((page) =>
  documentedCommands(readPage(page)).map((command) => ({ ...command, page, where: `${page}:${command.line}` })),
);

const fits = ({ page, script }: Block, named: NamedBlock): boolean =>
  page === named.page && script.startsWith(named.begins);
const arrangementOf = (block: Block): ArrangedBlock | undefined => arranged.find((named) => fits(block, named));
const isElsewhere = (block: Block): boolean => elsewhere.some((named) => fits(block, named));

let checkout: DocumentsCheckout;
let project: PackedProject;
beforeAll(async () => {
  requirePrograms('curl', 'swaks', 'python3', 'jq');
  checkout = await makeDocumentsCheckout(await freePort());
  project = makePackedProject();
});
afterAll(async () => {
  await checkout?.postern.cleanUp();
  project?.remove();
});

/** A port that nobody has now, for a program that takes no port of the system's choice. */
async function freePort(): Promise<number> {
  const script = 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])';
  return Number((await runProgram('python3', ['-c', script])).output);
}

/** The documented ports, and those of the process. */
function withPorts(script: string, ports: Readonly<Record<string, number>> = checkout.postern.ports): string {
  const names: Readonly<Record<string, string>> = {
    2587: 'submission',
    2465: 'submissions',
    8080: 'http',
    8443: 'https',
  };
  return script.replace(/(?<=127\.0\.0\.1:)(?:2587|2465|8080|8443)\b/g, (port) => {
    const bound = ports[names[port] ?? ''];
    if (bound === undefined)
      throw new Error(`No listener is documented at ${port}; there are ${Object.keys(ports).join(', ')}`);
    return `${bound}`;
  });
}

/** The script with what stands for something of the reader's: ids, paths, ports. */
function prepared(
  { script }: Block,
  plan: ArrangedBlock | undefined,
  ports?: Readonly<Record<string, number>>,
): string {
  const replaced = (plan?.instead ?? []).reduce((text, [from, to]) => text.replaceAll(from, to), script);
  const withIds = replaced.replaceAll(/(?<= )(P?ID)(?:\.\.\.)?(?=\s|$)/g, '"$$$1"');
  // -s: curl's progress meter goes to standard error, which is read with the answer.
  return withPorts(`${plan?.before ?? ''}\n${withIds}`, ports).replace(/\bcurl /g, 'curl -sS ');
}

async function run(block: Block, plan: ArrangedBlock | undefined, ports?: Readonly<Record<string, number>>) {
  const env = plan?.asksDns ? { NAME_SERVER: (await startDnsServer()).address } : {};
  // --norc: a shell whose standard input is a socket takes itself for one that rshd began, and would read bash.bashrc.
  return runProgram('bash', ['--norc', '-euo', 'pipefail', '-c', prepared(block, plan, ports)], {
    cwd: checkout.folder,
    env: { ...checkout.env, ...plan?.env, ...env },
  });
}

/** Starts a block that ends with a server, waits until it listens, and ends it when the test has ended. */
async function serve(block: Block, plan: ArrangedBlock): Promise<Readonly<Record<string, number>>> {
  const own = { POSTERN_DATA_DIR: 'served', POSTERN_CERTS_DIR: 'served-certs', POSTERN_CONFIG: undefined };
  const ports = { POSTERN_SMTP_PORT: '0', POSTERN_SMTPS_PORT: '0', POSTERN_HTTP_PORT: '0', POSTERN_HTTPS_PORT: '0' };
  // A group of its own, so that a program in the background ends with it.
  const child = spawn('bash', ['--norc', '-euo', 'pipefail', '-c', prepared(block, plan)], {
    cwd: checkout.folder,
    env: { ...checkout.env, ...own, ...ports },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  const closed = new Promise((resolve) => child.once('close', resolve));
  onTestFinished(async () => {
    if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, 'SIGTERM');
    await closed;
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (output += text));
  const line = await checkout.postern.until(() => {
    if (child.exitCode !== null) throw new Error(`It ended with ${child.exitCode}:\n${output}`);
    return output.split('\n').find((text) => text.includes('"msg":"listening"'));
  });
  const { listeners } = JSON.parse(line) as { readonly listeners: readonly { name: string; port: number }[] };
  return Object.fromEntries(listeners.map(({ name, port }) => [name, port]));
}

async function expectMessages({ script }: Block, output: string, before: number): Promise<void> {
  const messages = (script.match(/\b(swaks|curl)\b/g) ?? []).length;
  expect(output.match(/250 2\.0\.0 Ok <\S+@platform\.example>/g)?.length).toBe(messages);
  await checkout.postern.until(() => checkout.postern.captured().length >= before + messages);
}

async function expectBlock(block: Block, ports?: Readonly<Record<string, number>>): Promise<void> {
  const plan = arrangementOf(block);
  const before = checkout.postern.captured().length;
  const { code, output } = await run(block, plan, ports);
  expect([code, output]).toEqual([plan?.code ?? 0, expect.any(String)]);
  for (const shown of plan?.says ?? []) expect(output).toMatch(shown);
  if (/\bswaks\b|\bsmtp:/.test(block.script)) await expectMessages(block, output, before);
  else if (block.answer !== undefined) {
    const actual: unknown = JSON.parse(output);
    expect(inTheWordsOf(block.answer, actual)).toEqual(block.answer);
  } else if (/^curl\b/m.test(block.script) && output.startsWith('{"success"')) {
    expect(JSON.parse(output)).toMatchObject({ success: true, errors: [] });
  }
}

test('commands stand in sh blocks, and every entry of the plan has its block', () => {
  const shells = markdownPages().flatMap((page) =>
    fencedBlocks(readPage(page))
      .filter(({ language }) => ['console', 'bash', 'shell'].includes(language))
      .map(({ line }) => `${page}:${line}`),
  );
  expect(shells).toEqual([]);
  const stale = [...arranged, ...elsewhere].filter(
    (named) => blocks.filter((block) => fits(block, named)).length !== 1,
  );
  expect(stale).toEqual([]);
  const missing = elsewhere.flatMap(({ by }) => by).filter((file) => !existsSync(join(projectRoot, file)));
  expect(missing).toEqual([]);
  expect(elsewhere.filter(({ because }) => because === '')).toEqual([]);
});

const here = blocks.filter((block) => !isElsewhere(block) && arrangementOf(block)?.during === undefined);

test('there are commands to run', () => {
  expect(here.map(({ where }) => where)).toEqual(expect.arrayContaining([expect.stringMatching(/^README\.md:/)]));
  expect(here.length).toBeGreaterThan(30);
  expect(here.filter(({ answer }) => answer !== undefined).length).toBeGreaterThan(5);
});

describe.each(here)('$where', (block) => {
  test('does what it says', async () => {
    const plan = arrangementOf(block);
    if (!plan?.starts) return expectBlock(block);
    const ports = await serve(block, plan);
    for (const other of blocks) if (arrangementOf(other)?.during === plan.begins) await expectBlock(other, ports);
  });
});

test('docs/examples/send.mjs sends, once under its key', async () => {
  copyFileSync(join(projectRoot, 'docs/examples/send.mjs'), join(project.folder, 'send.mjs'));
  const env = { POSTERN_ENDPOINT: `http://127.0.0.1:${checkout.postern.ports['http']}`, POSTERN_TOKEN: testToken };
  const send = (to: string) => runProgram(process.execPath, ['send.mjs', to], { cwd: project.folder, env });
  const first = await send('ann@example.net');
  expect(first).toEqual({ code: 0, output: expect.stringMatching(/^Accepted as \S+@platform\.example\n$/) });
  expect(await send('ann@example.net')).toEqual(first);
  const other = await send('ben@example.net');
  expect([other.code, other.output]).toEqual([1, expect.stringMatching(/^Not sent: E_IDEMPOTENCY_CONFLICT: /)]);
  const copies = await checkout.postern.until(() => {
    const found = checkout.postern.captured().filter((message) => message.includes('Subject: Your order 4711'));
    return found.length > 0 ? found : undefined;
  });
  expect(copies.length).toBe(1);
  expect(copies[0]?.toString('latin1')).toMatch(/\r\nReply-To: help@example\.com\r\n/);
});

/** What the programs in JavaScript have where a reader has values of their own. */
const givenNames = `
const token = process.env.POSTERN_TOKEN;
const raw = 'From: shop@example.com\\r\\nTo: you@example.net\\r\\nSubject: x\\r\\n\\r\\nx\\r\\n';
const message = { from: 'shop@example.com', to: 'you@example.net', subject: 'x', text: 'x' };
`;

const programs = ['docs/binding.md', 'packages/binding/README.md'].flatMap((page) =>
  fencedBlocks(readPage(page))
    .filter(({ language }) => language === 'js' || language === 'ts')
    .map(({ line, text }) => ({ where: `${page}:${line}`, text })),
);

test.each(programs)('the program at $where runs', async ({ text }) => {
  const isFragment = !text.includes('const email = ');
  const email = "import { emailFromEnv } from 'postern-client';\nconst email = emailFromEnv(process.env);\n";
  const base = `http://127.0.0.1:${checkout.postern.ports['http']}`;
  const addressed = withPorts(text)
    .replace('https://mail.example.com', base)
    .replace("account: 'shop'", "account: 'dev'");
  const program = `${isFragment ? email : ''}${givenNames}${addressed}`;
  const before = checkout.postern.log().filter(({ msg }) => msg === 'accepted').length;
  const { code, output } = await runProgram(process.execPath, ['--input-type=module', '-e', program], {
    cwd: project.folder,
    env: { POSTERN_TOKEN: testToken, POSTERN_ENDPOINT: base, POSTERN_ACCOUNT: 'dev' },
  });
  expect([code, output]).toEqual([0, expect.stringMatching(/^(\S+@platform\.example\n)?$/)]);
  await checkout.postern.until(() => checkout.postern.log().filter(({ msg }) => msg === 'accepted').length > before);
});
