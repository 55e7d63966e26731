// A gateway that a case of growth measures: what a batch of messages costs it, its memory, and what its start takes.

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type PosternUnderTest, startPostern, type UnderTestOptions } from '../postern-under-test.ts';
import { cpuSeconds, peakMebibytes, residentMebibytes } from '../process-usage.ts';
import { runSmtpLoad, type SmtpJob } from '../smtp-load.ts';
import { sinkPort, startSink } from '../smtp-sink.ts';

/** Messages of one kind. */
export interface Batch extends Partial<Omit<SmtpJob, 'file' | 'port'>> {
  readonly messages: number;
  /** A whole message with line ends of CRLF, in place of plain text. */
  readonly text?: string;
}

/** What a message of a batch costs. */
export interface BatchCost {
  /** Microseconds of CPU of all threads, delivery to the next hop with it. */
  readonly cpu: number;
  /** Milliseconds from the final dot to the reply: the middle, and 99 of 100. */
  readonly p50: number;
  readonly p99: number;
  /** By how much the resident memory grew at its peak, MiB. */
  readonly mebibytes: number;
  readonly refusal?: string | undefined;
}

/** Resident size now, MiB, the peak being set back to it (proc(5), clear_refs). */
export function settledMebibytes(pid: number): number {
  writeFileSync(`/proc/${pid}/clear_refs`, '5');
  return residentMebibytes(pid);
}

/** Waits until the gateway does nothing more: a fifth of a second with next to no CPU, twice. */
export async function untilIdle(pid: number): Promise<void> {
  let calm = 0;
  const deadline = performance.now() + 120_000;
  for (let before = cpuSeconds(pid); calm < 2 && performance.now() < deadline; ) {
    await sleep(200);
    const now = cpuSeconds(pid);
    calm = now - before < 0.015 ? calm + 1 : 0;
    before = now;
  }
}

/** Sends a batch and waits until it is delivered. */
export async function costOf(postern: PosternUnderTest, { text, ...batch }: Batch): Promise<BatchCost> {
  const file = join(postern.folder, 'message');
  if (text !== undefined) writeFileSync(file, text, 'latin1');
  const before = settledMebibytes(postern.pid);
  const cpu = cpuSeconds(postern.pid);
  const job = { port: postern.port, sessions: 4, ...batch, ...(text === undefined ? {} : { file }) };
  const { p50, p99, refusal } = await runSmtpLoad(job);
  await untilIdle(postern.pid);
  return {
    cpu: ((cpuSeconds(postern.pid) - cpu) / batch.messages) * 1e6,
    mebibytes: peakMebibytes(postern.pid) - before,
    ...{ p50, p99, refusal },
  };
}

/** A gateway that sends to a sink, with as many messages behind it as let V8 compile what the others run. */
export async function warmGateway(options: Partial<UnderTestOptions> = {}, messages = 2000): Promise<PosternUnderTest> {
  const sink = startSink();
  let postern: PosternUnderTest | undefined;
  const stop = async (): Promise<void> => {
    await postern?.stop();
    sink.stop();
  };
  try {
    postern = await startPostern({ sinkPort, platformSignature: false, journal: { content: 'none' }, ...options });
    await runSmtpLoad({ port: postern.port, messages, sessions: 10 });
    await untilIdle(postern.pid);
    return { ...postern, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** What a start takes, and the gateway that has started. */
export interface Start {
  readonly postern: PosternUnderTest;
  readonly readyMs: number;
  readonly cpuMs: number;
  /** Resident memory two seconds later. */
  readonly mebibytes: number;
}

/** Starts a gateway whose cache of compiled code is full. */
export async function timedStart(options: Partial<UnderTestOptions>): Promise<Start> {
  const began = performance.now();
  const postern = await startPostern({ sinkPort, platformSignature: false, journal: { content: 'none' }, ...options });
  const readyMs = performance.now() - began;
  const cpuMs = cpuSeconds(postern.pid) * 1000;
  await sleep(2000);
  return { postern, readyMs, cpuMs, mebibytes: residentMebibytes(postern.pid) };
}

/** The first line of an error that tells something: what a configuration is refused with. */
export function refusalOf(error: unknown): string {
  const lines = String(error).split('\n');
  const line = lines.find((one) => /want|at most|limit|must/.test(one)) ?? lines[0] ?? '';
  return line
    .replace(/^.*?\.yaml[^ ]*: /, '')
    .trim()
    .slice(0, 160);
}
