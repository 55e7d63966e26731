// An Exim of the test's own (Debian), below a scratch folder. Its package cannot be installed beside Postfix: apt fetches it,
// and it is unpacked, not installed. It insists on a user of its own, so it runs with a passwd of its own (unshare).

import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { freePort } from './free-port.ts';
import { unpackPackages } from './unpacked-packages.ts';

/** A running Exim. */
export interface Exim {
  readonly port: number;
  mainLog(): string;
  stop(): Promise<void>;
}

function program(): string {
  return join(unpackPackages('exim', ['exim4-daemon-light']), 'usr/sbin/exim4');
}

function configuration(exim: string, folder: string, port: number, { next, dsn, more }: EximOptions): string {
  const { routers = '', transports = '' } = more?.(folder) ?? {};
  return `exim_path = ${exim}
spool_directory = ${folder}/spool
log_file_path = ${folder}/spool/log-%s
pid_file_path = ${folder}/spool/exim.pid
primary_hostname = exim.example.com
local_interfaces = 127.0.0.1.${port}
daemon_smtp_ports = ${port}
tls_advertise_hosts =
keep_environment =
dsn_advertise_hosts = ${dsn ? '*' : ''}
acl_smtp_rcpt = accept_all
begin acl
accept_all:
  accept
begin routers
${routers}all:
  driver = manualroute
  route_list = * 127.0.0.1
  self = send
  transport = out
begin transports
out:
  driver = smtp
  port = ${next}
${transports}begin retry
* * F,1m,1s
`;
}

/** What an Exim is started with. */
interface EximOptions {
  /** A port of loopback to which it hands all mail that no other router takes. */
  readonly next: number;
  readonly dsn: boolean;
  /** Where it listens; absent: at a free port. */
  readonly port?: number;
  /** Routers before that one, and transports, each a text of whole lines; gets the Exim's folder. */
  readonly more?: (folder: string) => { readonly routers?: string; readonly transports?: string };
}

async function listens(port: number): Promise<boolean> {
  return await new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('error', () => resolve(false));
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
  });
}

/** Starts one. */
export async function startExim(options: EximOptions): Promise<Exim> {
  const exim = program();
  const folder = mkdtempSync('/tmp/postern-exim-');
  execFileSync('chmod', ['755', folder]);
  mkdirSync(join(folder, 'spool'));
  execFileSync('chown', ['999:999', join(folder, 'spool')]);
  const port = options.port ?? (await freePort());
  writeFileSync(join(folder, 'exim.conf'), configuration(exim, folder, port, options));
  writeFileSync(join(folder, 'passwd'), `${readFileSync('/etc/passwd', 'utf8')}Debian-exim:x:999:999::/:/bin/false\n`);
  writeFileSync(join(folder, 'group'), `${readFileSync('/etc/group', 'utf8')}Debian-exim:x:999:\n`);
  const script = `mount --bind ${folder}/passwd /etc/passwd && mount --bind ${folder}/group /etc/group &&
    exec ${exim} -C ${folder}/exim.conf -bdf -q1s`;
  const child: ChildProcess = spawn('unshare', ['-m', 'sh', '-c', script], { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream?.setEncoding('utf8').on('data', (text) => (output += text));
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  for (let waitedMs = 0; !(await listens(port)); waitedMs += 50) {
    if (waitedMs > 10_000 || child.exitCode !== null) throw new Error(`Exim does not listen on ${port}: ${output}`);
    await new Promise((wait) => setTimeout(wait, 50));
  }
  return {
    port,
    mainLog: () => readFileSync(join(folder, 'spool/log-main'), 'utf8'),
    stop: async () => {
      child.kill();
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
