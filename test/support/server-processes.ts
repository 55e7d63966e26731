// What tests ask of a server of several processes: which run, and what all of them together tell.

import { readdirSync, readFileSync } from 'node:fs';
import type { PosternProcess } from './postern-process.ts';
import { RawClient } from './smtp-peers.ts';

/** The processes that take connections now, by the log: their pids by their numbers. */
export function servingPids(postern: PosternProcess): ReadonlyMap<number, number> {
  const pids = new Map<number, number>();
  for (const { msg, process: number, pid } of postern.log()) {
    if (msg === 'a process takes connections') pids.set(Number(number), Number(pid));
    if (msg === 'a process has ended: it is started again') pids.delete(Number(number));
  }
  return pids;
}

/** The processes that a process has started and that still run. */
export function childrenOf(pid: number): readonly number[] {
  return readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
    readFileSync(`/proc/${pid}/task/${thread}/children`, 'latin1').split(' ').filter(Boolean).map(Number),
  );
}

/** Whether a process still runs. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

async function get(postern: PosternProcess, path: string): Promise<Response> {
  // A connection each: those that wait in an agent stay with one process.
  return await fetch(`http://127.0.0.1:${postern.ports['http']}${path}`, { headers: { connection: 'close' } });
}

/** The status of /readyz. */
export async function readyStatus(postern: PosternProcess): Promise<number> {
  return (await get(postern, '/readyz')).status;
}

/** The numbers of /metrics, by the name with its labels as it stands there. */
export async function readNumbers(postern: PosternProcess): Promise<ReadonlyMap<string, number>> {
  const text = await (await get(postern, '/metrics')).text();
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(
    lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))]),
  );
}

/** Sends a message by a connection of its own. @returns the reply to its end, or to what was refused before */
export async function sendOne(
  port: number,
  subject = 'x',
  to = 'b@example.net',
  from = 'a@example.com',
): Promise<string> {
  const client = RawClient.open(port);
  try {
    const greeting = await client.reply();
    if (!greeting.startsWith('220')) return greeting;
    for (const line of ['EHLO client.example', `MAIL FROM:<${from}>`, `RCPT TO:<${to}>`, 'DATA']) {
      const reply = await client.ask(line);
      if (!/^[23]/.test(reply)) return reply;
    }
    return await client.ask(`From: ${from}\r\nTo: ${to}\r\nSubject: ${subject}\r\n\r\nx\r\n.`);
  } finally {
    client.destroy();
  }
}
