// Debian's smtp-sink (of Postfix): an SMTP server that takes everything, without 8BITMIME, each message in a file.

import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { freePort } from './free-port.ts';

/** A running smtp-sink. */
export interface SmtpSink {
  readonly port: number;
  /** The messages so far, with line ends as on the wire, below some fields of its own. */
  messages(): readonly Buffer[];
  stop(): Promise<void>;
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('error', () => resolve(false));
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
  });
}

/** Starts one on a free port of loopback. */
export async function startSmtpSink(): Promise<SmtpSink> {
  const folder = mkdtempSync('/tmp/postern-sink-');
  execFileSync('chown', ['nobody:', folder]);
  const port = await freePort();
  const child = spawn('smtp-sink', ['-8', '-u', 'nobody', '-R', folder, '-d', 'message.', `127.0.0.1:${port}`, '50'], {
    stdio: 'ignore',
  });
  const ended = new Promise<void>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', () => resolve());
  });
  for (let waitedMs = 0; !(await isListening(port)); waitedMs += 50) {
    if (waitedMs > 10_000 || child.exitCode !== null) throw new Error(`smtp-sink does not listen on ${port}`);
    await new Promise((wait) => setTimeout(wait, 50));
  }
  return {
    port,
    messages: () =>
      readdirSync(folder).map((name) =>
        Buffer.from(readFileSync(join(folder, name), 'latin1').replaceAll(/\r?\n/g, '\r\n'), 'latin1'),
      ),
    stop: async () => {
      child.kill();
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
