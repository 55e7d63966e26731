// How the program is run: the compile cache under dataDir, whatever is wrong with its folder, and the image's plain JavaScript.

import { execFileSync, spawn } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { captureRoute, deviceConfiguration } from '../support/device-config.ts';
import { projectRoot } from '../support/postern-process.ts';
import { databaseOfFolder } from '../support/postgres-setup.ts';
import { copyTestKeys } from '../support/test-keys.ts';

interface Place {
  readonly folder: string;
  readonly data: string;
  readonly cache: string;
}

function newPlace(): Place {
  const folder = mkdtempSync(join(tmpdir(), 'postern-run-time-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const data = join(folder, 'data');
  mkdirSync(data, { mode: 0o700 });
  copyTestKeys(join(folder, 'certs'));
  const config = deviceConfiguration({ routes: [captureRoute] });
  writeFileSync(join(folder, 'postern.yaml'), JSON.stringify(config));
  return { folder, data, cache: join(data, 'compile-cache') };
}

interface Ran {
  /** What the native part of Node told of its cache. */
  readonly output: string;
  readonly commandLine: string;
  readonly code: number | null;
}

/** Starts by start.mjs as `npm start`, the unit and the image do, and stops it once it listens. */
async function run({ folder, data }: Place, start = join(projectRoot, 'src/start.mjs')): Promise<Ran> {
  const database = await databaseOfFolder(folder);
  const child = spawn(process.execPath, [start, 'serve'], {
    cwd: folder,
    env: {
      PATH: process.env['PATH'],
      HOME: folder,
      NODE_DEBUG_NATIVE: 'COMPILE_CACHE',
      POSTERN_CONFIG: 'postern.yaml',
      POSTERN_DATA_DIR: data,
      POSTERN_CERTS_DIR: join(folder, 'certs'),
      POSTERN_HTTPS_PORT: '',
      ...(database === undefined ? {} : { POSTERN_DATABASE_URL: database }),
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  let commandLine = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
      if (commandLine !== '' || !output.includes('"listening"')) return;
      commandLine = readFileSync(`/proc/${child.pid}/cmdline`, 'utf8');
      child.kill('SIGTERM');
    });
  }
  const code = await new Promise<number | null>((done) => child.once('close', done));
  expect(output, 'it listened').toContain('"listening"');
  return { output, commandLine, code };
}

/** What start.mjs does before it loads the program, in a process of its own. @returns the folder of the cache that is then used */
function setUpAlone({ folder, data }: Place): string | undefined {
  const code = `import { getCompileCacheDir } from 'node:module';
    import { setUpRunTime } from ${JSON.stringify(join(projectRoot, 'src/run-time.mjs'))};
    setUpRunTime(['serve'], process.env);
    process.stdout.write(JSON.stringify([process.env.NODE_COMPILE_CACHE, getCompileCacheDir()]));`;
  // With the option that it would start anew with.
  const args = ['--max-semi-space-size=8', '--input-type=module', '--eval', code];
  const env = { PATH: process.env['PATH'], POSTERN_DATA_DIR: data };
  const [named, used] = JSON.parse(execFileSync(process.execPath, args, { cwd: folder, env, encoding: 'utf8' })) as [
    string | null,
    string | null,
  ];
  expect(used === null).toBe(named === null);
  return named ?? undefined;
}

/** Modules that were compiled or stripped although there is a cache. */
function missed({ output }: Ran): readonly string[] {
  return [...output.matchAll(/reading cache from \S+ for \S+ (\S+?)\.\.\. (?!.*success)(.*)/g)].map(
    ([, url, why]) => `${url}: ${why}`,
  );
}

test('the second start compiles nothing, in no thread, and has the room for young objects that is set in one place', async () => {
  const place = newPlace();
  const first = await run(place);
  expect([first.code, missed(first).length > 100]).toEqual([0, true]);
  expect(first.commandLine).toContain('\0--max-semi-space-size=8\0');
  expect(statSync(place.cache).mode & 0o777).toBe(0o700);
  const second = await run(place);
  expect(second.output).toContain('sqlite-worker.ts');
  expect(missed(second)).toEqual([]);
});

test('what another version of Node has left, and more files than a few releases, are removed', () => {
  const place = newPlace();
  const own = join(place.cache, `${process.version}-x64-0-0`);
  mkdirSync(join(place.cache, 'v24.0.0-x64-1-0'), { recursive: true });
  mkdirSync(own);
  chmodSync(place.cache, 0o700);
  for (let count = 0; count <= 4000; count += 1) writeFileSync(join(own, `${count}`), '');
  expect(setUpAlone(place)).toBe(place.cache);
  expect(existsSync(join(place.cache, 'v24.0.0-x64-1-0'))).toBe(false);
  expect(existsSync(own)).toBe(false);
});

const unusable = {
  'others may write there': ({ cache }: Place) => {
    mkdirSync(cache);
    chmodSync(cache, 0o777);
  },
  'it is a link': ({ folder, cache }: Place) => {
    mkdirSync(join(folder, 'elsewhere'), { mode: 0o700 });
    symlinkSync(join(folder, 'elsewhere'), cache);
  },
  'it is a file': ({ cache }: Place) => writeFileSync(cache, ''),
  'others may write into dataDir': ({ data }: Place) => chmodSync(data, 0o777),
} as const;

test.each(Object.entries(unusable))('the cache is not used where %s', (_why, spoil) => {
  const place = newPlace();
  expect(setUpAlone(place)).toBe(place.cache);
  rmSync(place.cache, { recursive: true });
  spoil(place);
  expect(setUpAlone(place)).toBe(undefined);
});

test.runIf(process.getuid?.() === 0)('the cache is not used where it is another user’s', () => {
  const place = newPlace();
  mkdirSync(place.cache, { mode: 0o700 });
  chownSync(place.cache, 65_534, 65_534);
  expect(setUpAlone(place)).toBe(undefined);
});

test('a configuration that comes through a pipe is left to the program, which reads it once', () => {
  const { folder } = newPlace();
  const command = '"$0" "$1" config show --config <(cat postern.yaml)';
  const env = { PATH: process.env['PATH'], POSTERN_CERTS_DIR: join(folder, 'certs') };
  const args = ['-c', command, process.execPath, join(projectRoot, 'src/start.mjs')];
  expect(execFileSync('bash', args, { cwd: folder, env, encoding: 'utf8' })).toContain('name: devices');
});

test('without the cache it starts', async () => {
  const place = newPlace();
  unusable['others may write there'](place);
  const { output, code } = await run(place);
  expect(code).toBe(0);
  expect(output).not.toContain('compile-cache');
});

test('the plain JavaScript of the image runs, its lines are where they were, and nothing of it is TypeScript', async () => {
  const place = newPlace();
  const app = join(place.folder, 'app');
  mkdirSync(app);
  const make = spawn(process.execPath, [
    ...['--disable-warning=ExperimentalWarning', join(projectRoot, 'deploy/plain-javascript.mjs')],
    ...[join(projectRoot, 'src'), join(app, 'src')],
  ]);
  expect(await new Promise((done) => make.once('close', done))).toBe(0);
  cpSync(join(projectRoot, 'package.json'), join(app, 'package.json'));
  symlinkSync(join(projectRoot, 'node_modules'), join(app, 'node_modules'));
  const files = readdirSync(join(app, 'src'), { recursive: true, encoding: 'utf8' });
  expect(files.filter((name) => name.endsWith('.ts') && !name.startsWith('web/console/web/'))).toEqual([]);
  const lines = (file: string): number => readFileSync(file, 'utf8').split('\n').length;
  for (const name of files.filter((each) => each.endsWith('.js'))) {
    const made = join(app, 'src', name);
    const source = join(projectRoot, 'src', name.replace(/js$/, 'ts'));
    expect(lines(made), name).toBe(lines(source));
    for (const [, target = ''] of readFileSync(made, 'utf8').matchAll(/['"](\.{1,2}\/[^'"\n]+\.(?:js|ts|mjs))['"]/g))
      expect(existsSync(join(made, '..', target)), `${name} names ${target}`).toBe(true);
  }
  const { output, code } = await run(place, join(app, 'src/start.mjs'));
  expect(code).toBe(0);
  expect(output).not.toContain('StrippedTypeScript');
});
