// Debian's nginx as a reverse proxy for a measurement: one worker, connections to the origin kept open, a log line a request
// as Postern writes one, error pages from files that it chooses by Accept, everything in a scratch folder.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
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

/** What it is to serve. */
export interface NginxOptions {
  readonly originPort: number;
  /** Where nobody listens: the origin of `down.example`. */
  readonly closedPort: number;
  /** The pages of errors. */
  readonly pages: Readonly<Record<'json' | 'markdown' | 'html', Buffer>>;
}

/** A port of 127.0.0.1 that nobody has. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

/** Serves the pages with an error's status and the fields that Postern's answers have. */
function pages(folder: string, status: number): string {
  return `error_page ${status} /page.$format;
    location ~ ^/page[.] {
      internal;
      root ${folder};
      etag off;
      add_header Ray-ID $request_id always;
      add_header Cache-Control "private, no-store" always;
      add_header Vary Accept always;
      add_header X-Content-Type-Options nosniff always;
      add_header Retry-After 120 always;
    }`;
}

type Places = Pick<NginxOptions, 'originPort' | 'closedPort'> & { readonly port: number };

function configuration(folder: string, { port, originPort, closedPort }: Places): string {
  return `daemon off; worker_processes 1; pid ${folder}/pid; error_log ${folder}/error.log;
events { worker_connections 4096; }
http {
  access_log ${folder}/access.log combined buffer=8k flush=1s;
  client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy; fastcgi_temp_path ${folder}/fastcgi;
  uwsgi_temp_path ${folder}/uwsgi; scgi_temp_path ${folder}/scgi;
  keepalive_requests 100000000;
  types { application/json json; text/markdown markdown; text/html html; }
  map $http_accept $format { default html; application/json json; text/markdown markdown; }
  open_file_cache max=100;
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
    location = /cdn-cgi/error/522 { return 522; }
    ${pages(folder, 522)}
  }
  server {
    listen 127.0.0.1:${port};
    server_name down.example;
    location / { proxy_pass http://127.0.0.1:${closedPort}; }
    ${pages(folder, 502)}
  }
}
`;
}

/** Whether something takes connections at a port of 127.0.0.1. */
export async function takesConnections(port: number): Promise<boolean> {
  const probe = connect({ port, host: '127.0.0.1' });
  const isUp = await Promise.race([
    once(probe, 'connect').then(() => true),
    once(probe, 'error').then(() => false),
  ]).catch(() => false);
  probe.destroy();
  return isUp;
}

function childOf(pid: number): number | undefined {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').trim();
  return children === '' ? undefined : Number(children.split(' ')[0]);
}

/** Starts it and waits until it answers. */
export async function startNginx({ originPort, closedPort, pages: files }: NginxOptions): Promise<NginxUnderTest> {
  const folder = mkdtempSync(join(tmpdir(), 'postern-bench-nginx-'));
  const port = await freePort();
  writeFileSync(join(folder, 'nginx.conf'), configuration(folder, { port, originPort, closedPort }));
  for (const [format, page] of Object.entries(files)) writeFileSync(join(folder, `page.${format}`), page);
  // A worker started by root runs as nobody, and reads the pages.
  chmodSync(folder, 0o755);
  const child = spawn('nginx', ['-p', folder, '-c', join(folder, 'nginx.conf')], { stdio: 'inherit' });
  const exited = once(child, 'exit');
  const deadline = Date.now() + 10_000;
  for (;;) {
    const isUp = await takesConnections(port);
    const pid = isUp && child.pid !== undefined ? childOf(child.pid) : undefined;
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
