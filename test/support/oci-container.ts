// Runs a built image as `docker run --read-only --cap-drop ALL --security-opt no-new-privileges --tmpfs /tmp` would:
// crun, read-only root, no capability, own pid, mount and network namespaces, the network joined by a veth pair.

import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes, randomInt } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type BuiltImage, crunCommand, type Ended, execute, executeOrFail } from './oci-image.ts';

/** A running container. */
export interface Container {
  /** Its IP address, reached from this machine as a published port is from outside. */
  readonly address: string;
  /** What it has written to standard output and standard error so far. */
  output(): string;
  /** Runs a program inside, as its user; `env` is set besides the image's. */
  exec(args: readonly string[], env?: Readonly<Record<string, string>>): Promise<Ended>;
  /** Sends a signal to its process 1 and gives the exit code; rejects when it has not ended within `timeoutMs`. */
  stop(signal: string, timeoutMs: number): Promise<number>;
  /** Ends it in whatever state it is. */
  kill(): Promise<void>;
}

/** What a container is run with. */
export interface RunOptions {
  /** Folders of this machine by mount point; they are given to the image's user. */
  readonly volumes: Readonly<Record<string, string>>;
  /** Files of this machine by mount point, read-only. */
  readonly files?: Readonly<Record<string, string>>;
  readonly env: Readonly<Record<string, string>>;
  /** In place of the image's command. */
  readonly args?: readonly string[];
}

async function userOf(image: BuiltImage): Promise<{ readonly uid: number; readonly gid: number }> {
  const passwd = await readFile(join(image.rootFolder, 'etc/passwd'), 'utf8');
  const entry = passwd.split('\n').find((line) => line.startsWith(`${image.config.User}:`));
  const [, , uid, gid] = (entry ?? '').split(':');
  if (uid === undefined || gid === undefined) throw new Error(`No user "${image.config.User}" in the image`);
  return { uid: Number(uid), gid: Number(gid) };
}

function bundleConfig(image: BuiltImage, user: { uid: number; gid: number }, options: RunOptions): object {
  const { config, rootFolder } = image;
  const env = Object.entries(options.env).map(([name, value]) => `${name}=${value}`);
  return {
    ociVersion: '1.0.2',
    process: {
      terminal: false,
      user,
      cwd: config.WorkingDir,
      env: [...config.Env, ...env],
      args: [...config.Entrypoint, ...(options.args ?? config.Cmd)],
      capabilities: {},
      noNewPrivileges: true,
    },
    root: { path: rootFolder, readonly: true },
    hostname: 'postern',
    mounts: [
      { destination: '/proc', type: 'proc', source: 'proc' },
      { destination: '/dev', type: 'tmpfs', source: 'tmpfs', options: ['nosuid', 'mode=755', 'size=64k'] },
      { destination: '/tmp', type: 'tmpfs', source: 'tmpfs', options: ['nosuid', 'nodev', 'mode=1777', 'size=64m'] },
      ...Object.entries(options.volumes).map(([destination, source]) => ({
        destination,
        type: 'bind',
        source,
        options: ['rbind', 'rw', 'nosuid', 'nodev'],
      })),
      ...Object.entries(options.files ?? {}).map(([destination, source]) => ({
        destination,
        type: 'bind',
        source,
        options: ['bind', 'ro', 'nosuid', 'nodev'],
      })),
    ],
    linux: { namespaces: ['pid', 'mount', 'ipc', 'uts', 'network'].map((type) => ({ type })) },
  };
}

