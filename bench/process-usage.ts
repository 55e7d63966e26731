// What the system's own accounting says of a process (proc(5)).

import { readdirSync, readFileSync } from 'node:fs';
import { loadavg } from 'node:os';

const ticksPerSecond = 100; // USER_HZ, which is 100 on every Linux that Node runs on

/** The processes that a process has started and that still run. */
export function childrenOf(pid: number): readonly number[] {
  return readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
    readFileSync(`/proc/${pid}/task/${thread}/children`, 'latin1').split(' ').filter(Boolean).map(Number),
  );
}

/** CPU seconds of a process with all its threads and of the processes that it has started, user and system. */
export function cpuSeconds(pid: number): number {
  const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const own = (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
  return childrenOf(pid).reduce((sum, child) => sum + cpuSeconds(child), own);
}

/** The largest resident size so far of a process and of those that it has started, each at its own largest, MiB. */
export function peakMebibytes(pid: number): number {
  const match = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'latin1'));
  const own = Number(match?.[1] ?? 0) / 1024;
  return childrenOf(pid).reduce((sum, child) => sum + peakMebibytes(child), own);
}

/** The middle of some figures. */
export function median(figures: readonly number[]): number {
  const sorted = [...figures].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1
    ? (sorted[middle] ?? Number.NaN)
    : ((sorted[middle - 1] ?? 0) + (sorted[middle] ?? 0)) / 2;
}

/** The figure below which such a part of them lies; 0 where there are none. */
export function percentileOf(figures: readonly number[], part: number): number {
  const sorted = figures.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0;
}

/** Resident memory of a process now, MiB. */
export function residentMebibytes(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1]) / 1024;
}

/** What the machine does beside, and whether that is too much for figures that mean something. */
export function loadWarning(): string {
  const load = loadavg()[0] ?? 0;
  return `load average ${load.toFixed(1)}${load > 1 ? ': ABOVE 1, this machine is busy, and the figures say little' : ''}`;
}
