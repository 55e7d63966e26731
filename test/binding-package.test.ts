// The client as consumers have it, from the tarball that `npm pack` makes: what is in it and what its install brings, its
// types in a strict program, and a real gateway that it sends through, under the machine's own Node and in a runtime that
// has nothing of Node (D49).

import {
  accessSync,
  constants,
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { createContext, runInContext } from 'node:vm';
import { simpleParser } from 'mailparser';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { bundleProgram } from './support/client-bundle.ts';
import { clientName, makePackedProject, type PackedProject } from './support/packed-package.ts';
import { type PosternProcess, projectRoot, startPostern, testToken } from './support/postern-process.ts';
import { accepted, refused, startScriptedApi } from './support/scripted-api.ts';
import { runProgram } from './system/programs.ts';

let project: PackedProject;
let postern: PosternProcess;
let endpoint: string;
beforeAll(async () => {
  project = makePackedProject();
  mkdirSync(join(project.folder, 'types'));
  for (const name of ['@types/node', 'undici-types']) {
    mkdirSync(join(project.folder, 'types/node_modules', name, '..'), { recursive: true });
    symlinkSync(join(projectRoot, 'node_modules', name), join(project.folder, 'types/node_modules', name));
  }
  postern = await startPostern();
  endpoint = `http://127.0.0.1:${postern.ports['http']}`;
}, 120_000);
afterAll(async () => {
  project?.remove();
  await postern?.cleanUp();
});

const environment = () => ({ POSTERN_ENDPOINT: endpoint, POSTERN_TOKEN: testToken, POSTERN_ACCOUNT: 'dev' });

/** The first `node` of PATH that is not a package's own; the one that runs the tests where there is no other. */
function machineNode(): string {
  const folders = (process.env['PATH'] ?? '').split(delimiter).filter((folder) => !folder.includes('node_modules'));
  const found = folders.find((folder) => {
    try {
      accessSync(join(folder, 'node'), constants.X_OK);
      return true;
    } catch {
      return false; // not in this folder
    }
  });
  return found === undefined ? process.execPath : join(found, 'node');
}

function capturedWith(text: string): Promise<Buffer> {
  return postern.until(() => postern.captured().find((message) => message.includes(text)));
}

test('the tarball has the built client and no sources', () => {
  const sources = readdirSync(join(projectRoot, 'packages/binding/src')).map((name) => name.replace(/\.ts$/, ''));
  const built = sources.flatMap((name) =>
    ['dist', 'dist/cjs'].flatMap((folder) => [`${folder}/${name}.d.ts`, `${folder}/${name}.js`]),
  );
  expect(built).toContain('dist/index.js');
  expect([...project.files].sort()).toEqual(
    [...built, 'dist/cjs/package.json', 'LICENSE', 'README.md', 'package.json'].sort(),
  );
  const licence = (folder: string) => readFileSync(join(folder, 'LICENSE'), 'utf8');
  expect(licence(project.installed)).toBe(licence(projectRoot));
});

test('its install brings one package, and no command', () => {
  const lock = JSON.parse(readFileSync(join(project.folder, 'package-lock.json'), 'utf8')) as {
    readonly packages: Readonly<Record<string, unknown>>;
  };
  expect(Object.keys(lock.packages)).toEqual(['', `node_modules/${clientName}`]);
  const installed = readdirSync(join(project.folder, 'node_modules')).filter((name) => name !== '.package-lock.json');
  expect(installed).toEqual([clientName]);
});

test('it imports nothing but its own files', () => {
  const imports = project.files
    .filter((path) => /\.(js|d\.ts)$/.test(path))
    .flatMap((path) => {
      const text = readFileSync(join(project.installed, path), 'utf8');
      const found = [...text.matchAll(/^(?:im|ex)port .*'(.+)';$/gm), ...text.matchAll(/\brequire\("(.+?)"\)/g)];
      return found.map((match) => (match[1] ?? '').replace(/^\./, dirname(path)));
    });
  expect(imports.length).toBeGreaterThan(20);
  // TypeScript reads x.d.ts where a declaration names x.ts.
  const files = imports.map((name) => name.replace(/\.ts$/, '.d.ts'));
  expect(files.filter((path) => !project.files.includes(path))).toEqual([]);
});

/** A compiler takes seconds while other tests have the processor. */
const timeout = 60_000;

const typescript = join(projectRoot, 'node_modules/@typescript/native/bin/tsc');
/** The last compiler that finds modules in the old way, which reads no `exports`. */
const oldTypescript = join(projectRoot, 'node_modules/typescript/bin/tsc6');

/**
 * Compiles a program in a strict project, which leaves it beside itself as JavaScript, and one beside it that differs in a type. Fails
 * unless the compiler finds fault with that one alone: each run of it reads all types anew.
 */
async function compile(program: string, options: object, compiler = typescript): Promise<void> {
  const settings = {
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    module: 'nodenext',
  };
  const compilerOptions = { ...settings, target: 'es2022', ...options };
  const files = { 'use.ts': program, 'wrong.ts': program.replace("subject: 'Of fields'", 'subject: 5') };
  const manifest = JSON.stringify({ compilerOptions, files: Object.keys(files) });
  for (const [name, text] of Object.entries({ ...files, 'tsconfig.json': manifest }))
    writeFileSync(join(project.folder, name), text);
  const { code, output } = await runProgram(process.execPath, [compiler], { cwd: project.folder });
  expect([code, output]).toEqual([2, expect.stringMatching(/^wrong\.ts.*TS2322.*string/)]);
  expect(output.split('\n').filter((line) => /^(?!wrong\.ts|\s|$)/.test(line))).toEqual([]);
}

const program = `import { bindEmail, createEmailBinding, EmailError, EmailMessage, type MessageFields } from '${clientName}';
const to: MessageFields['to'] = [{ email: 'a@example.net', name: undefined }, 'b@example.net'];
const attachments = [{ content: new Uint8Array([0, 255]), filename: 'a.bin', type: 'application/x-bin' }];
const raw = 'From: c@example.com\\r\\nSubject: Of a MIME message\\r\\n\\r\\nHello\\r\\n';
export async function sendAll(env: Record<string, string | undefined>): Promise<readonly string[]> {
  const { POSTERN_ENDPOINT: endpoint = '', POSTERN_TOKEN: token = '', POSTERN_ACCOUNT: account = '' } = env;
  const email = createEmailBinding({ endpoint, token, account });
  const signal = AbortSignal.timeout(20_000);
  const first = await email.send({ to, from: 'c@example.com', subject: 'Of fields', text: 't', attachments }, { signal });
  const second = await bindEmail(env).EMAIL.send(new EmailMessage('c@example.com', 'd@example.net', raw));
  const why = await email.send({ to, from: 'c@elsewhere.example', subject: 's', text: 't' }).catch(codeOf);
  return [first.messageId, second.messageId, typeof why === 'string' ? why : ''];
}
const codeOf = (error: unknown): string => (error instanceof EmailError ? error.code : String(error));
`;
const browserLike = { lib: ['es2022', 'dom'], types: [], module: 'esnext', moduleResolution: 'bundler' };
const nodeLike = () => ({
  lib: ['es2022'],
  types: ['node'],
  typeRoots: [join(project.folder, 'types/node_modules/@types')],
});

test('the types hold for a strict program with the types of a browser', { timeout }, async () => {
  await compile(program, browserLike);
});

test('a TypeScript program with the types of Node sends with it through a gateway, under the machine’s own Node', {
  timeout,
}, async () => {
  await compile(`${program}\nconsole.log(JSON.stringify(await sendAll(process.env)));\n`, nodeLike());
  const { code, output } = await runProgram(machineNode(), ['use.js'], { cwd: project.folder, env: environment() });
  expect([code, output]).toEqual([0, expect.stringMatching(/^\[.*\]\n$/)]);
  const [first = '', second = '', refusal] = JSON.parse(output) as readonly string[];
  expect(refusal).toBe('E_SENDER_NOT_VERIFIED');
  const fields = await simpleParser(await capturedWith(`Message-ID: <${first}>`));
  expect([fields.subject, [...(fields.attachments[0]?.content ?? [])]]).toEqual(['Of fields', [0, 255]]);
  const mime = await capturedWith(`Message-ID: <${second}>`);
  expect((await simpleParser(mime)).subject).toBe('Of a MIME message');
  expect(mime.toString('latin1')).toMatch(/\r\n\r\nHello\r\n$/);
});

test.each([
  ['node16', { module: 'node16' }],
  ['the old way to find modules', { module: 'commonjs', moduleResolution: 'node10', ignoreDeprecations: '6.0' }],
])('TypeScript that compiles to CommonJS finds its types and sends with it: %s', { timeout }, async (_, options) => {
  const manifest = join(project.folder, 'package.json');
  const before = readFileSync(manifest, 'utf8');
  writeFileSync(manifest, before.replace('"module"', '"commonjs"'));
  try {
    const old = options.module === 'commonjs' ? oldTypescript : typescript;
    const main = `${program}void sendAll(process.env).then((sent) => console.log(JSON.stringify(sent)));\n`;
    await compile(main, { ...nodeLike(), ...options }, old);
    expect(readFileSync(join(project.folder, 'use.js'), 'utf8')).toContain('require(');
    const { code, output } = await runProgram(machineNode(), ['use.js'], { cwd: project.folder, env: environment() });
    expect([code, output]).toEqual([0, expect.stringMatching(/^\["[^"]+","[^"]+","E_SENDER_NOT_VERIFIED"\]\n$/)]);
  } finally {
    writeFileSync(manifest, before);
  }
});

test('a bundle for no platform in particular sends where nothing of Node is', async () => {
  const { code, imports } = await bundleProgram(
    project,
    `import { bindEmail, EmailMessage } from '${clientName}';
globalThis.sendAll = async (variables) => {
  const { EMAIL } = bindEmail(variables);
  const attachments = [{ content: new Uint8Array([0, 254, 255]), filename: 'b.bin' }];
  const message = { from: 'c@example.com', to: 'a@example.net', subject: 'From a worker', text: 't', attachments };
  const raw = new TextEncoder().encode('From: c@example.com\\nSubject: From a worker too\\n\\nHello\\n');
  const results = [await EMAIL.send(message), await EMAIL.send(new EmailMessage('c@example.com', ['d@example.net'], raw))];
  return results.map(({ messageId }) => messageId).join(' ');
};`,
  );
  expect(imports).toEqual([]);
  expect(code).not.toMatch(/\bnode:|\brequire\(/);
  // What workers of every maker have; no process, Buffer, require or global.
  const web = { fetch, URL, AbortSignal, TextEncoder, TextDecoder, btoa, setTimeout, clearTimeout };
  const context = createContext({ ...web });
  runInContext(code, context);
  const sendAll = runInContext('sendAll', context) as (env: object) => Promise<string>;
  const [first, second] = (await sendAll(environment())).split(' ');
  const mail = await simpleParser(await capturedWith(`Message-ID: <${first}>`));
  expect([mail.subject, [...(mail.attachments[0]?.content ?? [])]]).toEqual(['From a worker', [0, 254, 255]]);
  expect((await capturedWith(`Message-ID: <${second}>`)).toString('latin1')).toMatch(
    /\r\nSubject: From a worker too\r\n/,
  );
});

test('the example sends with it, and tells why a message is refused', async () => {
  const api = await startScriptedApi([
    accepted,
    refused(400, [
      { code: 10202, message: 'E_HEADER_VALUE_INVALID: X-Campaign-ID is empty', pointer: '/headers/X-Campaign-ID' },
    ]),
  ]);
  copyFileSync(join(projectRoot, 'docs/examples/send.mjs'), join(project.folder, 'send.mjs'));
  const run = () =>
    runProgram(process.execPath, ['send.mjs', 'ann@example.net'], {
      cwd: project.folder,
      env: { POSTERN_ENDPOINT: api.endpoint, POSTERN_TOKEN: 'token' },
    });
  expect(await run()).toEqual({ code: 0, output: 'Accepted as id-1@platform.example\n' });
  expect(JSON.parse(api.seen[0]?.body.toString() ?? '')).toMatchObject({ to: 'ann@example.net' });
  const why =
    'Not sent: E_HEADER_VALUE_INVALID: X-Campaign-ID is empty\n  E_HEADER_VALUE_INVALID /headers/X-Campaign-ID\n';
  expect(await run()).toEqual({ code: 1, output: why });
  await api.close();
});
