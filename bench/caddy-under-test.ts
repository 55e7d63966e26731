// Debian's Caddy as a reverse proxy for a measurement: one thread for Go's code, as nginx has one worker, a log line a request, error
// pages from files that it chooses by Accept, everything in a scratch folder.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort, type NginxOptions, type NginxUnderTest, takesConnections } from './nginx-under-test.ts';

function configuration(folder: string, port: number, { originPort, closedPort }: NginxOptions): string {
  const errors = (status: number): string => `handle_errors {
    root * ${folder}
    @json header Accept *json*
    @markdown header Accept *markdown*
    rewrite @json /page.json
    rewrite @markdown /page.markdown
    header @markdown Content-Type text/markdown
    @html header Accept *html*
    rewrite @html /page.html
    header {
      Ray-ID {http.request.uuid}
      Cache-Control "private, no-store"
      Vary Accept
      X-Content-Type-Options nosniff
      Retry-After 120
    }
    file_server {
      status ${status}
    }
  }`;
  const log = `log {
    output file ${folder}/access.log {
      roll_disabled
    }
  }`;
  return `{
  auto_https off
  admin off
}
http://bench.example:${port} {
  bind 127.0.0.1
  ${log}
  @error path /cdn-cgi/error/522
  error @error 522
  header Ray-ID {http.request.uuid}
  reverse_proxy 127.0.0.1:${originPort} {
    header_up Via "1.1 caddy"
    transport http {
      keepalive_idle_conns_per_host 128
    }
  }
  ${errors(522)}
}
http://down.example:${port} {
  bind 127.0.0.1
  ${log}
  reverse_proxy 127.0.0.1:${closedPort}
  ${errors(502)}
}
`;
}

/** Starts it and waits until it answers. */
export async function startCaddy(options: NginxOptions): Promise<NginxUnderTest> {
  const folder = mkdtempSync(join(tmpdir(), 'postern-bench-caddy-'));
  const port = await freePort();
  const file = join(folder, 'Caddyfile');
  writeFileSync(file, configuration(folder, port, options));
  for (const [format, page] of Object.entries(options.pages)) writeFileSync(join(folder, `page.${format}`), page);
  const env = { ...process.env, GOMAXPROCS: '1', HOME: folder };
  const child = spawn('caddy', ['run', '--adapter', 'caddyfile', '--config', file], {
    env,
    stdio: ['ignore', 'ignore', 'ignore'],
  });
  const exited = once(child, 'exit');
  const deadline = Date.now() + 10_000;
  while (!(await takesConnections(port))) {
    if (Date.now() > deadline || child.exitCode !== null) throw new Error('Caddy did not start');
    await new Promise((wait) => setTimeout(wait, 50));
  }
  return {
    pid: child.pid ?? 0,
    port,
    stop: async () => {
      child.kill('SIGTERM');
      await exited;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