async function until<T>(what: string, child: ChildProcess, attempt: () => Promise<T | undefined>): Promise<T> {
  for (let waitedMs = 0; waitedMs < 60_000; waitedMs += 100) {
    const result = await attempt();
    if (result !== undefined) return result;
    if (child.exitCode !== null) throw new Error(`The container ended with ${child.exitCode} before ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`The container had not come to ${what} after 60 s`);
}

/** Joins the container's network to this machine's by a veth pair; gives the container's address. */
async function joinNetwork(pid: number, link: string): Promise<string> {
  // 198.18.0.0/15 is set aside for tests of network devices (RFC 2544).
  const net = `198.18.${randomInt(256)}`;
  const first = randomInt(63) * 4;
  const inside = ['--target', String(pid), '--net', 'ip'];
  await executeOrFail('ip', ['link', 'add', link, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', String(pid)]);
  await executeOrFail('ip', ['address', 'add', `${net}.${first + 1}/30`, 'dev', link]);
  await executeOrFail('ip', ['link', 'set', link, 'up']);
  await executeOrFail('nsenter', [...inside, 'address', 'add', `${net}.${first + 2}/30`, 'dev', 'eth0']);
  await executeOrFail('nsenter', [...inside, 'link', 'set', 'eth0', 'up']);
  return `${net}.${first + 2}`;
}

interface Bundle {
  readonly id: string;
  readonly folder: string;
  readonly user: { readonly uid: number; readonly gid: number };
}

/** Writes what crun runs, and gives the volumes to the image's user. */
async function makeBundle(image: BuiltImage, options: RunOptions): Promise<Bundle> {
  const id = `c${randomBytes(4).toString('hex')}`;
  const user = await userOf(image);
  const folder = join(image.runFolder, 'bundles', id);
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'config.json'), JSON.stringify(bundleConfig(image, user, options)));
  for (const volume of Object.values(options.volumes)) {
    await mkdir(volume, { recursive: true });
    await executeOrFail('chown', [`${user.uid}:${user.gid}`, volume]);
  }
  return { id, folder, user };
}

/** Runs the image to its own end, without a network. */
export async function runToEnd(image: BuiltImage, options: RunOptions): Promise<Ended> {
  const { id, folder } = await makeBundle(image, options);
  const [program, ...args] = crunCommand(image.runFolder, ['run', '--bundle', folder, id]);
  return execute(program, args);
}

/** Starts the image's own command. Resolves once process 1 runs and its network is up, not yet ready to serve. */
export async function runContainer(image: BuiltImage, options: RunOptions): Promise<Container> {
  const { id, folder: bundle, user } = await makeBundle(image, options);
  const link = `pt-${id}`;
  const crun = (...args: string[]): readonly [string, ...string[]] => crunCommand(image.runFolder, args);
  const [program, ...args] = crun('run', '--bundle', bundle, id);
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const ended = new Promise<number>((resolve) => child.once('close', (code) => resolve(code ?? -1)));

  const kill = async (): Promise<void> => {
    const [deleteProgram, ...deleteArgs] = crun('delete', '--force', id);
    await execute(deleteProgram, deleteArgs);
    await ended;
    await execute('ip', ['link', 'delete', link]); // gone with the namespace, which the kernel frees in its own time
  };
  try {
    const pid = await until('running', child, async () => {
      const [stateProgram, ...stateArgs] = crun('state', id);
      const state = await execute(stateProgram, stateArgs);
      if (state.code !== 0) return undefined;
      const { pid, status }: { readonly pid: number; readonly status: string } = JSON.parse(state.stdout);
      return status === 'running' ? pid : undefined;
    });
    const address = await joinNetwork(pid, link);
    return {
      address,
      output: () => output,
      exec: (args, env = {}) => {
        // crun takes root and the given environment in place of the container's own, so these are given too.
        const added = Object.entries({ ...options.env, ...env }).map(([name, value]) => `${name}=${value}`);
        const settings = [...image.config.Env, ...added].flatMap((setting) => ['--env', setting]);
        const [execProgram, ...execArgs] = crun('exec', '--user', `${user.uid}:${user.gid}`, ...settings, id, ...args);
        return execute(execProgram, execArgs);
      },
      stop: async (signal, timeoutMs) => {
        const [killProgram, ...killArgs] = crun('kill', id, signal);
        await executeOrFail(killProgram, killArgs);
        let timer: NodeJS.Timeout | undefined;
        const late = new Promise<never>((_, reject) => {
          timer = setTimeout(
            () => reject(new Error(`Still running ${timeoutMs} ms after ${signal}:\n${output}`)),
            timeoutMs,
          );
        });
        return Promise.race([ended, late]).finally(() => clearTimeout(timer));
      },
      kill,
    };
  } catch (error) {
    await kill();
    throw new Error(`The container did not start:\n${output}`, { cause: error });
  }
}
