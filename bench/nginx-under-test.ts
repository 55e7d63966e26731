// Debian's nginx as a reverse proxy for a measurement: one worker, connections to the origin kept open, a log line a request
// as Postern writes one, everything in a scratch folder.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A running nginx. */
export interface NginxUnderTest {
  /** Of the worker. */
  readonly pid: number;
  readonly port: number;
  stop(): Promise<void>;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

function configuration(folder: string, { port, originPort }: { port: number; originPort: number }): string {
  return `daemon off; worker_processes 1; pid ${folder}/pid; error_log ${folder}/error.log;
events { worker_connections 4096; }
http {
  access_log ${folder}/access.log combined buffer=8k flush=1s;
  client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy; fastcgi_temp_path ${folder}/fastcgi;
  uwsgi_temp_path ${folder}/uwsgi; scgi_temp_path ${folder}/scgi;
  keepalive_requests 100000000;
  upstream origin { server 127.0.0.1:${originPort}; keepalive 128; keepalive_requests 100000000; }
  server {
    listen 127.0.0.1:${port};
    server_name bench.example;
    location / {
      proxy_pass http://origin;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $http_host;
      proxy_set_header Via "1.1 nginx";
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_set_header X-Forwarded-Proto $scheme;
      proxy_set_header X-Forwarded-Host $http_host;
      add_header Ray-ID $request_id;
    }
  }
}
`;
}

function childOf(pid: number): number | undefined {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').trim();
  return children === '' ? undefined : Number(children.split(' ')[0]);
}

/** Starts it before an origin and waits until it answers. */
export async function startNginx(originPort: number): Promise<NginxUnderTest> {
  const folder = mkdtempSync(join(tmpdir(), 'postern-bench-nginx-'));
  const port = await freePort();
  writeFileSync(join(folder, 'nginx.conf'), configuration(folder, { port, originPort }));
  const child = spawn('nginx', ['-p', folder, '-c', join(folder, 'nginx.conf')], { stdio: 'inherit' });
  const exited = once(child, 'exit');
  const deadline = Date.now() + 10_000;
  for (;;) {
    const probe = connect({ port, host: '127.0.0.1' });
    const up = await Promise.race([
      once(probe, 'connect').then(() => true),
      once(probe, 'error').then(() => false),
    ]).catch(() => false);
    probe.destroy();
    const pid = up && child.pid !== undefined ? childOf(child.pid) : undefined;
    if (pid !== undefined) {
      return {
        pid,
        port,
        stop: async () => {
          child.kill('SIGTERM');
          await exited;
          rmSync(folder, { recursive: true, force: true });
        },
      };
    }
    if (Date.now() > deadline || child.exitCode !== null) throw new Error('nginx did not start');
    await new Promise((wait) => setTimeout(wait, 50));
  }
}
