// Builds the project's image and runs it as an engine would, without an engine: buildah builds, crun runs the bundle
// that the image's own settings describe, in namespaces of its own, reached over a veth pair. Needs root.

import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, realpath, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/** Where the base's image store is kept between runs, and the folders of runs. */
const workFolder = '/var/tmp/postern-image-test';
const scripts = join(import.meta.dirname, '../system/image');

/** What a program ended with. */
export interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program to its end, at most 5 minutes, and never rejects for its exit code; `input` is its standard input. */
export function execute(program: string, args: readonly string[], input = ''): Promise<Ended> {
  return new Promise((resolve) => {
    const child = execFile(
      program,
      [...args],
      { maxBuffer: 1 << 26, timeout: 300_000, encoding: 'utf8' },
      (error, stdout, stderr) => {
        const code = error === null ? 0 : typeof error.code === 'number' ? error.code : 1;
        resolve({ code, stdout, stderr: error && stderr === '' ? error.message : stderr });
      },
    );
    child.stdin?.on('error', () => undefined); // the program may end without reading: its exit code tells
    child.stdin?.end(input);
  });
}

/** Like `execute`, but rejects with what the program said unless it exits 0; gives its standard output. */
export async function executeOrFail(program: string, args: readonly string[], input = ''): Promise<string> {
  const ended = await execute(program, args, input);
  if (ended.code === 0) return ended.stdout;
  throw new Error(
    `${program} ${args.join(' ')} ended with ${ended.code}:\n${ended.stdout.slice(-4000)}${ended.stderr.slice(-4000)}`,
  );
}

const packageOf = {
  buildah: 'buildah',
  crun: 'crun',
  debootstrap: 'debootstrap',
  curl: 'curl',
  ip: 'iproute2',
  nsenter: 'util-linux',
  unshare: 'util-linux',
  flock: 'util-linux',
} as const satisfies Record<string, string>;

/** Rejects with one line that names what is missing: root, or the Debian packages of the programs. */
export async function requireImageTools(): Promise<void> {
  if (process.getuid?.() !== 0) throw new Error('The image test needs root (debootstrap, mounts, namespaces)');
  const missing = new Set<string>();
  for (const [program, debianPackage] of Object.entries(packageOf)) {
    if ((await execute('sh', ['-c', `command -v ${program}`])).code !== 0) missing.add(debianPackage);
  }
  if (missing.size > 0) {
    throw new Error(`The image test needs: apt-get install --no-install-recommends ${[...missing].join(' ')}`);
  }
}

/** The settings of a built image that an engine goes by. */
export interface ImageConfig {
  readonly User: string;
  readonly Env: readonly string[];
  readonly Entrypoint: readonly string[];
  readonly Cmd: readonly string[];
  readonly WorkingDir: string;
  readonly StopSignal: string;
  readonly Volumes: Readonly<Record<string, unknown>>;
  readonly ExposedPorts: Readonly<Record<string, unknown>>;
  readonly Healthcheck: { readonly Test: readonly string[] };
}

/** A built image with its root file system laid out. */
export interface BuiltImage {
  readonly config: ImageConfig;
  /** Folder of the root file system. */
  readonly rootFolder: string;
  /** A folder for this run's volumes, bundles and state; `remove` removes it. */
  readonly runFolder: string;
  /** Removes the image and all the run left behind. The base's store stays for the next run. */
  remove(): Promise<void>;
}

/**
 * Runs crun with its state under the run's folder and cgroups out of sight: a machine's cgroup layout, which crun may
 * refuse, plays no part in what is tested.
 */
export function crunCommand(runFolder: string, args: readonly string[]): readonly [string, ...string[]] {
  const inner = 'mount -t tmpfs none /sys/fs/cgroup && exec crun "$@"';
  const options = ['--root', join(runFolder, 'crun'), '--cgroup-manager=disabled'];
  return ['unshare', '--mount', '--propagation', 'private', 'sh', '-c', inner, 'crun', ...options, ...args];
}

async function removeRun(runFolder: string): Promise<void> {
  const [program, ...list] = crunCommand(runFolder, ['list', '--quiet']);
  const ids = (await execute(program, list)).stdout.split('\n').filter((id) => id !== '');
  for (const id of ids) {
    const [crun, ...args] = crunCommand(runFolder, ['delete', '--force', id]);
    await execute(crun, args);
  }
  const mounts = (await readFile('/proc/self/mounts', 'utf8')).split('\n').map((line) => line.split(' ', 2)[1] ?? '');
  // What was mounted last lies in what was mounted before.
  for (const place of mounts.filter((one) => one.startsWith(`${runFolder}/`)).toReversed())
    await execute('umount', [place]);
  await rm(runFolder, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false; // ESRCH: there is no such process
  }
}

/** Removes what a run left behind whose process was killed before it could. */
async function removeStaleRuns(): Promise<void> {
  for (const name of await readdir(workFolder)) {
    const pid = /^run-(\d+)-/.exec(name)?.[1];
    if (pid === undefined) continue;
    if (!isRunning(Number(pid))) await removeRun(join(workFolder, name));
  }
}

async function npmFolder(): Promise<string> {
  const fromNpm = process.env['npm_execpath'];
  if (fromNpm?.endsWith('/bin/npm-cli.js')) return dirname(dirname(await realpath(fromNpm)));
  return join((await executeOrFail('npm', ['root', '--global'])).trim(), 'npm');
}

/** Builds the image of this working tree. Some 60 s the first time on a machine, 15 s after that. */
export async function buildImage(): Promise<BuiltImage> {
  await mkdir(workFolder, { recursive: true });
  await removeStaleRuns();
  const runFolder = await mkdtemp(join(workFolder, `run-${process.pid}-`));
  const remove = (): Promise<void> => removeRun(runFolder);
  try {
    const node = await realpath(process.execPath);
    const base = await executeOrFail(join(scripts, 'build-base.sh'), [node, await npmFolder(), workFolder]);
    const [driver = '', baseStore = ''] = base.trim().split(' ');
    const storage = join(runFolder, 'storage');
    await executeOrFail(join(scripts, 'build.sh'), [driver, baseStore, storage, 'postern:test']);
    const store = [
      ...['--root', join(storage, 'root'), '--runroot', join(storage, 'run')],
      ...['--storage-driver', driver, '--storage-opt', `${driver}.imagestore=${baseStore}`],
    ];
    const buildah = async (...args: string[]): Promise<string> =>
      (await executeOrFail('buildah', [...store, ...args])).trim();
    const inspected: { readonly Docker: { readonly config: ImageConfig } } = JSON.parse(
      await buildah('inspect', '--type', 'image', 'postern:test'),
    );
    const container = await buildah('from', '--pull=never', 'postern:test');
    return { config: inspected.Docker.config, rootFolder: await buildah('mount', container), runFolder, remove };
  } catch (error) {
    await remove();
    throw error;
  }
}
