// Hostile HTTP clients and origins at once, for a few seconds, or for as long as HOSTILE_SECONDS says: the process lives on,
// an honest client is never refused, and every gauge, timer and descriptor is back where it was (D66). Then SIGTERM in the
// middle of it ends the process within its drain time (D97).

import { readdirSync } from 'node:fs';
import { request as askHttp } from 'node:http';
import { expect, onTestFinished, test } from 'vitest';
import { always, faultOrigin } from '../support/fault-origin.ts';
import { attackHttp, hostileOrigin } from '../support/hostile-http.ts';
import { type PosternProcess, startPostern } from '../support/postern-process.ts';

const seconds = Number(process.env['HOSTILE_SECONDS'] ?? 8);

/** The gauges that say what is open, by name; `timers` is Node's own count. */
async function gauges(port: number): Promise<Readonly<Record<string, number>>> {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`, { headers: { Connection: 'close' } })).text();
  const value = (name: string): number => {
    const line = text.split('\n').find((one) => one.startsWith(`${name} `));
    return Number(line?.slice(name.length + 1) ?? 0);
  };
  return {
    // This question itself is one of each.
    connections: value('postern_http_connections') - 1,
    answers: value('postern_http_requests') - 1,
    waiting: value('postern_http_waiting_octets'),
    edge: value('postern_edge_requests_open'),
    origins: value('postern_edge_origin_requests'),
    timers: value('nodejs_active_resources{type="Timeout"}'),
  };
}

function descriptors({ pid }: PosternProcess): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

/** One request of an honest client, from an address of its own. */
function askHonestly(port: number, host: string, path: string): Promise<number | string> {
  return new Promise((resolve) => {
    const options = { host: '127.0.0.1', localAddress: '127.0.0.2', port, path, headers: { Host: host }, agent: false };
    const sent = askHttp(options, (answer) => {
      answer.resume();
      answer.on('end', () => resolve(answer.statusCode ?? 0));
      answer.on('error', (error) => resolve(error.message));
    });
    sent.on('error', (error) => resolve(error.message));
    sent.end();
  });
}

test('clients and origins that do everything wrong leave nothing behind', {
  timeout: (seconds + 100) * 1000,
}, async () => {
  const good = await faultOrigin(always('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'));
  const bad = await hostileOrigin();
  const zone = (name: string, digit: string, port: number) => ({
    name,
    id: digit.repeat(32),
    account: 'dev',
    origin: `http://127.0.0.1:${port}`,
  });
  const postern = await startPostern({
    config: {
      development: {},
      drainSeconds: 3,
      smtp: { listeners: [] },
      http: { listen: '127.0.0.1:0', limits: { connections: 500, connectionsPerAddress: 150 } },
      edge: { responseTimeoutSeconds: 2, limits: { requests: 200, requestsPerZone: 120, requestsPerAddress: 80 } },
      platform: { dkim: [{ selector: 'p1', algorithm: 'ed25519' }] },
      accounts: [{ name: 'dev', id: 'a'.repeat(32) }],
      zones: [zone('good.example', '1', good.port), zone('bad.example', '2', bad.port)],
    },
  });
  onTestFinished(async () => {
    await postern.cleanUp();
    await good.close();
    await bad.close();
  });
  const port = postern.ports['http'] ?? 0;
  const at = {
    port,
    tlsPort: postern.ports['https'] ?? 0,
    hosts: ['bad.example', 'good.example', 'localhost', 'nobody.example'],
  };
  expect(await askHonestly(port, 'good.example', '/')).toBe(200);
  const before = { gauges: await gauges(port), descriptors: descriptors(postern) };

  const attack = attackHttp(at, { seconds, clients: 60 });
  const until = performance.now() + seconds * 1000;
  const honest: (number | string)[] = [];
  while (performance.now() < until) {
    honest.push(await askHonestly(port, 'good.example', '/'), await askHonestly(port, 'localhost', '/livez'));
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  const report = await attack;
  console.log(JSON.stringify({ ...report, seconds, honest: honest.length }));
  expect(report.connections).toBeGreaterThan(seconds);
  expect(honest.filter((status) => status !== 200)).toEqual([]);

  // Connections to origins are kept for 15 s.
  const isBack = (found: Readonly<Record<string, number>>): boolean =>
    Object.entries(found).every(([name, value]) => value <= (before.gauges[name] ?? 0));
  await expect.poll(async () => isBack(await gauges(port)), { timeout: 40_000, interval: 500 }).toBe(true);
  await expect.poll(() => descriptors(postern), { timeout: 30_000 }).toBeLessThanOrEqual(before.descriptors);
  expect(postern.log().filter(({ level }) => level === 'error' || level === 'fatal')).toEqual([]);

  const again = attackHttp(at, { seconds: 2, clients: 60 });
  await new Promise((resolve) => setTimeout(resolve, 1000));
  // A process that does not end runs into the time limit of the test.
  expect(await postern.end('SIGTERM')).toBe(0);
  await again;
});
