// Programs that run beside a test: servers that are started, killed, and started again.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';

/** A program that runs until it is ended, or the test is. */
export interface RunningProgram {
  /** Sends a signal and waits for the end. */
  end(signal?: 'SIGTERM' | 'SIGKILL'): Promise<void>;
  /** Standard output and error so far. */
  output(): string;
  /** Settles when it has ended. */
  readonly ended: Promise<unknown>;
}

/** Starts a program. */
export function startProgram(command: string, args: readonly string[]): RunningProgram {
  const child: ChildProcess = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding('utf8').on('data', (text: string) => (output += text));
  const closed = once(child, 'close');
  const end = async (signal: 'SIGTERM' | 'SIGKILL' = 'SIGTERM'): Promise<void> => {
    child.kill(signal);
    await closed;
  };
  onTestFinished(() => end('SIGKILL'));
  return { end, output: () => output, ended: closed };
}

/** Waits until something takes connections at a port of 127.0.0.1; the test's own time limit ends it. */
export async function takesConnections(port: number): Promise<void> {
  for (;;) {
    const probe = connect({ port, host: '127.0.0.1' });
    const isUp = await new Promise<boolean>((resolve) => {
      probe.once('connect', () => resolve(true));
      probe.once('error', () => resolve(false));
    });
    probe.destroy();
    if (isUp) return;
    await new Promise((wait) => setTimeout(wait, 50));
  }
}

/** An HTTP server of Python that serves a folder. */
export async function startPythonHttp(folder: string, port: number): Promise<RunningProgram> {
  const program = startProgram('python3', ['-m', 'http.server', `${port}`, '--bind', '127.0.0.1', '-d', folder]);
  await takesConnections(port);
  return program;
}

/** HAProxy with frontends and backends of a test's own, once it takes connections at the first `bind`. */
export async function startHaproxy(folder: string, sections: readonly string[]): Promise<RunningProgram> {
  const file = join(folder, 'haproxy.cfg');
  const timeouts = ['connect', 'client', 'server'].map((name) => `  timeout ${name} 10s`);
  writeFileSync(file, ['defaults', '  mode http', ...timeouts, ...sections, ''].join('\n'));
  const port = /^ {2}bind 127\.0\.0\.1:(\d+)/m.exec(sections.join('\n'))?.[1];
  const program = startProgram('haproxy', ['-db', '-f', file]);
  await takesConnections(Number(port));
  return program;
}
