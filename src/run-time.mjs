// How Node runs the program: with how much room for young objects, and with what it has compiled of our files before. `npm start`,
// the systemd unit and the image all start by start.mjs, so this is the one place where it stands. docs/performance.md has
// what was measured.

import { lstatSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import module from 'node:module';
import { join, resolve } from 'node:path';

/**
 * What V8 is told from the beginning; src/base/load/compiled-code.ts sets the rest once the server is open.
 * Half of the room for young objects of each thread, in MiB. Left to itself it grows to 32 under load and stays there, without a
 *   message more a second.
 */
const heapOptions = ['--max-semi-space-size=8'];

/** Pools that glibc keeps memory in, for all threads together: with one for each thread, what one has freed helps no other. */
const pools = '2';

/** Files in the folder of one version of Node at most: several releases of ours. With more it is emptied. */
const mostFiles = 4000;

/** `dataDir` as the configuration has it: the variable, the file's line, or the default. What reads YAML is not loaded yet. */
function dataDir(args, env) {
  if (env.POSTERN_DATA_DIR) return env.POSTERN_DATA_DIR;
  const at = args.findIndex((arg) => arg === '--config' || arg.startsWith('--config='));
  const named = at < 0 ? undefined : (args[at].split('=', 2)[1] ?? args[at + 1]);
  const file = named ?? (env.POSTERN_CONFIG || 'config/postern.yaml');
  // What comes through a pipe can be read once, and the program reads it.
  if (!statSync(file).isFile()) return undefined;
  const text = readFileSync(file, 'utf8');
  const line = /^dataDir:[ \t]+(?:"([^"\\\n]+)"|'([^'\n]+)'|([^\s#"'&*!|>{[][^\s#]*))[ \t]*(?:#.*)?$/m.exec(text);
  if (line) return line[1] ?? line[2] ?? line[3];
  // Where it is written in another way, nothing is guessed.
  return text.includes('dataDir') ? undefined : 'data';
}

/** Whether a folder is ours alone: whoever else could write there could have us run anything. */
function isOurs(folder) {
  const found = lstatSync(folder);
  return found.isDirectory() && found.uid === process.getuid?.() && (found.mode & 0o022) === 0;
}

/** Removes what other versions of Node have left, and everything where it has become too much. */
function tidy(folder) {
  for (const name of readdirSync(folder)) {
    const path = join(folder, name);
    const isUsed = name.startsWith(`${process.version}-`) && readdirSync(path).length <= mostFiles;
    if (!isUsed) rmSync(path, { recursive: true, force: true });
  }
}

/**
 * The folder under dataDir where Node keeps what it has compiled of our files, and the types taken out; undefined where none is to be
 * used. Whatever is wrong with it (read-only, full, somebody else's), the program starts without it.
 */
function cacheFolder(args, env, isServer) {
  if (env.NODE_COMPILE_CACHE || env.NODE_DISABLE_COMPILE_CACHE) return undefined;
  try {
    const data = dataDir(args, env);
    if (!data) return undefined;
    const folder = resolve(data, 'compile-cache');
    // The other commands use a folder that is there.
    if (isServer) mkdirSync(folder, { recursive: true, mode: 0o700 });
    if (!isOurs(resolve(data)) || !isOurs(folder)) return undefined;
    if (isServer) tidy(folder);
    return folder;
  } catch {
    return undefined;
  }
}

/** Starts the same process anew with the options that nobody has set. It returns only where that cannot be done or need not be. */
function startAnew(env) {
  const given = [...process.execArgv, env.NODE_OPTIONS ?? ''].join(' ').replaceAll('_', '-');
  const wanted = heapOptions.filter((option) => !given.includes(option.split('=', 1)[0] ?? option));
  // What was started with a channel to its parent would lose it.
  if (wanted.length === 0 || process.send) return;
  env.MALLOC_ARENA_MAX ??= pools;
  try {
    const options = [...wanted, ...process.execArgv];
    process.execve?.(process.execPath, [process.argv0, ...options, ...process.argv.slice(1)], env);
  } catch {
    // It runs on as it is.
  }
}

/**
 * Sets up this process.
 * @param args of the command line
 * @param env of the process; gets what its threads and processes need
 */
export function setUpRunTime(args, env) {
  const isServer = (args[0] ?? 'serve') === 'serve';
  const folder = cacheFolder(args, env, isServer);
  // Threads look there too, and the processes that share the work.
  if (folder) env.NODE_COMPILE_CACHE = folder;
  if (isServer) startAnew(env);
  if (folder) module.enableCompileCache(folder);
}
