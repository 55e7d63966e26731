// The next hop of every measurement: Postfix's smtp-sink, which takes mail and throws it away (Debian package postfix).

import { spawn } from 'node:child_process';

/** Where it listens, on loopback: 2600, or another where several measurements run at once. */
export const sinkPort = Number(process.env['POSTERN_BENCH_SINK_PORT'] ?? 2600);

/** A running sink. */
export interface SmtpSink {
  /** Messages so far. */
  readonly received: () => number;
  /** Why it has ended by itself, for instance because something else listens at its port; undefined while it runs. */
  readonly failure: () => string | undefined;
  readonly stop: () => void;
}

/** Starts smtp-sink; `received` reads the count that `-c` keeps printing. @param port where it listens, in place of `sinkPort` */
export function startSink(port: number = sinkPort): SmtpSink {
  const sink = spawn('smtp-sink', ['-c', '-u', 'nobody', `127.0.0.1:${port}`, '1000'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let count = 0;
  let failure: string | undefined;
  const stopWithUs = () => void sink.kill('SIGTERM');
  process.once('exit', stopWithUs);
  sink.once('error', (error) => (failure = `smtp-sink (Debian package postfix) did not start: ${error.message}`));
  sink.once('exit', (code) => {
    process.off('exit', stopWithUs);
    failure = `smtp-sink at port ${port} ended with ${code}: does another one still run?`;
  });
  sink.stdout.setEncoding('latin1').on('data', (text: string) => {
    const last = [...text.matchAll(/mesg=(\d+)/g)].at(-1);
    if (last) count = Number(last[1]);
  });
  return { received: () => count, failure: () => failure, stop: () => void sink.kill('SIGTERM') };
}

/** Waits until so many messages have come. */
export async function untilReceived(sink: SmtpSink, messages: number): Promise<void> {
  const deadline = Date.now() + 120_000;
  while (sink.received() < messages) {
    const failure = sink.failure();
    if (failure !== undefined) throw new Error(failure);
    if (Date.now() > deadline) throw new Error(`only ${sink.received()} of ${messages} messages reached the sink`);
    await new Promise((wait) => setTimeout(wait, 5));
  }
}
