// The package's export from the tarball that `npm pack` makes: what is in it, that it runs where Node refuses
// TypeScript, that its types hold, and that the example in docs/ works with it (D49).

import { copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { makePackedProject, type PackedProject } from './support/packed-package.ts';
import { projectRoot } from './support/postern-process.ts';
import { accepted, refused, startScriptedApi } from './support/scripted-api.ts';
import { runProgram } from './system/programs.ts';

let project: PackedProject;
beforeAll(() => {
  project = makePackedProject();
}, 120_000);
afterAll(() => project?.remove());

test('the tarball has the built client and no sources', () => {
  expect(project.files).toContain('dist/binding.js');
  expect(project.files).toContain('dist/binding.d.ts');
  const others = project.files.filter((path) => !/^dist\/binding(\/[a-z-]+)?\.(js|d\.ts)$/.test(path));
  expect(others.sort()).toEqual(['LICENSE', 'README.md', 'package.json']);
});

test('the client imports nothing but Node’s own', () => {
  const imports = project.files
    .filter((path) => path.endsWith('.js'))
    .flatMap((path) => [
      ...readFileSync(join(project.folder, 'node_modules/postern', path), 'utf8').matchAll(/from '([^']+)'/g),
    ])
    .map((match) => match[1] ?? '');
  expect(imports.length).toBeGreaterThan(2);
  expect(imports.filter((name) => !/^(node:|\.\/)/.test(name))).toEqual([]);
});

test('the types hold for a strict program', async () => {
  mkdirSync(join(project.folder, 'node_modules/@types'), { recursive: true });
  for (const name of ['@types/node', 'undici-types'])
    symlinkSync(join(projectRoot, 'node_modules', name), join(project.folder, 'node_modules', name));
  writeFileSync(
    join(project.folder, 'tsconfig.json'),
    JSON.stringify({
      compilerOptions: {
        strict: true,
        exactOptionalPropertyTypes: true,
        module: 'nodenext',
        target: 'es2023',
        types: ['node'],
        noEmit: true,
      },
      files: ['use.ts'],
    }),
  );
  const use = (line: string) => `import { createEmailBinding, EmailError, type EmailMessage } from 'postern/binding';
const email = createEmailBinding({ endpoint: 'http://127.0.0.1:8080', token: 't', account: 'dev' });
const to: EmailMessage['to'] = [{ email: 'a@example.net', name: undefined }, 'b@example.net'];
${line}
export const code = (error: unknown): string => (error instanceof EmailError ? error.code : '');
`;
  const check = async (line: string) => {
    writeFileSync(join(project.folder, 'use.ts'), use(line));
    return await runProgram(process.execPath, [join(projectRoot, 'node_modules/@typescript/native/bin/tsc')], {
      cwd: project.folder,
    });
  };
  const good = `const { messageId } = await email.send({ to, from: 'c@example.com', subject: 's', text: 't' });
export const id: string = messageId;`;
  expect(await check(good)).toEqual({ code: 0, output: '' });
  const bad = await check(`await email.send({ to, from: 'c@example.com', subject: 5, text: 't' });`);
  expect(bad.output).toMatch(/use\.ts.*TS2322.*string/);
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
