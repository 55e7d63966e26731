// Debian's HAProxy as a TCP proxy for a measurement: one thread, a log line a connection as Postern writes one, everything
// in a scratch folder.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A running HAProxy. */
export interface HaproxyUnderTest {
  readonly pid: number;
  readonly address: string;
  readonly port: number;
  stop(): Promise<void>;
}

const address = '127.0.0.1';

async function freePort(): Promise<number> {
  const server = createServer().listen(0, address);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

function configuration(port: number, originPort: number): string {
  return `global
  nbthread 1
  maxconn 4000
  log stdout format raw local0
defaults
  mode tcp
  log global
  option tcplog
  timeout connect 10s
  timeout client 1h
  timeout server 1h
listen bench
  bind ${address}:${port}
  server origin 127.0.0.1:${originPort}
`;
}

/** True once something takes connections there. */
export async function isUp(host: string, port: number): Promise<boolean> {
  const probe = connect({ host, port });
  const up = await new Promise<boolean>((resolve) => {
    probe.once('connect', () => resolve(true));
    probe.once('error', () => resolve(false));
  });
  probe.destroy();
  return up;
}

/** Starts it before an origin and waits until it takes connections. */
export async function startHaproxy(originPort: number): Promise<HaproxyUnderTest> {
  const folder = mkdtempSync(join(tmpdir(), 'postern-bench-haproxy-'));
  const port = await freePort();
  const file = join(folder, 'haproxy.cfg');
  writeFileSync(file, configuration(port, originPort));
  const log = openSync(join(folder, 'log'), 'w');
  const child = spawn('haproxy', ['-db', '-f', file], { stdio: ['ignore', log, log] });
  const exited = once(child, 'exit');
  const deadline = Date.now() + 10_000;
  while (!(await isUp(address, port))) {
    if (Date.now() > deadline || child.exitCode !== null) throw new Error('haproxy did not start');
    await new Promise((wait) => setTimeout(wait, 50));
  }
  return {
    pid: child.pid ?? 0,
    address,
    port,
    stop: async () => {
      child.kill('SIGTERM');
      await exited;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
