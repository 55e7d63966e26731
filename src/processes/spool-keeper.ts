// Keeps the process that has the spool running, where several processes share one in SQLite.

import { type ChildProcess, fork } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { ConfigurationError } from '../base/errors.ts';
import type { Logger } from '../base/log.ts';
import type { Config } from '../config.ts';
import type { FromSpoolProcess, ToSpoolProcess } from '../spool/sqlite/remote/spool-process.ts';
import { spoolDataOf } from '../wiring/open-spool.ts';
import { RestartDelay } from './restart-delay.ts';
import { defaultMostStopped, isStopped, lookEveryMs } from './stopped.ts';

/** The longest path of a Unix socket, in octets (unix(7)). */
const longestPath = 107;

/** How long the process may take to end, in milliseconds; then it is killed. */
const defaultEndMs = 5000;

/** The process that has the spool. */
export interface SpoolKeeper {
  readonly socket: string;
  /** Resolves when the spool is open; later, when it is open again. */
  opened(): Promise<void>;
  /** Ends the process, once the others have ended. */
  stop(): Promise<void>;
  kill(): void;
}

/** Starts a process for the spool. */
function startProcess(): ChildProcess {
  const file = new URL('../spool/sqlite/remote/spool-process.ts', import.meta.url);
  // Not a part of the group that node:cluster makes: it listens nowhere but at its socket.
  return fork(file, [], { serialization: 'advanced' });
}

/** Kills a process that is stopped while all others wait for it. */
function watchStopped(child: ChildProcess, log: Logger, everyMs: number): void {
  let stopped = 0;
  const { pid } = child;
  const looking = setInterval(() => {
    stopped = pid !== undefined && isStopped(pid) ? stopped + 1 : 0;
    if (stopped < defaultMostStopped) return;
    log.error({ pid, silentMs: stopped * everyMs }, 'the process of the spool is stopped: it is killed');
    child.kill('SIGKILL');
  }, everyMs).unref();
  child.once('exit', () => clearInterval(looking));
}

/** Waits until a process says that the spool is open. @throws Error with the reason where it cannot be opened */
function untilOpen(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    let reason = 'The process of the spool ended while it started';
    child.on('message', (message: FromSpoolProcess) => {
      if (message.kind === 'open') resolve();
      else ({ reason } = message);
    });
    child.once('error', reject);
    child.once('exit', () => reject(new Error(reason)));
  });
}

/**
 * Makes the keeper. It starts its process at once, and again whenever it ends by itself; the processes that used the spool end
 * with it and are started again, too.
 * @param times.endMs how long the process may take to end, in milliseconds; then it is killed, which loses nothing of what is on disk
 * @param times.everyMs how often it is looked whether the process is stopped, in milliseconds; found so three times in a row it is
 *   killed
 * @throws ConfigurationError where the data folder has too long a name
 */
export function keepSpool(
  config: Config,
  log: Logger,
  { endMs = defaultEndMs, everyMs = lookEveryMs }: { readonly endMs?: number; readonly everyMs?: number } = {},
): SpoolKeeper {
  const socket = join(config.dataDir, 'spool.sock');
  if (Buffer.byteLength(socket) > longestPath) {
    throw new ConfigurationError(`${config.dataDir}: is too long a name for a data folder of several processes`);
  }
  const delay = new RestartDelay();
  let child: ChildProcess;
  let isStopping = false;
  let timer: NodeJS.Timeout | undefined;
  let opening: Promise<void>;
  let since = 0;

  function start(): void {
    child = startProcess();
    watchStopped(child, log, everyMs);
    since = performance.now();
    const { pid } = child;
    rmSync(socket, { force: true });
    const order: ToSpoolProcess = { kind: 'open', data: spoolDataOf(config), path: socket };
    child.send(order, () => undefined);
    opening = untilOpen(child);
    // Whoever waits is told; without anybody it is told by what follows.
    opening.catch(() => undefined);
    const again = (code: number | null, signal: string | null): void => {
      if (isStopping) return;
      const againInMs = delay.next(performance.now() - since);
      log.error({ pid, code, signal, againInMs }, 'the process of the spool has ended: it is started again');
      timer = setTimeout(start, againInMs);
    };
    child.once('exit', again);
    // Where the system has no place for another process, none has ended.
    child.on('error', () => void (pid === undefined && again(null, null)));
  }

  start();
  return {
    socket,
    opened: () => opening,
    async stop() {
      isStopping = true;
      clearTimeout(timer);
      if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
      const { pid } = child;
      const ended = new Promise((resolve) => child.once('exit', resolve));
      child.send({ kind: 'end' } satisfies ToSpoolProcess, () => undefined);
      const patience = setTimeout(() => {
        log.error({ pid }, 'the process of the spool did not end in time: it is killed');
        child.kill('SIGKILL');
      }, endMs);
      await ended;
      clearTimeout(patience);
    },
    kill: () => void child.kill('SIGKILL'),
  };
}
