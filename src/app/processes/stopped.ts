// Whether somebody has stopped a process (SIGSTOP): it does nothing until it is told to go on, and keeps every lock that it has.

import { readFileSync } from 'node:fs';

/** How often in a row a process must be found stopped to be killed. The stop of a terminal (Ctrl-Z) stops its supervisor as well. */
export const defaultMostStopped = 3;
/** How long is between two looks at a process, in milliseconds. */
export const lookEveryMs = 2500;

/**
 * Whether a process is stopped now, by what Linux tells of it (`T` in /proc/PID/stat, proc_pid_stat(5)). One that a debugger has
 * stopped (`t`) is not meant. False where that cannot be read, as on other systems.
 */
export function isStopped(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The name before the state is in brackets and may have brackets in it.
    return stat.slice(stat.lastIndexOf(')') + 2).startsWith('T');
  } catch {
    return false;
  }
}
