// What a Postern process has open, as /metrics and the system tell it: a test looks before and afterwards.

import { readdirSync, readFileSync } from 'node:fs';
import { get, type IncomingMessage } from 'node:http';
import { text as textOf } from 'node:stream/consumers';
import type { PosternProcess } from './postern-process.ts';

/** Gauges by name and labels, active resources of Node by type (timers and sockets among them), and `descriptors`. */
export type OpenThings = ReadonlyMap<string, number>;

/** Over a connection of its own that is closed behind it: one that is kept would be counted as the gateway's. */
async function metricsOf(port: number): Promise<string> {
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    get({ host: '127.0.0.1', port, path: '/metrics', agent: false }, resolve).on('error', reject);
  });
  return textOf(answer);
}

/** Gauges that say how something is, not how much of it is open. */
const isNoCount = /_(?:limit|failed|free_bytes|takes_mail|origins)|status|expire/;

/** Reads every gauge of Postern's own and what Node and the system hold for the process. */
export async function openThings({ pid, ports }: Pick<PosternProcess, 'pid' | 'ports'>): Promise<OpenThings> {
  const text = await metricsOf(ports['http'] ?? 0);
  const gauges = new Set([...text.matchAll(/^# TYPE (postern_\S+) gauge$/gm)].map(([, name]) => name));
  const open = new Map<string, number>();
  for (const [, series = '', name, value] of text.matchAll(/^((\w+)(?:\{.*\})?) (\S+)$/gm)) {
    const isNodes = series.startsWith('nodejs_active_resources{') && !series.includes('Immediate');
    if (isNodes || (gauges.has(name) && !isNoCount.test(series))) open.set(series, Number(value));
  }
  return open.set('descriptors', readdirSync(`/proc/${pid}/fd`).length);
}

/** What there is more of than before, in words. */
export function moreThan(before: OpenThings, now: OpenThings): readonly string[] {
  return [...now].flatMap(([name, count]) => {
    const then = before.get(name) ?? 0;
    return count > then ? [`${name}: ${then} before, ${count} now`] : [];
  });
}

/** Resident memory of a process now, MiB. */
export function residentMib(pid: number): number {
  const kib = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1];
  return Math.round(Number(kib ?? Number.NaN) / 1024);
}
