// What a whole Postern needs that starts on a long queue while its next hop is down, and drains it when the next hop is back.
// The next hop is Postfix's smtp-sink, a process of its own, so that every figure of memory is Postern's alone.

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { startPostern } from './postern-under-test.ts';
import { cpuSeconds, peakMebibytes, residentMebibytes } from './process-usage.ts';
import { type SmtpSink, sinkPort, startSink } from './smtp-sink.ts';

/** The name of the only route; the queue's messages wait for it. */
export const drainedRoute = 'out';

/** The largest resident memory of a process at each tenth of what is drained, MiB. */
async function drain(sink: SmtpSink, wanted: number, pid: number): Promise<readonly number[]> {
  const tenths: number[] = [];
  let [last, since] = [0, performance.now()];
  let most = 0;
  while (sink.received() < wanted) {
    await sleep(100);
    most = Math.max(most, residentMebibytes(pid));
    if (sink.received() >= ((tenths.length + 1) * wanted) / 10) {
      tenths.push(most);
      most = 0;
    }
    if (sink.received() > last) [last, since] = [sink.received(), performance.now()];
    if (performance.now() - since > 120_000) throw new Error(`nothing came for two minutes behind message ${last}`);
  }
  return tenths;
}

/**
 * Starts Postern on a folder whose `data/postern.db` has a queue, and prints what it needs.
 * @param drained how many messages are waited for once the next hop is back
 */
export async function measureOutage(folder: string, drained: number): Promise<void> {
  const route = { name: drainedRoute, type: 'smarthost', url: `smtp://127.0.0.1:${sinkPort}`, tls: 'none' };
  const began = performance.now();
  const postern = await startPostern({
    folder,
    platformSignature: false,
    routes: [{ ...route, connections: 10, platformSignature: true }],
  });
  const startSeconds = (performance.now() - began) / 1000;
  await sleep(5000);
  const down = peakMebibytes(postern.pid);
  const sink = startSink();
  const backAt = performance.now();
  while (sink.received() === 0) await sleep(5);
  const firstMs = performance.now() - backAt;
  const cpu = cpuSeconds(postern.pid);
  const tenths = await drain(sink, drained, postern.pid);
  const seconds = (performance.now() - backAt - firstMs) / 1000;
  const cost = ((cpuSeconds(postern.pid) - cpu) / drained) * 1e6;
  process.stdout.write(
    `start ${startSeconds.toFixed(2)} s; Postern's own memory at its peak ${down.toFixed(0)} MiB while the next hop is down and ` +
      `${peakMebibytes(postern.pid).toFixed(0)} MiB after ${drained.toLocaleString('en')} messages were drained ` +
      `(in each tenth ${tenths.map((one) => one.toFixed(0)).join(', ')}); first message ${firstMs.toFixed(0)} ms after it is ` +
      `back, then ${(drained / seconds).toFixed(0)} messages a second, ${cost.toFixed(0)} us of CPU each\n`,
  );
  sink.stop();
  await postern.stop();
  if (existsSync(join(folder, 'log'))) throw new Error(`${folder} is still there`);
}
