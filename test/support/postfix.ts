// A Postfix of the test's own (Debian), below a scratch folder; /etc is not touched.

import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePort } from './free-port.ts';

/** What a Postfix is started with. */
export interface PostfixOptions {
  /**
   * Lines of main.cf, e.g. `relayhost = [127.0.0.1]:2587`; a function is given the Postfix's folder and may put files
   * there first.
   */
  readonly mainCf: readonly string[] | ((folder: string) => readonly string[]);
  /** Where it listens; absent: a free port. */
  readonly port?: number;
}

/** A running Postfix. */
export interface Postfix {
  readonly port: number;
  readonly folder: string;
  mailLog(): string;
  /** Stops it and removes its folder. */
  stop(): void;
}

const services = `pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
verify unix - - n - 1 verify
flush unix n - n 1000? 0 flush
proxymap unix - - n - - proxymap
proxywrite unix - - n - 1 proxymap
smtp unix - - n - - smtp
relay unix - - n - - smtp
showq unix n - n - - showq
error unix - - n - - error
retry unix - - n - - error
discard unix - - n - - discard
local unix - n n - - local
virtual unix - n n - - virtual
lmtp unix - - n - - lmtp
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
postlog unix-dgram n - n - 1 postlogd
`;

/** Ends a Postfix and takes its folder away. */
function stopPostfix(folder: string): void {
  execFileSync('postfix', ['-c', join(folder, 'conf'), 'stop'], { stdio: 'pipe' });
  rmSync(folder, { recursive: true, force: true });
}

/** Starts it on a free port of loopback. Port 0 is not to be had: a port that was free a moment ago is taken. */
export async function startPostfix(options: PostfixOptions): Promise<Postfix> {
  const folder = mkdtempSync('/tmp/postern-postfix-');
  execFileSync('chmod', ['755', folder]);
  for (const name of ['conf', 'queue', 'data']) mkdirSync(join(folder, name), { mode: 0o755 });
  execFileSync('chown', ['postfix:root', join(folder, 'data')]);
  const port = options.port ?? (await freePort());
  const log = join(folder, 'maillog');
  const mainCf = typeof options.mainCf === 'function' ? options.mainCf(folder) : options.mainCf;
  writeFileSync(
    join(folder, 'conf/main.cf'),
    `compatibility_level = 3.6
queue_directory = ${folder}/queue
data_directory = ${folder}/data
command_directory = /usr/sbin
daemon_directory = /usr/lib/postfix/sbin
mail_owner = postfix
setgid_group = postdrop
myhostname = postfix.example.com
mydestination =
mynetworks = 127.0.0.0/8
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
smtp_host_lookup = native
smtp_dns_support_level = disabled
alias_maps =
alias_database =
local_recipient_maps =
local_transport = error:no
maillog_file = ${log}
maillog_file_prefixes = /tmp
smtpd_relay_restrictions = permit_mynetworks, permit_sasl_authenticated, reject
smtpd_recipient_restrictions = permit_mynetworks, reject
import_environment = MAIL_CONFIG
minimal_backoff_time = 5s
maximal_backoff_time = 10s
queue_run_delay = 5s
${mainCf.join('\n')}
`,
  );
  writeFileSync(join(folder, 'conf/master.cf'), `127.0.0.1:${port} inet n - n - - smtpd\n${services}`);
  writeFileSync(log, '');
  execFileSync('postfix', ['-c', join(folder, 'conf'), 'start'], { stdio: 'pipe' });
  return {
    port,
    folder,
    mailLog: () => readFileSync(log, 'utf8'),
    stop: () => stopPostfix(folder),
  };
}
